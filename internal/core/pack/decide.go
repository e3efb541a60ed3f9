package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// This file makes decisions that pods of others cannot spoil: a decision that takes too much
// effort, or that panics, is made again without the pods that caused it.

const (
	// halvesMax bounds how often a decision that takes too much effort is made again: each time with
	// half of the pods' weight, then with the pods that weigh no more than plainWeight, as ordinary
	// ones do, and in the end with plain pods only.
	halvesMax, plainWeight = 4, 24
	// searchesMax bounds how many decisions are made to find the pods that cause a panic, and
	// givenUpMax how many decisions are given up before all pods are refused.
	searchesMax, givenUpMax = 60, 12
)

// Decide is Solve for pods that anybody may have made. Pods for which a decision takes too
// much effort, or panics, are refused, and the decision is made for the rest: the same snapshot
// gives the same plan. Plan.GivenUp has the cause of each decision that was given up.
//
// Where the effort does not suffice, namespaces share what there is: no namespace gives up a
// pod while its pods weigh less than those that another one keeps.
//
// A gang gets nodes for as many pods as it needs at once, or none (gang.go). Solve does not know
// of gangs.
//
// The chunks of capacity buffers are placed when all other pods are, and take nothing from them
// (buffers.go). Plan.Buffers has where they are.
//
// Pods for which nothing is launched now (Snapshot.Excluded) are refused, and change nothing for others.
func Decide(snap *cluster.Snapshot, opts Options) plan.Plan {
	snap = leaveRunning(snap)
	all := snap
	if len(snap.Buffers) > 0 {
		all = withChunks(snap)
	}
	p := wholeGangs(all, func(snap *cluster.Snapshot) plan.Plan {
		d := decider{opts: opts, solve: trySolve}
		return d.decide(snap)
	})
	if len(snap.Buffers) > 0 {
		extractChunks(snap, &p)
	}
	refuseExcluded(snap, &p)
	return p
}

// refuseExcluded refuses the pods for which nothing is launched now.
func refuseExcluded(snap *cluster.Snapshot, p *plan.Plan) {
	if len(snap.Excluded) == 0 {
		return
	}
	p.Refusals = slices.Clip(p.Refusals)
	for i := range snap.Excluded {
		pod := &snap.Excluded[i]
		why := verdict.Of(verdict.ScaleUpDelayed, "", "nothing is launched for the pod until %s after its creation, by its annotation cluster-autoscaler.kubernetes.io/pod-scale-up-delay", pod.Delay)
		if pod.Delay == 0 {
			why = verdict.Of(verdict.Expendable, "", "nothing is launched for pods with a priority below %d (--expendable-pods-priority-cutoff), and the pod has %d", pod.Cutoff, pod.Priority)
		}
		p.Refusals = append(p.Refusals, plan.Refusal{Pod: pod.PodRef, Why: why})
	}
	slices.SortStableFunc(p.Refusals, func(a, b plan.Refusal) int { return a.Pod.Compare(b.Pod) })
}

// decider is one decision, made as often as it takes.
type decider struct {
	opts Options
	// solve is trySolve, but for tests.
	solve   func(*cluster.Snapshot, Options) (p plan.Plan, ended bool)
	givenUp []string
	// searches is how many decisions were made to find pods.
	searches int
}

func (d *decider) decide(snap *cluster.Snapshot) plan.Plan {
	p, cause := d.attempt(snap)
	if cause != "" && slices.ContainsFunc(snap.Pending, isChunk) {
		p = d.withoutChunks(snap, cause)
	} else {
		p = d.without(snap, p, cause)
	}
	p.GivenUp = d.givenUp
	return p
}

// without returns the plan of an attempt, or decides without the pods that are the cause for which
// there is none.
func (d *decider) without(snap *cluster.Snapshot, p plan.Plan, cause string) plan.Plan {
	switch cause {
	case "":
		return p
	case plan.CauseEffort:
		return d.withoutHeavy(snap)
	default:
		return d.withoutFatal(snap)
	}
}

func isChunk(p cluster.Pod) bool { return p.Buffer != "" }

// withoutChunks decides without the chunks of capacity buffers that are the cause for which there is
// no plan; without any chunk, if other pods are.
func (d *decider) withoutChunks(snap *cluster.Snapshot, cause string) plan.Plan {
	out := newLeftOut(snap, verdict.Of(verdict.DecisionFailed, "", "a decision about the buffer was given up (%s)", cause))
	pods := *snap
	pods.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), isChunk)
	chunks := func() *cluster.Snapshot {
		part := *out.kept
		part.Pending = slices.DeleteFunc(slices.Clone(out.kept.Pending), func(p cluster.Pod) bool { return !isChunk(p) })
		return &part
	}
	alone, podsCause := d.attempt(&pods)
	for range halvesMax {
		if cause == "" || podsCause != "" {
			break
		}
		if cause == plan.CauseEffort {
			out.leave(Heavy(chunks().Pending))
		} else {
			out.leave(setOf(d.fatal(out.kept, constraintSetsOf(chunks()), constraintSetsOf(&pods))))
		}
		var p plan.Plan
		if p, cause = d.attempt(out.kept); cause == "" {
			return out.with(p)
		}
	}
	out.leave(setOf(constraintSetsOf(chunks())))
	return out.with(d.without(&pods, alone, podsCause))
}

// attempt makes the decision once. cause says why there is no plan; empty: there is one.
func (d *decider) attempt(snap *cluster.Snapshot) (p plan.Plan, cause string) {
	defer func() {
		if r := recover(); r != nil {
			cause = effort.Bug(r)
			d.givenUp = append(d.givenUp, cause)
		}
	}()
	p, ended := d.solve(snap, d.opts)
	if !ended {
		cause = plan.CauseEffort
		d.givenUp = append(d.givenUp, cause)
	}
	return p, cause
}

// withoutHeavy decides about the pods that weigh least in their namespaces, half of the weight
// each time, then about those that weigh no more than ordinary ones, and in the end about plain
// pods.
func (d *decider) withoutHeavy(snap *cluster.Snapshot) plan.Plan {
	out := newLeftOut(snap, tooMuchEffort(effortFor(d.opts, snap)))
	for half := range halvesMax {
		switch half {
		case halvesMax - 1:
			out.leave(notPlain(out.kept))
		case halvesMax - 2:
			out.leave(notLight(out.kept))
		default:
			out.leave(Heavy(out.kept.Pending))
		}
		switch p, cause := d.attempt(out.kept); {
		case cause == "":
			return out.with(p)
		case cause != plan.CauseEffort:
			return out.with(d.withoutFatal(out.kept))
		}
	}
	return out.with(refuseAll(out.kept, out.why))
}

// withoutFatal decides without the pods that cause a panic. Where others cause one too, it leaves
// those out as well.
func (d *decider) withoutFatal(snap *cluster.Snapshot) plan.Plan {
	out := newLeftOut(snap, verdict.Of(verdict.DecisionFailed, "", "a decision about the pod ended in a bug of Dovetail (%s)", d.givenUp[len(d.givenUp)-1]))
	for len(d.givenUp) < givenUpMax {
		out.leave(setOf(d.fatal(out.kept, constraintSetsOf(out.kept), nil)))
		switch p, cause := d.attempt(out.kept); cause {
		case "":
			return out.with(p)
		case plan.CauseEffort:
			return out.with(d.withoutHeavy(out.kept))
		}
	}
	return out.with(refuseAll(out.kept, out.why))
}

// fatal returns at least one of the constraint sets: those that a decision about them and the
// others needs to panic. It searches by halves. Where neither half panics with the others, some
// of each half are needed, and those of one half are sought together with all of the other.
func (d *decider) fatal(snap *cluster.Snapshot, constraintSets, others []*cluster.Constraints) []*cluster.Constraints {
	if len(constraintSets) == 1 || d.searches == searchesMax {
		return constraintSets
	}
	first, second := constraintSets[:len(constraintSets)/2], constraintSets[len(constraintSets)/2:]
	for _, half := range [][]*cluster.Constraints{first, second} {
		if d.searches++; d.panics(only(snap, setOf(slices.Concat(half, others)))) {
			return d.fatal(snap, half, others)
		}
	}
	some := d.fatal(snap, first, slices.Concat(others, second))
	return slices.Concat(some, d.fatal(snap, second, slices.Concat(others, some)))
}

// panics reports whether a decision about the snapshot ends in a bug.
func (d *decider) panics(snap *cluster.Snapshot) bool {
	search := decider{opts: d.opts, solve: d.solve}
	_, cause := search.attempt(snap)
	return cause != "" && cause != plan.CauseEffort
}

// constraintSetsOf returns the distinct constraints of the pending pods, the heaviest first.
func constraintSetsOf(snap *cluster.Snapshot) []*cluster.Constraints {
	var constraintSets []*cluster.Constraints
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		if sh := snap.Pending[i].Constraints; !seen[sh] {
			seen[sh] = true
			constraintSets = append(constraintSets, sh)
		}
	}
	slices.SortStableFunc(constraintSets, func(a, b *cluster.Constraints) int { return cmp.Compare(b.Weight(), a.Weight()) })
	return constraintSets
}

func setOf(constraintSets []*cluster.Constraints) map[*cluster.Constraints]bool {
	set := make(map[*cluster.Constraints]bool, len(constraintSets))
	for _, sh := range constraintSets {
		set[sh] = true
	}
	return set
}

// only returns the snapshot with no other pending pods than those with these constraints.
func only(snap *cluster.Snapshot, constraintSets map[*cluster.Constraints]bool) *cluster.Snapshot {
	part := *snap
	part.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return !constraintSets[p.Constraints] })
	return &part
}

// leftOut divides the pending pods of a snapshot into those that are decided about, and those
// that are left out and refused.
type leftOut struct {
	kept     *cluster.Snapshot
	why      verdict.Verdict
	refusals []plan.Refusal
}

func newLeftOut(snap *cluster.Snapshot, why verdict.Verdict) *leftOut {
	kept := *snap
	return &leftOut{kept: &kept, why: why}
}

// leave leaves the kept pods with these constraints out, and refuses them.
func (l *leftOut) leave(constraintSets map[*cluster.Constraints]bool) {
	kept := make([]cluster.Pod, 0, len(l.kept.Pending))
	for i := range l.kept.Pending {
		p := &l.kept.Pending[i]
		if constraintSets[p.Constraints] {
			l.refusals = append(l.refusals, plan.Refusal{Pod: p.PodRef, Why: l.why})
			continue
		}
		kept = append(kept, *p)
	}
	l.kept.Pending = kept
}

// with adds to the plan for the kept pods the refusals of the others, in the order of the pods'
// names.
func (l *leftOut) with(p plan.Plan) plan.Plan {
	p.Refusals = append(slices.Clip(p.Refusals), l.refusals...)
	slices.SortStableFunc(p.Refusals, func(a, b plan.Refusal) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return p
}

// notLight returns the constraints that weigh more than those of ordinary pods.
func notLight(snap *cluster.Snapshot) map[*cluster.Constraints]bool {
	set := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		if sh := snap.Pending[i].Constraints; sh.Weight() > plainWeight {
			set[sh] = true
		}
	}
	return set
}

// notPlain returns the constraints with rules about other pods, preferences or host ports, and
// those that are not light.
func notPlain(snap *cluster.Snapshot) map[*cluster.Constraints]bool {
	set := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		sh := snap.Pending[i].Constraints
		if len(sh.Spread)+len(sh.Affinity)+len(sh.AntiAffinity)+len(sh.Preferences)+len(sh.Ports) > 0 || sh.Weight() > plainWeight {
			set[sh] = true
		}
	}
	return set
}

// Heavy returns the constraints of the pods to leave out so that half of all weight is left.
// Namespaces share that half. A namespace that weighs no more than its share keeps all its pods.
// Each of the others keeps its lightest pods, up to the same weight, and at least the lightest
// one if that is no heavier than ordinary pods.
//
// A constraint set weighs once, and each of its pods weighs as much as the set exceeds
// plainWeight: many ordinary pods add little to a decision's effort, and do not make a namespace
// heavy.
func Heavy(pods []cluster.Pod) map[*cluster.Constraints]bool {
	type constraintPods struct {
		constraints *cluster.Constraints
		each        int // weight of one pod
		all         int
	}
	byNamespace := map[string][]*constraintPods{}
	byConstraints := map[*cluster.Constraints]*constraintPods{}
	var namespaces []string
	total := 0
	for i := range pods {
		p := &pods[i]
		s := byConstraints[p.Constraints]
		if s == nil {
			s = &constraintPods{constraints: p.Constraints, each: p.Constraints.Weight()}
			s.all = s.each
			total += s.each
			byConstraints[p.Constraints] = s
			if byNamespace[p.Namespace] == nil {
				namespaces = append(namespaces, p.Namespace)
			}
			byNamespace[p.Namespace] = append(byNamespace[p.Namespace], s)
		}
		s.all += max(0, s.each-plainWeight)
		total += max(0, s.each-plainWeight)
	}
	weightOf := func(namespace string) (sum int) {
		for _, s := range byNamespace[namespace] {
			sum += s.all
		}
		return sum
	}
	slices.SortStableFunc(namespaces, func(a, b string) int { return cmp.Compare(weightOf(a), weightOf(b)) })
	out, left := map[*cluster.Constraints]bool{}, total/2
	for i, namespace := range namespaces {
		share := left / (len(namespaces) - i)
		constraintSets := byNamespace[namespace]
		slices.SortStableFunc(constraintSets, func(a, b *constraintPods) int { return cmp.Compare(a.each, b.each) })
		kept := 0
		for i, s := range constraintSets {
			if lightest := i == 0 && s.each <= plainWeight; kept+s.all > share && !lightest {
				out[s.constraints] = true
				continue
			}
			kept += s.all
		}
		left -= kept
	}
	return out
}

// HoldChunks returns the snapshot with the chunks of its buffers on the running nodes that have room
// for them, as pods that can be moved and evict nobody. Chunks that no running node has room for
// are left out, so the answer has no buffers. at has the room of commands in progress taken.
//
// It is how disruption sees buffers. The nodes are those that Decide holds the chunks on.
func HoldChunks(snap, at *cluster.Snapshot, opts Options) *cluster.Snapshot {
	if len(snap.Buffers) == 0 {
		return snap
	}
	running := *at
	running.Pools = nil // what is to be launched is not there yet
	p := Decide(&running, opts)
	if len(p.GivenUp) > 0 { // because of pending pods, perhaps: then without them
		running.Pending, running.Gangs = nil, nil
		p = Decide(&running, opts)
	}
	held := *snap
	held.Nodes, held.Buffers = slices.Clone(snap.Nodes), nil
	index := make(map[string]int, len(held.Nodes))
	for i := range held.Nodes {
		index[held.Nodes[i].Name] = i
	}
	for i := range p.Buffers {
		b, next := &snap.Buffers[i], 1
		constraints := *b.Constraints
		for _, h := range p.Buffers[i].Held {
			putChunks(&held.Nodes[index[h.Node]], b, next, h.Count, &constraints)
			next += h.Count
		}
	}
	return &held
}
