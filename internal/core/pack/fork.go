package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// fork returns a solver that goes on from the same point by itself. Nothing must have been
// launched yet.
func (s *solver) fork() *solver {
	f := *s
	pools := make([]*poolModel, len(s.model.pools))
	for i, p := range s.model.pools {
		own := *p
		own.left, own.memory = slices.Clone(p.left), launchMemory{}
		pools[i] = &own
	}
	f.model = &model{space: s.model.space, pools: pools}
	f.classes = slices.Clone(s.classes)
	f.fixed = slices.Clone(s.fixed)
	amounts := make(quantity.Vector, len(f.fixed)*len(s.model.space))
	for i := range f.fixed {
		b := &f.fixed[i]
		used := amounts[:len(b.used):len(b.used)]
		amounts = amounts[copy(used, b.used):]
		b.used, b.ports = used, slices.Clip(b.ports)
	}
	f.ledger = s.ledger.Clone()
	f.places = placeMemory{}
	f.placed, f.refused = slices.Clone(s.placed), slices.Clone(s.refused)
	return &f
}
