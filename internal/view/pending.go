package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// podsNamed is how many pods of a group are named.
const podsNamed = 20

// Pending is the pods that ask for a node.
type Pending struct {
	Head
	// Pods is how many there are: Refused of them have no place, Planned a node that is to take
	// them, and of Undecided nothing is decided yet.
	Pods      int `json:"pods"`
	Refused   int `json:"refused"`
	Planned   int `json:"planned"`
	Undecided int `json:"undecided"`
	// Groups are the refused pods by reason, the largest group first.
	Groups []PendingGroup `json:"groups"`
	// Targets are the nodes that planned pods are meant for.
	Targets []Target `json:"targets"`
}

// PendingGroup is pods that are refused for the same reason, in the same words.
type PendingGroup struct {
	Reason verdict.Reason `json:"reason"`
	// Text is the whole verdict, Misses the nearest miss of each NodePool, if there are several.
	Text   string `json:"text"`
	Misses []Miss `json:"misses,omitempty"`
	// Ends is what would end it.
	Ends string `json:"ends"`
	Pods int    `json:"pods"`
	// Since is when the first of them was created, or refused first if that is known. Times is how
	// often one was refused, as far as is known.
	Since     time.Time       `json:"since"`
	Times     int64           `json:"times,omitempty"`
	Workloads []WorkloadCount `json:"workloads"`
	// Names are some of the pods, as namespace/name.
	Names []string `json:"names"`
}

// Miss is why one NodePool can't take a pod.
type Miss struct {
	Subject string         `json:"subject"`
	Reason  verdict.Reason `json:"reason"`
	Text    string         `json:"text"`
	Ends    string         `json:"ends"`
}

// WorkloadCount is so many pods of a workload.
type WorkloadCount struct {
	Workload
	Pods int `json:"pods"`
}

// Target is a node that pods are planned for.
type Target struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
	// Names are some of the pods.
	Names []string `json:"names"`
}

// PendingOf returns the pods that ask for a node.
func PendingOf(s *State) Pending { return pendingOf(newReader(s)) }

func pendingOf(r *reader) Pending {
	s := r.State
	v := Pending{Head: s.head("Pending"), Groups: []PendingGroup{}, Targets: []Target{}}
	b := &pendingBuilder{out: &v, workloads: r.workloads, groups: map[string]int{}, targets: map[string]int{}}
	if s.Journal != nil && len(s.Snapshot.Pending)+len(s.Snapshot.Excluded) > 0 {
		b.known = s.Journal.Refused()
	}
	refused := make(map[cluster.PodRef]*verdict.Verdict, len(s.Refusals))
	for i := range s.Refusals {
		refused[s.Refusals[i].Pod] = &s.Refusals[i].Why
	}
	for i := range s.Snapshot.Pending {
		if s.Snapshot.Pending[i].Buffer == "" {
			b.add(&s.Snapshot.Pending[i], refused)
		}
	}
	for i := range s.Snapshot.Excluded {
		v.Pods++
		out := &s.Snapshot.Excluded[i]
		why := verdict.Of(verdict.Expendable, "", "its priority is too low for a node to be launched")
		if out.Delay > 0 {
			why = verdict.Of(verdict.ScaleUpDelayed, "", "it asks for no node until it is %s old", out.Delay)
		}
		if said := refused[out.PodRef]; said != nil {
			why = *said
		}
		b.refuse(out.PodRef, Workload{Namespace: out.Namespace, Kind: "Pod", Name: out.Name}, time.Time{}, &why)
	}
	slices.SortStableFunc(v.Groups, func(a, b PendingGroup) int { return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Text, b.Text)) })
	slices.SortFunc(v.Targets, func(a, b Target) int { return cmp.Compare(a.Node, b.Node) })
	return v
}

// pendingBuilder gathers pending pods.
type pendingBuilder struct {
	known           map[cluster.PodRef]Refused
	out             *Pending
	workloads       *workloads
	groups, targets map[string]int
}

func (b *pendingBuilder) add(p *cluster.Pod, refused map[cluster.PodRef]*verdict.Verdict) {
	b.out.Pods++
	why := refused[p.PodRef]
	switch {
	case why != nil:
		b.refuse(p.PodRef, b.workloads.ofPod(p), p.Created, why)
	case p.Planned != "":
		b.out.Planned++
		k, ok := b.targets[p.Planned]
		if !ok {
			k = len(b.out.Targets)
			b.targets[p.Planned] = k
			b.out.Targets = append(b.out.Targets, Target{Node: p.Planned})
		}
		t := &b.out.Targets[k]
		if t.Pods++; len(t.Names) < podsNamed {
			t.Names = append(t.Names, p.String())
		}
	default:
		b.out.Undecided++
	}
}

// refuse adds a refused pod to the group of its verdict.
func (b *pendingBuilder) refuse(pod cluster.PodRef, w Workload, created time.Time, why *verdict.Verdict) {
	b.out.Refused++
	text := why.String()
	key := string(why.Reason) + "\n" + text
	k, ok := b.groups[key]
	if !ok {
		k = len(b.out.Groups)
		b.groups[key] = k
		b.out.Groups = append(b.out.Groups, PendingGroup{Reason: why.Reason, Text: text, Misses: missesOf(why), Ends: when(why.Ends()), Workloads: []WorkloadCount{}})
	}
	g := &b.out.Groups[k]
	g.Pods++
	since := created
	if known, ok := b.known[pod]; ok {
		since, g.Times = known.First, max(g.Times, known.Times)
	}
	if g.Since.IsZero() || !since.IsZero() && since.Before(g.Since) {
		g.Since = since
	}
	if len(g.Names) < podsNamed {
		g.Names = append(g.Names, pod.String())
	}
	at, had := slices.BinarySearchFunc(g.Workloads, w, func(c WorkloadCount, w Workload) int { return c.compare(w) })
	if !had {
		g.Workloads = slices.Insert(g.Workloads, at, WorkloadCount{Workload: w})
	}
	g.Workloads[at].Pods++
}

// missesOf returns the verdicts below one.
func missesOf(v *verdict.Verdict) (misses []Miss) {
	for i := range v.Causes {
		c := &v.Causes[i]
		misses = append(misses, Miss{c.Subject, c.Reason, c.About("").String(), when(c.Reason.Ends())})
	}
	return misses
}

// when returns what ends a refusal as a clause; empty: it is not known.
func when(end string) string {
	if end == "" {
		return ""
	}
	return "when " + end
}

// refusedOf returns how many of the pending pods are refused.
func refusedOf(s *State) (n int) {
	is := make(map[cluster.PodRef]bool, len(s.Refusals))
	for i := range s.Refusals {
		is[s.Refusals[i].Pod] = true
	}
	for i := range s.Snapshot.Pending {
		if p := &s.Snapshot.Pending[i]; p.Buffer == "" && is[p.PodRef] {
			n++
		}
	}
	return n + len(s.Snapshot.Excluded)
}
