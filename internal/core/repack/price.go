package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// price works out what a pod of each class costs at least on new nodes, and from that
// what a unit of each resource is worth.
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
	bound := false // there are pods that can be launched for, and not on spot
	for c := range s.classes {
		buyable := false
		for b := range s.offerings {
			if s.offerings[b].allowed.Has(c) {
				buyable = true
				s.yields[c] = s.yields[c] || s.offerings[b].isSpot()
			}
		}
		bound = bound || buyable && !s.yields[c]
	}
	if !bound {
		clear(s.yields)
	}
}

// problemOf returns the problem of launching so many pods of each class anew.
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

// Least returns what the pods on a node cost at least, wherever they are, at the lowest
// price of each spot offering; less what the node may be better than any that can be
// launched. Over all nodes it adds up to a bound.
func (s *Session) Least(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.Nodes.hosts[h].own, s.Nodes.hosts[h].added} {
		for _, sh := range list {
			sum += s.Inventory.least[sh.Class] * float64(sh.N)
		}
	}
	return sum - s.excess(h)
}

// resourcePrices returns the prices of resources, none negative, that come nearest to what
// the pods are worth: the least squares, found one price at a time.
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

// excess returns by how much the pods that a node could hold may be worth more than it
// costs, at most: nothing for one that could be launched again for its price.
func (s *Session) excess(h int) float64 {
	host := &s.Nodes.hosts[h]
	if host.node.InFlight != nil {
		return 0
	}
	price := host.price
	if math.IsNaN(price) {
		price = 0
	}
	room := slices.Clone(host.free)
	for _, sh := range host.own {
		room.AddN(s.Inventory.classes[sh.Class].Need, int64(sh.N))
	}
	for b := range s.Inventory.spotOfferings {
		if s.Inventory.spotOfferings[b].price <= price && room.Fits(s.Inventory.spotOfferings[b].free) {
			return 0
		}
	}
	most := 0.0
	for c := range s.Inventory.classes {
		share := 0.0
		for r, n := range s.Inventory.classes[c].Need {
			if n > 0 && room[r] > 0 {
				share = max(share, float64(n)/float64(room[r]))
			}
		}
		if share > 0 && s.Nodes.accepts(host, int32(c)) {
			most = max(most, s.Inventory.least[c]/share)
		}
	}
	return max(0, most*float64(len(s.Inventory.model.Space))-price)
}

// FreeAfter returns what pods can be worth at most, as Least has it, that there is room for on the
// node now: the least of what each resource says by itself, and all by their prices.
func (s *Session) FreeAfter(h int) float64 {
	host := &s.Nodes.hosts[h]
	if host.free == nil { // it is not known yet
		return math.Inf(1)
	}
	priced, room := 0.0, 0.0
	unit := make([]float64, len(host.free)) // what one of each resource is worth at most
	for r, free := range host.free {
		room += s.Inventory.prices[r] * float64(max(free, 0))
	}
	for c := range s.Inventory.classes {
		need := s.Inventory.classes[c].Need
		if s.Inventory.least[c] <= 0 || !need.Fits(host.free) || !s.Nodes.accepts(host, int32(c)) {
			continue
		}
		sum := 0.0
		for r, n := range need {
			sum += s.Inventory.prices[r] * float64(n)
			unit[r] = max(unit[r], s.Inventory.least[c]/float64(n)) // without end where it needs none
		}
		priced = max(priced, s.Inventory.least[c]/sum)
	}
	if priced == 0 {
		return 0
	}
	most := math.Inf(1)
	for r, free := range host.free {
		if !math.IsInf(unit[r], 1) {
			most = min(most, unit[r]*float64(max(free, 0)))
		}
	}
	if !math.IsInf(priced, 1) {
		most = min(most, priced*room)
	}
	return most
}

// Room returns what the node could hold, each resource by its price.
func (s *Session) Room(h int) float64 {
	host := &s.Nodes.hosts[h]
	sum := 0.0
	for r, free := range host.free {
		amount := free
		for _, list := range [][]Share{host.own, host.added} {
			for _, sh := range list {
				amount = quantity.Add(amount, quantity.Mul(s.Inventory.classes[sh.Class].Need[r], int64(sh.N)))
			}
		}
		sum += s.Inventory.prices[r] * float64(amount)
	}
	return sum
}

// Kinds returns for each class the first one whose pods could take the places of its own on
// new nodes, and the other way round. A class with rules between pods, or in label conflict with others, is a kind by itself.
func (s *Inventory) Kinds() []int32 {
	kinds := make([]int32, len(s.classes))
	var first []int32
	for c := range s.classes {
		kinds[c] = int32(c)
		if s.fills.keyed[c] || len(s.classes[c].Constraints.Ports) > 0 || s.mayConflict(int32(c)) {
			continue
		}
		k := slices.IndexFunc(first, func(o int32) bool {
			return slices.Equal(s.classes[o].Need, s.classes[c].Need) && slices.Equal(s.problem.Classes[o].Bins, s.problem.Classes[c].Bins)
		})
		if k >= 0 {
			kinds[c] = first[k]
		} else {
			first = append(first, int32(c))
		}
	}
	return kinds
}
