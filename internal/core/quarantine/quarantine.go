// Package quarantine keeps pods that decisions could not cope with from the others. A pod that
// a decision was given up for is decided about apart from then on, and less and less often, so
// that no other pod waits for it again.
//
// Pods of a bug are quarantined one by one. For effort it is all pods of a namespace that are as
// heavy (cluster.Constraints.Weight) as those that were too much: whoever made them could make them
// anew, under other names.
package quarantine

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

const (
	// waitMin and waitMax bound for how long a quarantined pod is not decided about. The time
	// doubles from one decision that was given up for it to the next.
	waitMin, waitMax = time.Minute, time.Hour
	// dueMax bounds how many pods whose time is over are decided about together.
	dueMax = 100
)

// Memory is what is known of pods that decisions could not cope with. The zero Memory knows
// nothing; one that is lost costs some decisions that are given up. Its size is bounded by the
// pods that are pending.
type Memory struct {
	pods       map[cluster.PodRef]term
	namespaces map[string]heavy
	weights    weights
}

// term is a quarantine: how long it lasts, and until when.
type term struct {
	wait  time.Duration
	until time.Time
	why   verdict.Verdict
}

// heavy is the quarantine of all pods of a namespace that weigh so much or more.
type heavy struct {
	term
	weight int
	// over: a decision has coped with them since. If none does with them and the others, the next
	// quarantine is the longer for this one.
	over bool
}

// has reports whether a pod is quarantined for the effort of its namespace's.
func (m *Memory) has(p *cluster.Pod, now weights) (h heavy, yes bool) {
	h, known := m.namespaces[p.Namespace]
	return h, known && !h.over && now.of(p, m.weights) >= h.weight
}

// weights are the weights of the constraints of pods that are pending. Those of a hostile pod have
// thousands of labels, which are counted once and not at each look.
type weights map[*cluster.Constraints]int

// of returns the weight of a pod's constraints, which before may know.
func (w weights) of(p *cluster.Pod, before weights) int {
	weight, known := w[p.Constraints]
	if known {
		return weight
	}
	if weight, known = before[p.Constraints]; !known {
		weight = p.Constraints.Weight()
	}
	w[p.Constraints] = weight
	return weight
}

// Parts is a snapshot divided.
type Parts struct {
	// Ordinary has the pending pods that are not quarantined, Due those to be decided about
	// apart, once Ordinary has been. Either may have none.
	Ordinary, Due *cluster.Snapshot
	// Waiting are the others, with why and until when they wait.
	Waiting []plan.Refusal
}

// Divide returns the parts of a snapshot. Pods that are pending no more are forgotten, namespaces
// once no heavy pod of theirs has come, or none was too much, for as long as they were quarantined.
func (m *Memory) Divide(snap *cluster.Snapshot) Parts {
	if len(m.pods)+len(m.namespaces) == 0 {
		m.weights = nil
		none := *snap
		none.Pending = nil
		return Parts{Ordinary: snap, Due: &none}
	}
	ordinary, due := *snap, *snap
	ordinary.Pending, due.Pending = nil, nil
	out := Parts{Ordinary: &ordinary, Due: &due}
	pods, namespaces := map[cluster.PodRef]term{}, maps.Clone(m.namespaces)
	maps.DeleteFunc(namespaces, func(_ string, h heavy) bool { return snap.At.After(h.until.Add(h.wait)) })
	now := weights{}
	for i := range snap.Pending {
		p := &snap.Pending[i]
		t, quarantined := m.pods[p.PodRef]
		if quarantined {
			pods[p.PodRef] = t
		}
		if h, ok := m.has(p, now); ok {
			namespaces[p.Namespace] = h
			if quarantined = true; h.until.After(t.until) {
				t = h.term
			}
		}
		switch {
		case !quarantined:
			ordinary.Pending = append(ordinary.Pending, *p)
		case snap.At.Before(t.until) || len(due.Pending) == dueMax:
			out.Waiting = append(out.Waiting, plan.Refusal{Pod: p.PodRef, Why: t.why})
		default:
			due.Pending = append(due.Pending, *p)
		}
	}
	m.pods, m.namespaces, m.weights = pods, namespaces, now
	return out
}

// Without returns the snapshot without the pending pods that are quarantined, due or not: who
// only wants to know where pods could go is not to learn anew that he can't cope with them. Those
// that a plan has a place for stay, and keep it.
func (m *Memory) Without(snap *cluster.Snapshot) *cluster.Snapshot {
	if len(m.pods)+len(m.namespaces) == 0 {
		return snap
	}
	out := *snap
	out.Pending = nil
	now := weights{}
	for i := range snap.Pending {
		p := &snap.Pending[i]
		_, alone := m.pods[p.PodRef]
		_, among := m.has(p, now)
		if quarantined := alone || among; p.Planned != "" || !quarantined {
			out.Pending = append(out.Pending, *p)
		}
	}
	return &out
}

// Learn quarantines the pods that a plan for the snapshot was given up for, and lets go those that
// it was not.
func (m *Memory) Learn(snap *cluster.Snapshot, p *plan.Plan) {
	left := map[cluster.PodRef]verdict.Verdict{}
	for _, r := range p.Refusals {
		if r.Why.Reason == verdict.TooMuchEffort || r.Why.Reason == verdict.DecisionFailed {
			left[r.Pod] = r.Why
		}
	}
	if len(left) == 0 && len(m.pods)+len(m.namespaces) == 0 {
		return
	}
	if m.pods == nil {
		m.pods, m.namespaces = map[cluster.PodRef]term{}, map[string]heavy{}
	}
	coped, failed, now := map[string]bool{}, map[string]heavy{}, weights{}
	for i := range snap.Pending {
		pod := &snap.Pending[i]
		why, out := left[pod.PodRef]
		switch h, known := m.namespaces[pod.Namespace]; {
		case !out:
			delete(m.pods, pod.PodRef)
			coped[pod.Namespace] = coped[pod.Namespace] || known && !h.over && now.of(pod, m.weights) >= h.weight
		case why.Reason == verdict.DecisionFailed:
			m.pods[pod.PodRef] = again(m.pods[pod.PodRef], why, snap.At)
		default:
			had, ok := failed[pod.Namespace]
			if weight := now.of(pod, m.weights); !ok || weight < had.weight {
				had.weight = weight
			}
			had.why = why
			failed[pod.Namespace] = had
		}
	}
	for namespace := range coped {
		if _, ok := failed[namespace]; !ok && coped[namespace] {
			h := m.namespaces[namespace]
			h.over, h.until = true, snap.At
			m.namespaces[namespace] = h
		}
	}
	for namespace, h := range failed {
		h.term = again(m.namespaces[namespace].term, h.why, snap.At)
		m.namespaces[namespace] = h
	}
}

// again returns the quarantine that follows another; the zero term: the first.
func again(t term, why verdict.Verdict, now time.Time) term {
	wait := min(max(2*t.wait, waitMin), waitMax)
	until := now.Add(wait)
	why.Detail += "; it is decided about again after " + until.UTC().Format(time.RFC3339)
	return term{wait, until, why}
}

// Len returns how many pods and namespaces are quarantined.
func (m *Memory) Len() (pods, namespaces int) { return len(m.pods), len(m.namespaces) }
