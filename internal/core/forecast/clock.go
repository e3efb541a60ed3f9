package forecast

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
)

const (
	// soon is how long after a change the next decision is made.
	soon = time.Second
	// calm is the least time between decisions while only time passes: what happens within it is decided
	// about together.
	calm = time.Minute
	// apart is how many nodes that are launched together are initialized one after the other.
	apart = 16
)

// earliest collects the first of several times after now.
type earliest struct{ now, at time.Time }

func (e *earliest) note(at time.Time) {
	if at.After(e.now) && (e.at.IsZero() || at.Before(e.at)) {
		e.at = at
	}
}

// next returns when the next decision is to be made; zero: nothing will ever change.
func (s *state) next(acted bool) time.Time {
	if acted {
		return s.snap.At.Add(soon)
	}
	first := earliest{now: s.snap.At}
	for _, at := range s.until {
		first.note(at)
	}
	first.note(s.memory.CommandsAt)
	if !first.at.IsZero() {
		return first.at
	}
	if !s.searched {
		first.note(s.memory.SearchAt)
		first.note(s.memory.FullSearchAt)
		if !s.memory.ConclusiveAt.IsZero() {
			first.note(s.memory.ConclusiveAt.Add(s.memory.ConclusiveFor))
		}
		first.note(s.memory.BudgetWaitsAt.Add(calm))
		if first.at.IsZero() {
			first.note(s.snap.At.Add(calm))
		}
		return first.at
	}
	s.noteNodes(&first)
	for _, cooldowns := range []map[string]disrupt.Cooldown{s.memory.PoolCooldowns, s.memory.NodeCooldowns} {
		for _, c := range cooldowns {
			first.note(c.Until)
		}
	}
	if s.opts.BudgetsAt != nil {
		for i := range s.snap.Pools {
			_, changes := s.opts.BudgetsAt(s.snap.Pools[i].Name, s.snap.At)
			first.note(changes)
		}
	}
	if first.at.IsZero() {
		return first.at
	}
	s.searched = false // what then is, is searched anew
	if least := s.snap.At.Add(calm); first.at.Before(least) {
		return least
	}
	return first.at
}

// noteNodes notes when what keeps nodes is over by time alone.
func (s *state) noteNodes(first *earliest) {
	terms := s.opts.Disrupt.Terms.Complete()
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		pool, ok := s.snap.PoolByName(n.Pool)
		if !ok || n.Claim == "" || n.Deleting {
			continue
		}
		if at, ever := disrupt.ConsolidatableAt(n, pool); ever && (n.Empty || pool.Policy != cluster.PolicyEmpty) {
			first.note(at)
			first.note(n.PlannedUntil)
			if !n.Empty {
				first.note(n.Created.Add(consolidate.Young))
			}
		}
		if !n.Expires.IsZero() {
			first.note(disrupt.DueAt(n))
			first.note(n.Expires)
		}
		for _, a := range n.Ailments {
			first.note(a.Due)
		}
		if pool.Policy == cluster.PolicyEmpty {
			continue
		}
		for k := range n.Reschedulable {
			if r := &n.Reschedulable[k]; !r.Moved.IsZero() {
				first.note(terms.CoolsDownAt(r))
			}
		}
	}
}

// elapse lets time pass: nodes are initialized or gone when their time has come, expired nodes go, and budgets
// open and close.
func (s *state) elapse(at time.Time) {
	s.snap.At = at
	gone := map[string]bool{}
	for name, due := range s.until {
		n := s.node(name)
		if due.After(at) || n == nil {
			continue
		}
		delete(s.until, name)
		s.events++
		if n.Deleting {
			gone[name] = true
			continue
		}
		n.Initialized, n.Ready, n.LastPodEvent = true, true, at
		s.initialized++
	}
	if len(gone) > 0 {
		s.snap.Nodes = slices.DeleteFunc(s.snap.Nodes, func(n cluster.Node) bool { return gone[n.Name] })
		s.noteDone(gone)
	}
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		if n.Claim != "" && !n.Deleting && !n.Expires.IsZero() && !n.Expires.After(at) {
			s.out.Steps = append(s.out.Steps, Step{At: at, Reason: disrupt.Expired, Remove: []Node{s.shown(n)}, Evictions: n.Evictions()})
			s.remove(n)
		}
	}
	if s.opts.BudgetsAt != nil {
		for i := range s.snap.Pools {
			s.snap.Pools[i].Budgets, _ = s.opts.BudgetsAt(s.snap.Pools[i].Name, at)
		}
	}
}

// noteDone notes which steps have come to their end.
func (s *state) noteDone(gone map[string]bool) {
	for i := range s.out.Steps {
		step := &s.out.Steps[i]
		for _, n := range step.Remove {
			if gone[n.Name] && step.Undone == "" {
				step.DoneAt = s.snap.At
			}
		}
	}
}
