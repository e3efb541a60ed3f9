package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// reserve ties each planned node that a reservation could cover to the cheapest reservation
// that has room left. A planned node that gets none is left with the offerings without a
// reservation. If there are none, its pods are refused until a reservation is free.
func (s *solver) reserve() {
	left := s.state.Model.ReservationsLeft()
	if len(left) == 0 {
		return
	}
	for _, b := range s.state.Planned {
		id, ok := b.CheapestReservation(left)
		if ok {
			left[id]--
			b.Requirements = append(b.Requirements, label.Requirements{s.state.Model.Snapshot.ReservationKey: label.In(id), label.CapacityType: label.In(label.Reserved)})
		}
		b.KeepOfferings(func(a int) bool {
			o := b.Pool.Offerings[a]
			return ok && o.Reservation == id || !ok && o.Reservation == ""
		})
		if ok {
			b.RelaxMinValues()
		}
		if len(b.Types) == 0 {
			b.Refusal = verdict.Of(verdict.ReservationTaken, "pool "+b.Pool.NodePool.Name, "every reservation that could cover the pod is used up")
		}
	}
}
