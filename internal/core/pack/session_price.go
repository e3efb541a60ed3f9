package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// price works out what a pod of each class costs at least on new machines, and from that
// what a unit of each resource is worth.
func (s *Session) price() {
	count := make([]int, len(s.classes))
	for h := range s.hosts {
		for _, sh := range s.hosts[h].own {
			count[sh.Class] += int(sh.N)
		}
	}
	s.problem = s.problemOf(s.bins, count)
	_, s.worth = cover.Bound(&s.problem)
	s.least = s.worth
	if slices.ContainsFunc(s.offers, func(b freshBin) bool { return b.isSpot() }) {
		offers := s.problemOf(s.offers, count)
		_, s.least = cover.Bound(&offers)
	}
	s.prices = s.resourcePrices(count)
	s.priced, s.norms = make([]float64, 0, len(s.classes)*len(s.prices)), make([]float64, len(s.classes))
	for c := range s.classes {
		for r, p := range s.prices {
			x := float64(s.classes[c].need[r]) * p
			s.priced = append(s.priced, x)
			s.norms[c] += x * x
		}
	}
}

// yield notes which classes leave on-demand machines to others.
func (s *Session) yield() {
	s.yields = make([]bool, len(s.classes))
	bound := false // there are pods that can be bought for, and not on spot
	for c := range s.classes {
		buyable := false
		for b := range s.bins {
			if s.bins[b].allowed.has(c) {
				buyable = true
				s.yields[c] = s.yields[c] || s.bins[b].isSpot()
			}
		}
		bound = bound || buyable && !s.yields[c]
	}
	if !bound {
		clear(s.yields)
	}
}

// problemOf returns the problem of buying so many pods of each class anew.
func (s *Session) problemOf(bins []freshBin, count []int) cover.Problem {
	p := cover.Problem{Dims: len(s.model.space)}
	words := (len(bins) + 63) / 64
	may := make([]uint64, words*len(s.classes))
	for b := range bins {
		p.Bins = append(p.Bins, cover.Bin{Capacity: bins[b].free, Price: bins[b].price})
		for c := range s.classes {
			if bins[b].allowed.has(c) {
				may[c*words+b/64] |= 1 << (b % 64)
			}
		}
	}
	for c := range s.classes {
		p.Classes = append(p.Classes, cover.Class{Size: s.classes[c].need, Count: count[c], Bins: may[c*words : (c+1)*words]})
	}
	return p
}

// Least returns what the pods on a machine cost at least, wherever they are, at the lowest
// price of each spot offering; less what the machine may be better than any that can be
// bought. Over all machines it adds up to a bound.
func (s *Session) Least(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.hosts[h].own, s.hosts[h].added} {
		for _, sh := range list {
			sum += s.least[sh.Class] * float64(sh.N)
		}
	}
	return sum - s.excess(h)
}

// resourcePrices returns the prices of resources, none negative, that come nearest to what
// the pods are worth: the least squares, found one price at a time.
func (s *Session) resourcePrices(count []int) []float64 {
	prices := make([]float64, len(s.model.space))
	rest := slices.Clone(s.worth)
	const sweeps = 50
	for range sweeps {
		for r := range prices {
			up, down := 0.0, 0.0
			for c, n := range count {
				x := float64(s.classes[c].need[r])
				up += float64(n) * x * rest[c]
				down += float64(n) * x * x
			}
			if down == 0 {
				continue
			}
			step := max(up/down, -prices[r])
			prices[r] += step
			for c := range count {
				rest[c] -= step * float64(s.classes[c].need[r])
			}
		}
	}
	return prices
}

// excess returns by how much the pods that a machine could hold may be worth more than it
// costs, at most: nothing for one that could be bought again for its price.
func (s *Session) excess(h int) float64 {
	host := &s.hosts[h]
	if host.node.Open != nil {
		return 0
	}
	price := host.price
	if math.IsNaN(price) {
		price = 0
	}
	room := slices.Clone(host.free)
	for _, sh := range host.own {
		room.AddN(s.classes[sh.Class].need, int64(sh.N))
	}
	for b := range s.offers {
		if s.offers[b].price <= price && room.Fits(s.offers[b].free) {
			return 0
		}
	}
	most := 0.0
	for c := range s.classes {
		share := 0.0
		for r, n := range s.classes[c].need {
			if n > 0 && room[r] > 0 {
				share = max(share, float64(n)/float64(room[r]))
			}
		}
		if share > 0 && s.accepts(host, int32(c)) {
			most = max(most, s.least[c]/share)
		}
	}
	return max(0, most*float64(len(s.model.space))-price)
}

// Spare returns what pods can be worth at most, as Least has it, that there is room for on the
// machine now: the least of what each resource says by itself, and all by their prices.
func (s *Session) Spare(h int) float64 {
	host := &s.hosts[h]
	if host.free == nil { // it is not known yet
		return math.Inf(1)
	}
	priced, room := 0.0, 0.0
	unit := make([]float64, len(host.free)) // what one of each resource is worth at most
	for r, free := range host.free {
		room += s.prices[r] * float64(max(free, 0))
	}
	for c := range s.classes {
		need := s.classes[c].need
		if s.least[c] <= 0 || !need.Fits(host.free) || !s.accepts(host, int32(c)) {
			continue
		}
		sum := 0.0
		for r, n := range need {
			sum += s.prices[r] * float64(n)
			unit[r] = max(unit[r], s.least[c]/float64(n)) // without end where it needs none
		}
		priced = max(priced, s.least[c]/sum)
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

// Room returns what the machine could hold, each resource by its price.
func (s *Session) Room(h int) float64 {
	host := &s.hosts[h]
	sum := 0.0
	for r, free := range host.free {
		amount := free
		for _, list := range [][]Share{host.own, host.added} {
			for _, sh := range list {
				amount = quantity.Add(amount, quantity.Mul(s.classes[sh.Class].need[r], int64(sh.N)))
			}
		}
		sum += s.prices[r] * float64(amount)
	}
	return sum
}

// Kinds returns for each class the first one whose pods could take the places of its own on
// new machines, and the other way round. A class with rules between pods, or at odds with others, is a kind by itself.
func (s *Session) Kinds() []int32 {
	kinds := make([]int32, len(s.classes))
	var first []int32
	for c := range s.classes {
		kinds[c] = int32(c)
		if s.fills.keyed[c] || len(s.classes[c].shape.Ports) > 0 || s.isOdd(int32(c)) {
			continue
		}
		k := slices.IndexFunc(first, func(o int32) bool {
			return slices.Equal(s.classes[o].need, s.classes[c].need) && slices.Equal(s.problem.Classes[o].Bins, s.problem.Classes[c].Bins)
		})
		if k >= 0 {
			kinds[c] = first[k]
		} else {
			first = append(first, int32(c))
		}
	}
	return kinds
}
