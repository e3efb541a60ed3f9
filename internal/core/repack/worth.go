package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Least returns what the pods on a node cost at least, wherever they are, at the lowest prices of
// spot. It subtracts by how much the node may be better than any that can be launched. The sum
// over all nodes is a lower bound.
func (s *Session) Least(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.Nodes.hosts[h].own, s.Nodes.hosts[h].added} {
		for _, sh := range list {
			sum += s.Inventory.least[sh.Class] * float64(sh.N)
		}
	}
	return sum - s.excess(h)
}

// excess returns an upper bound of how much more than the node costs the pods could be worth that
// it could hold: zero for a node that could be launched again for its price.
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

// FreeAfter returns an upper bound of what pods for which the node has room now can be worth, as
// Least counts it: the lowest of the bounds by each resource alone, and by all at their prices.
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

// Room returns what the node could hold, without its pods, with each resource at its price.
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

// Kinds returns, for each class, the first class that is alike on new nodes: of equal size and with
// the same offerings. A class with host ports, rules between pods or label conflicts is a kind of
// its own.
func (s *Inventory) Kinds() []int32 {
	kinds := make([]int32, len(s.classes))
	var first []int32
	for c := range s.classes {
		kinds[c] = int32(c)
		if s.keyed[c] || len(s.classes[c].Constraints.Ports) > 0 || s.mayConflict(int32(c)) {
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

// Worth returns what the pods on the node, also those that changes put there, cost at least on new
// nodes, in dollars an hour.
func (s *Session) Worth(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.Nodes.hosts[h].own, s.Nodes.hosts[h].added} {
		for _, sh := range list {
			sum += s.Inventory.worth[sh.Class] * float64(sh.N)
		}
	}
	return sum
}
