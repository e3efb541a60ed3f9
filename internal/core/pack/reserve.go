package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// reserve gives each launch that may be covered by a reservation the cheapest one that
// has something left, and settles it on that one. A launch that gets none is left with
// what can be bought; if that is nothing, its pods wait for a reservation to be free.
func (s *solver) reserve() {
	left := s.reservationsLeft()
	if len(left) == 0 {
		return
	}
	for _, b := range s.launches {
		id, ok := b.cheapestReservation(left)
		if ok {
			left[id]--
			b.terms = append(b.terms, label.Requirements{s.snap.ReservationKey: label.In(id), label.CapacityType: label.In(label.Reserved)})
		}
		b.keepAtoms(func(a int) bool {
			o := b.pool.atoms[a]
			return ok && o.Reservation == id || !ok && o.Reservation == ""
		})
		if ok {
			b.relaxMinValues()
		}
		if len(b.types) == 0 {
			b.refusal = verdict.Of(verdict.ReservationTaken, "pool "+b.pool.pool.Name, "every reservation that could cover the pod is used up")
		}
	}
}

// relaxMinValues lowers the rules to what the types left have: there is nothing to choose
// from in a reservation, and it will not be short.
func (b *launchBin) relaxMinValues() {
	for i := range b.minimum {
		if n := b.pool.minValues[i].offered(b.types); n < b.minimum[i] {
			b.minimum[i], b.relaxed = n, true
		}
	}
}

// reservationsLeft returns how many more machines each reservation covers, after the
// claims that are on their way and hold one.
func (s *solver) reservationsLeft() map[string]int {
	left := map[string]int{}
	for _, p := range s.model.pools {
		for _, o := range p.atoms {
			if o.Reservation == "" || !o.Available {
				continue
			}
			if n, ok := left[o.Reservation]; !ok || o.Left < n {
				left[o.Reservation] = o.Left
			}
		}
	}
	for i := range s.snap.Nodes {
		if open := s.snap.Nodes[i].Open; open != nil {
			if id, ok := open.Requirements[s.snap.ReservationKey].Only(); ok {
				left[id]--
			}
		}
	}
	return left
}

// cheapestReservation returns the reservation with something left that covers the bin at
// the lowest price.
func (b *launchBin) cheapestReservation(left map[string]int) (id string, ok bool) {
	price := math.Inf(1)
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			o := b.pool.atoms[a]
			if b.atoms.has(a) && o.Reservation != "" && left[o.Reservation] > 0 && o.Cost() < price {
				id, price, ok = o.Reservation, o.Cost(), true
			}
		}
	}
	return id, ok
}

// keepAtoms drops the atoms that keep says no to, and the types that then have none.
func (b *launchBin) keepAtoms(keep func(a int) bool) {
	for a := range b.pool.atoms {
		if b.atoms.has(a) && !keep(a) {
			b.atoms.clear(a)
		}
	}
	b.keep(b.atoms)
}

// keep drops the atoms that are not among these, and the types that then have none.
func (b *launchBin) keep(atoms bitset) {
	b.atoms.and(atoms)
	b.types = slices.DeleteFunc(b.types, func(t int32) bool {
		return !b.atoms.anyIn(b.pool.types[t].first, b.pool.types[t].end)
	})
	b.stale = true
	if b.holds != nil {
		b.hold(b.largest())
	}
}
