package model

import (
	"math"
)

// RelaxMinValues lowers the rules to what the types left have: there is nothing to choose
// from in a reservation, and it will not be short.
func (b *PlannedNode) RelaxMinValues() {
	for i := range b.Minimum {
		if n := b.Pool.MinValues[i].offered(b.Types); n < b.Minimum[i] {
			b.Minimum[i], b.relaxed = n, true
		}
	}
}

// ReservationsLeft returns how many more nodes each reservation covers, after the
// claims that are in flight and hold one.
func (m *Model) ReservationsLeft() map[string]int {
	left := map[string]int{}
	for _, p := range m.Pools {
		for _, o := range p.Offerings {
			if o.Reservation == "" || !o.Available {
				continue
			}
			if n, ok := left[o.Reservation]; !ok || o.Left < n {
				left[o.Reservation] = o.Left
			}
		}
	}
	for i := range m.Snapshot.Nodes {
		if open := m.Snapshot.Nodes[i].InFlight; open != nil {
			if id, ok := open.Requirements[m.Snapshot.ReservationKey].Only(); ok {
				left[id]--
			}
		}
	}
	return left
}

// CheapestReservation returns the reservation with something left that covers the bin at
// the lowest price.
func (b *PlannedNode) CheapestReservation(left map[string]int) (id string, ok bool) {
	price := math.Inf(1)
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			o := b.Pool.Offerings[a]
			if b.Offerings.Has(a) && o.Reservation != "" && left[o.Reservation] > 0 && o.Cost() < price {
				id, price, ok = o.Reservation, o.Cost(), true
			}
		}
	}
	return id, ok
}
