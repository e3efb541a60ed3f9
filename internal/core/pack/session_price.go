package pack

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// price works out what a pod of each class costs at least on new machines: amounts of
// resources are given prices such that no offering has more than its price's worth.
func (s *Session) price() {
	s.worth = make([]float64, len(s.classes))
	demand := make([]float64, len(s.model.space))
	for h := range s.hosts {
		for _, sh := range s.hosts[h].own {
			for r, n := range s.classes[sh.Class].need {
				demand[r] += float64(n) * float64(sh.N)
			}
		}
	}
	pi := s.resourcePrices(demand)
	for c := range s.classes {
		for r, n := range s.classes[c].need {
			s.worth[c] += pi[r] * float64(n)
		}
	}
}

// resourcePrices returns what a unit of each resource is worth for the demand.
func (s *Session) resourcePrices(demand []float64) []float64 {
	pi, best := make([]float64, len(demand)), 0.0
	var cpu, memory int
	for r, name := range s.model.space {
		switch name {
		case quantity.CPU:
			cpu = r
		case quantity.Memory:
			memory = r
		}
	}
	const steps = 64
	for k := range steps + 1 {
		x := float64(k) / steps
		wc, wm := x, (1-x)/(4<<20)
		scale := math.Inf(1)
		for i := range s.bins {
			b := &s.bins[i]
			if w := wc*float64(b.free[cpu]) + wm*float64(b.free[memory]); w > 0 {
				scale = min(scale, b.price/w)
			}
		}
		if v := scale * (wc*demand[cpu] + wm*demand[memory]); v > best && !math.IsInf(scale, 1) {
			best = v
			pi[cpu], pi[memory] = scale*wc, scale*wm
		}
	}
	return pi
}
