package model

import (
	"math"
)

// RelaxMinValues lowers the minValues rules to what the types that are left have. A reservation
// leaves nothing to choose from, and it does not run short.
func (b *PlannedNode) RelaxMinValues() {
	for i := range b.Minimum {
		if n := b.values(i, b.Types, nil); n < b.Minimum[i] {
			b.Minimum[i], b.relaxed = n, true
		}
	}
}

// ReservationsLeft returns how many more nodes each reservation covers, beside the in-flight
// NodeClaims that use it.
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

// CheapestReservation returns the reservation that has nodes left and covers the planned node at
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
