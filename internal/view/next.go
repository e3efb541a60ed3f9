package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// entriesMost is how many entries Next has.
const entriesMost = 200

// Next is what will be done next: what goes on now, then what time brings, then what waits for a
// condition.
type Next struct {
	Head
	Entries []Entry `json:"entries"`
	// More is how many entries were left out.
	More int `json:"more,omitempty"`
}

// Entry is one thing that goes on, or will.
type Entry struct {
	// At is when; zero: now, or when the condition When holds.
	At   time.Time `json:"at,omitzero"`
	Now  bool      `json:"now,omitempty"`
	When string    `json:"when,omitempty"`
	// Kind and Name are the subject: Node, NodePool, Pods or Offering.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Action is what is done; Unless is what can still stop it.
	Action string `json:"action"`
	Unless string `json:"unless,omitempty"`
}

// NextOf returns what will be done next.
func NextOf(s *State) Next { return nextOf(newReader(s)) }

func nextOf(r *reader) Next {
	s, b := r.State, &nextBuilder{reader: r}
	isAll := s.scope.namespace == "" && s.scope.selects == nil
	for i := range s.Snapshot.Nodes {
		if n := &s.Snapshot.Nodes[i]; n.Claim != "" && s.scope.namespace == "" && s.scope.has(n.Labels) {
			b.node(n)
		}
	}
	if isAll {
		b.pools()
		b.shortages()
	}
	if isAll || s.scope.namespace != "" {
		b.pending()
	}
	slices.SortStableFunc(b.entries, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(x.order(), y.order()), x.At.Compare(y.At), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	v := Next{Head: s.head("Next"), Entries: b.entries[:min(len(b.entries), entriesMost)]}
	if v.Entries == nil {
		v.Entries = []Entry{}
	}
	v.More = len(b.entries) - len(v.Entries)
	return v
}

// Subject returns what an entry is about.
func (e *Entry) Subject() string {
	if e.Kind == "Pods" {
		return e.Name
	}
	return e.Kind + " " + e.Name
}

// order is what comes first: what goes on now, what has a time, what has a condition.
func (e *Entry) order() int {
	switch {
	case e.Now:
		return 0
	case !e.At.IsZero():
		return 1
	default:
		return 2
	}
}

type nextBuilder struct {
	*reader
	entries []Entry
}

func (b *nextBuilder) add(e Entry) { b.entries = append(b.entries, e) }

// node adds what becomes of a node.
func (b *nextBuilder) node(n *cluster.Node) {
	st := b.status(n)
	e := Entry{Kind: "Node", Name: n.Name, When: st.When}
	switch st.State {
	case StateStarting, StateRebooting, StateDisrupted, StateTerminating:
		e.Now, e.Action = true, st.Text
		if st.State == StateTerminating && !n.Deadline.IsZero() {
			e.Unless = "what is left is ended by force at " + clock(n.Deadline)
		}
		b.add(e)
		return
	case StateDue:
		e.Action = "replaced: " + st.Text
		if st.When == ObservedWhen {
			e.Now, e.Action = true, st.Text
		}
		if until := st.Until; st.Cause.Reason == verdict.BudgetExhausted && !until.IsZero() {
			e.At, e.Unless = until, "nodes that are disrupted or not ready by then use up the budget"
		}
		b.add(e)
	}
	pool, ok := b.Snapshot.PoolByName(n.Pool)
	if !ok || pool.Static {
		return
	}
	b.removal(n, pool)
	if due := disrupt.DueAt(n); !n.Expires.IsZero() && due.After(b.Snapshot.At) {
		e := Entry{At: due, Kind: "Node", Name: n.Name, Action: fmt.Sprintf("replaced, because it expires at %s", clock(n.Expires)), Unless: "what holds its pods, until it expires"}
		paused := disrupt.Paused(b.Snapshot, n, plan.Expired)
		switch {
		case n.Reclaimed != "":
			e.Action = fmt.Sprintf("replaced, because the cloud takes it away at %s (%s)", clock(n.Expires), n.Reclaimed)
		case !paused.IsYes():
			e.At, e.When, e.Unless = time.Time{}, "when "+paused.Ends(), ""
		}
		b.add(e)
	}
}

// removal adds when a node may be removed to save its price.
func (b *nextBuilder) removal(n *cluster.Node, pool *cluster.Pool) {
	if paused := disrupt.Paused(b.Snapshot, n, plan.Underutilized); !paused.IsYes() {
		return
	}
	if at, ever := disrupt.ConsolidatableAt(n, pool); ever && at.After(b.Snapshot.At) && b.holds.Of(n).Kind == disrupt.HeldByNobody && (n.Empty || pool.Policy != cluster.PolicyEmpty) {
		e := Entry{At: at, Kind: "Node", Name: n.Name, Action: "consolidateAfter has elapsed: removed if its pods fit elsewhere for less", Unless: "a pod comes or goes before"}
		if n.Empty {
			e.Action, e.Unless = "consolidateAfter has elapsed: removed, it is empty", "a pod comes before, or the budget is used up"
		}
		b.add(e)
	}
}

// pools adds when budgets open and cooldowns end.
func (b *nextBuilder) pools() {
	for i := range b.Snapshot.Pools {
		p := &b.Snapshot.Pools[i]
		for _, reason := range budgetReasons() {
			if p.Paused != "" || b.ledger.Left(p.Name, reason) > 0 {
				continue
			}
			waiting := b.waiting(p.Name, reason)
			at := b.budgetOpens(p.Name, reason)
			if at.IsZero() || waiting == 0 {
				continue
			}
			b.add(Entry{At: at, Kind: "NodePool", Name: p.Name, Action: fmt.Sprintf("its budget for %s opens; %s %s for it", reason, counted(waiting, "node"), verb(waiting, "waits", "wait"))})
		}
		if c, ok := b.Memory.PoolCooldowns[p.Name]; ok && c.Until.After(b.Snapshot.At) {
			b.add(Entry{At: c.Until, Kind: "NodePool", Name: p.Name, Action: "replacements are launched from it again, after one failed"})
		}
	}
}

// waiting returns how many nodes of a pool wait for its budgets to allow disruption for a reason.
func (b *nextBuilder) waiting(pool, reason string) (n int) {
	for i := range b.Snapshot.Nodes {
		node := &b.Snapshot.Nodes[i]
		if node.Pool != pool || node.Claim == "" || node.Deleting || node.DisruptionReason != "" {
			continue
		}
		switch {
		case reason == plan.Drifted && node.Drifted != "",
			reason == plan.Empty && node.Empty && node.Drifted == "",
			reason == plan.Underutilized && !node.Empty && node.Drifted == "" && b.Stays[node.Name].Why.Reason == verdict.BudgetExhausted:
			n++
		}
	}
	return n
}

// pending adds what pending pods wait for.
func (b *nextBuilder) pending() {
	p := pendingOf(b.reader)
	for i := range p.Targets {
		t := &p.Targets[i]
		b.add(Entry{Now: true, Kind: "Pods", Name: fmt.Sprintf("%s for %s", counted(t.Pods, "pod"), t.Node), Action: "wait for their node", When: "when it takes pods, and kube-scheduler binds them"})
	}
	if p.Undecided > 0 {
		b.add(Entry{Now: true, Kind: "Pods", Name: counted(p.Undecided, "pod"), Action: "decided about", When: "when the batch window ends"})
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		b.add(Entry{Kind: "Pods", Name: fmt.Sprintf("%s (%s)", counted(g.Pods, "pod"), g.Workloads[0].Workload), Action: "given a node", When: g.Ends})
	}
}

// shortages adds when offerings are tried again.
func (b *nextBuilder) shortages() {
	for i := range b.Shortages {
		s := &b.Shortages[i]
		if s.Until.After(b.Snapshot.At) {
			b.add(Entry{At: s.Until, Kind: "Offering", Name: fmt.Sprintf("%s %s %s", s.Type, s.Zone, s.CapacityType), Action: "launched from again", Unless: "it is short once more"})
		}
	}
}

// clock returns an instant in words, in UTC.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }
