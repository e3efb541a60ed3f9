package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
)

// price works out what a pod of each class costs at least on new nodes, and from that what a unit
// of each resource is worth.
func (s *Nodes) price() {
	count := make([]int, len(s.inv.classes))
	for h := range s.hosts {
		for _, sh := range s.hosts[h].own {
			count[sh.Class] += int(sh.N)
		}
	}
	s.inv.problem = s.inv.problemOf(s.inv.offerings, count)
	_, s.inv.worth = cover.Bound(&s.inv.problem)
	s.inv.least = s.inv.worth
	if slices.ContainsFunc(s.inv.spotOfferings, func(b offering) bool { return b.isSpot() }) {
		choices := s.inv.problemOf(s.inv.spotOfferings, count)
		_, s.inv.least = cover.Bound(&choices)
	}
	s.inv.prices = s.inv.resourcePrices(count)
	s.inv.priced, s.inv.norms = make([]float64, 0, len(s.inv.classes)*len(s.inv.prices)), make([]float64, len(s.inv.classes))
	for c := range s.inv.classes {
		for r, p := range s.inv.prices {
			x := float64(s.inv.classes[c].Need[r]) * p
			s.inv.priced = append(s.inv.priced, x)
			s.inv.norms[c] += x * x
		}
	}
}

// yield notes which classes leave on-demand nodes to others.
func (s *Inventory) yield() {
	s.yields = make([]bool, len(s.classes))
	bound := false // there are classes that may be on new nodes, and not on spot
	for c := range s.classes {
		launchable := false
		for b := range s.offerings {
			if s.offerings[b].allowed.Has(c) {
				launchable = true
				s.yields[c] = s.yields[c] || s.offerings[b].isSpot()
			}
		}
		bound = bound || launchable && !s.yields[c]
	}
	if !bound {
		clear(s.yields)
	}
}

// problemOf returns the problem of launching new nodes for so many pods of each class.
func (s *Inventory) problemOf(bins []offering, count []int) cover.Problem {
	p := cover.Problem{Dims: len(s.model.Space)}
	words := (len(bins) + 63) / 64
	may := make([]uint64, words*len(s.classes))
	for b := range bins {
		p.Bins = append(p.Bins, cover.Bin{Capacity: bins[b].free, Price: bins[b].price})
		for c := range s.classes {
			if bins[b].allowed.Has(c) {
				may[c*words+b/64] |= 1 << (b % 64)
			}
		}
	}
	for c := range s.classes {
		p.Classes = append(p.Classes, cover.Class{Size: s.classes[c].Need, Count: count[c], Bins: may[c*words : (c+1)*words]})
	}
	return p
}

// resourcePrices returns prices of resources, none negative, that add up to what the pods are worth
// as nearly as possible: a least-squares fit, by coordinate descent.
func (s *Inventory) resourcePrices(count []int) []float64 {
	prices := make([]float64, len(s.model.Space))
	rest := slices.Clone(s.worth)
	const sweeps = 50
	for range sweeps {
		for r := range prices {
			up, down := 0.0, 0.0
			for c, n := range count {
				x := float64(s.classes[c].Need[r])
				up += float64(n) * x * rest[c]
				down += float64(n) * x * x
			}
			if down == 0 {
				continue
			}
			step := max(up/down, -prices[r])
			prices[r] += step
			for c := range count {
				rest[c] -= step * float64(s.classes[c].Need[r])
			}
		}
	}
	return prices
}
