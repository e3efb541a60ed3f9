package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// This file knows in which order kube-scheduler can bind pods that must be with others:
// followers, each after one that leads it.

// upholdOrder takes pods away that could be bound in no order, because all that they must
// be with wait for them in turn, and places them anew one by one; in the last round it
// refuses them. It tells whether there were any.
func (s *solver) upholdOrder(seats [][]int32, last bool) (gone bool) {
	unled := s.followers(seats)
	s.countAll(unled, -1)
	led := func(c int, at *topology.Place) bool { return s.ledger.Attracted(c, at, false) }
	first := func(c int, at *topology.Place) bool { return s.ledger.Attracted(c, at, true) }
	for s.lead(unled, led, false) || s.lead(unled, first, true) {
	}
	s.countAll(unled, 1)
	for c, pods := range unled {
		for _, p := range pods {
			s.remove(&s.classes[c], p)
			gone = true
		}
	}
	if !gone {
		return false
	}
	for _, c := range s.order {
		for _, p := range unled[c] {
			s.refused[p] = verdict.Of(verdict.AffinityUnmet, "", "affinity: those that it must be with wait for it in turn")
			if !last {
				s.placeAnew(&s.classes[c], p)
			}
		}
	}
	return true
}

// holdsFirst tells whether pods of the class may be at the place before those come that
// come after them. Who could be the first of its kind is taken to wait for them.
func (s *solver) holdsFirst(c *class, at placement, seats [][]int32) bool {
	leads := func(f int) bool { return f != c.index && len(seats[f]) > 0 && s.ledger.Leads(c.index, f) }
	if !slices.ContainsFunc(s.order, leads) {
		return false
	}
	there := make([][]int32, len(seats))
	there[c.index] = slices.DeleteFunc(slices.Clone(seats[c.index]), func(p int32) bool { return s.placed[p] != at })
	after := s.followers(seats)
	after[c.index] = slices.DeleteFunc(after[c.index], func(p int32) bool { return s.placed[p] == at })
	s.countAll(there, -1)
	s.countAll(after, -1)
	for s.lead(after, s.ledger.MayBeAttracted, false) {
	}
	s.countAll(there, 1)
	holds := s.ledger.Holds(c.index, s.placeAt(at)).IsYes()
	s.countAll(after, 1)
	return holds
}

// followers returns by class the placed pods that must be with others.
func (s *solver) followers(seats [][]int32) [][]int32 {
	out := make([][]int32, len(seats))
	for c := range seats {
		if s.ledger.Follows(c) {
			out[c] = slices.DeleteFunc(slices.Clone(seats[c]), func(p int32) bool { return s.placed[p].kind == nowhere })
		}
	}
	return out
}

// countAll counts all of the pods n times.
func (s *solver) countAll(pods [][]int32, n int32) {
	for c := range pods {
		for _, p := range pods[c] {
			s.ledger.Count(c, s.placeAt(s.placed[p]), n, 0)
		}
	}
}

// lead counts waiting pods that somebody leads to where they are; one: only one of them.
// Whom it counts no longer waits. It tells whether there were any.
func (s *solver) lead(waiting [][]int32, led func(class int, at *topology.Place) bool, one bool) (some bool) {
	for c, pods := range waiting {
		left := pods[:0]
		for i, p := range pods {
			at := s.placeAt(s.placed[p])
			if !led(c, at) {
				left = append(left, p)
				continue
			}
			s.ledger.Count(c, at, 1, 0)
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
