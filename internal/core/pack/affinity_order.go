package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// This file is about the order in which kube-scheduler can bind pods with required affinity:
// a dependent only after a pod that its affinity selects. In the topology package's words the
// dependent follows, and that pod leads.

// validateAffinityOrder removes pods from their nodes that can be bound in no order, because
// they wait for each other (circular pod affinity), and places them anew one by one. In the
// last round it refuses them. It reports whether there were any.
func (s *solver) validateAffinityOrder(assignments [][]int32, last bool) (gone bool) {
	circular := s.dependents(assignments)
	s.countAll(circular, -1)
	after := func(c int, at *topology.Place) bool { return s.state.Topology.Ledger.Attracted(c, at, false) }
	first := func(c int, at *topology.Place) bool { return s.state.Topology.Ledger.Attracted(c, at, true) }
	for s.lead(circular, after, false) || s.lead(circular, first, true) {
	}
	s.countAll(circular, 1)
	for c, pods := range circular {
		for _, p := range pods {
			s.state.Remove(&s.state.Classes[c], p)
			gone = true
		}
	}
	if !gone {
		return false
	}
	for _, c := range s.state.Order {
		for _, p := range circular[c] {
			s.refused[p] = verdict.Of(verdict.AffinityUnmet, "", "circular pod affinity: the pods that it must be with have to wait for it")
			if !last {
				s.state.PlaceAnew(&s.state.Classes[c], p)
			}
		}
	}
	return true
}

// holdsFirst reports whether the rules of pods of the class on a node hold before the pods are
// bound that depend on them. A pod that may start an affinity group is assumed to come last.
func (s *solver) holdsFirst(c *model.PodClass, at model.Assignment, assignments [][]int32) bool {
	leads := func(f int) bool {
		return f != c.Index && len(assignments[f]) > 0 && s.state.Topology.Ledger.Leads(c.Index, f)
	}
	if !slices.ContainsFunc(s.state.Order, leads) {
		return false
	}
	there := make([][]int32, len(assignments))
	there[c.Index] = slices.DeleteFunc(slices.Clone(assignments[c.Index]), func(p int32) bool { return s.state.Assignments[p] != at })
	after := s.dependents(assignments)
	after[c.Index] = slices.DeleteFunc(after[c.Index], func(p int32) bool { return s.state.Assignments[p] == at })
	s.countAll(there, -1)
	s.countAll(after, -1)
	for s.lead(after, s.state.Topology.Ledger.MayBeAttracted, false) {
	}
	s.countAll(there, 1)
	holds := s.state.Topology.Ledger.Holds(c.Index, s.state.DomainsAt(at)).IsYes()
	s.countAll(after, 1)
	return holds
}

// dependents returns, by class, the assigned pods with required affinity.
func (s *solver) dependents(assignments [][]int32) [][]int32 {
	out := make([][]int32, len(assignments))
	for c := range assignments {
		if s.state.Topology.Ledger.Follows(c) {
			out[c] = slices.DeleteFunc(slices.Clone(assignments[c]), func(p int32) bool { return s.state.Assignments[p].Kind == model.Unplaced })
		}
	}
	return out
}

// countAll adds the pods to the topology counts n times; a negative n removes them.
func (s *solver) countAll(pods [][]int32, n int32) {
	for c := range pods {
		for _, p := range pods[c] {
			s.state.Topology.Ledger.Count(c, s.state.DomainsAt(s.state.Assignments[p]), n, 0)
		}
	}
}

// lead finds waiting pods that can be bound now where they are planned: those for which after
// is true. It counts them, and takes them off the list. one: it stops after the first. It
// reports whether there were any.
func (s *solver) lead(waiting [][]int32, after func(class int, at *topology.Place) bool, one bool) (some bool) {
	for c, pods := range waiting {
		left := pods[:0]
		for i, p := range pods {
			at := s.state.DomainsAt(s.state.Assignments[p])
			if !after(c, at) {
				left = append(left, p)
				continue
			}
			s.state.Topology.Ledger.Count(c, at, 1, 0)
			some = true
			if one {
				waiting[c] = append(left, pods[i+1:]...)
				return true
			}
		}
		waiting[c] = left
	}
	return some
}
