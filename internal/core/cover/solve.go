package cover

import "slices"

// Solve packs as many items as it can as cheaply as it can with the given effort.
func Solve(p *Problem, e Effort) Solution {
	s := newSolver(p)
	s.correct(max(e.Passes, 1))
	endless := s.best.placed == s.m.count && len(s.tariff.limited) == 0
	few := len(s.m.kinds) <= kindsMax || e.LowEffort && len(s.m.kinds) <= kindsMaxLowEffort
	mayProve := e.Prove && s.net == s.tariff && len(s.m.kinds) <= kindsMaxProof
	switch {
	case e.Columns > 0 && few:
		if endless && s.best.cost > s.tariff.bound*goodEnough {
			s.columns(e.Columns, e.LowEffort)
		}
		s.improve(e)
	case e.Ascend && !mayProve && endless && s.best.cost > s.tariff.bound*nearEnough:
		s.improveByAscent(e)
	default:
		s.improve(e)
	}
	s.notAbove()
	if mayProve && endless {
		s.prove(e.ProofRounds)
	}
	return s.solution(p)
}

// improveByAscent improves what is packed anew with the tariff of an ascent. With an effort of Twice it also improves what was
// packed before, and takes that unless the other costs no more, with fees and without.
func (s *solver) improveByAscent(e Effort) {
	var before packing
	if e.Twice {
		s.improve(e)
		before.copyFrom(&s.best)
	}
	if a := s.ascend(); a != nil {
		if e.Twice {
			s.best.reset()
			s.bestValue = nil
		}
		s.correct(max(e.Passes, 1))
		s.packByQuota(a)
	} else if e.Twice {
		return
	}
	s.improve(e)
	if e.Twice && (before.better(&s.best) || s.withoutFees(&before) < s.withoutFees(&s.best)) {
		s.best.copyFrom(&before)
	}
}

// withoutFees returns what a packing costs without fees.
func (s *solver) withoutFees(p *packing) (cost float64) {
	for _, l := range p.loads {
		cost += s.net.price[l.bin] * float64(l.times)
	}
	return cost
}

// ascend raises the bounds by dual ascent, and returns that of the tariff; nil: it is not better now. Else bins are filled from
// now on, more or less strictly, with what is cheapest in them.
func (s *solver) ascend() *ascent {
	a := s.tariff.ascend()
	if s.net != s.tariff {
		s.net.ascend()
	}
	if s.hasAscended = a != nil; s.hasAscended {
		s.greedy.rate, s.greedy.familyOf, s.greedy.least = s.tariff.rate, s.tariff.familyOf, s.tariff.value
		clear(s.greedy.known)
	}
	return a
}

// notAbove takes the first-fit-decreasing packing if it should be better.
func (s *solver) notAbove() {
	s.trial.reset()
	if s.m.firstFitDecreasing(&s.trial) && s.trial.better(&s.best) {
		s.best.copyFrom(&s.trial)
	}
}

// Bound returns what every packing of all items costs at least, leaving out those that fit in
// no bin, and for each class the price of an item that proves it. Fees are left out of both.
func Bound(p *Problem) (bound float64, classPrices []float64) {
	free := *p
	free.BinFee = 0
	s := newSolver(&free)
	return s.tariff.bound, s.classPrices(len(p.Classes))
}

// Values returns for each class the price of an item, fees included: no bin can hold more than it costs, and all items
// together are worth about as much as can be. Of few kinds, that is found by so many rounds of column generation at most.
func Values(p *Problem, rounds int) []float64 {
	s := newSolver(p)
	if len(s.m.kinds) > kindsMaxLowEffort || len(s.tariff.limited) > 0 {
		return s.classPrices(len(p.Classes))
	}
	c := newMaster(s, s.tariff)
	c.lowEffort = true
	s.greedy.everything()
	c.open(s.greedy.left)
	c.run(s.greedy.left, rounds)
	copy(s.tariff.value, c.center)
	return s.classPrices(len(p.Classes))
}

// solver holds the state of one call.
type solver struct {
	m           *model
	tariff      *tariff
	greedy      *greedy
	best        packing
	trial       packing
	net         *tariff   // without fees
	hasAscended bool      // the tariff is that of an ascent
	least       float64   // what an item counts as being worth at least
	value       []float64 // of kinds, as corrected
	bestValue   []float64 // those of the best packing
	estimate    []float64
	proven      float64 // a bound by column generation on all items, without fees
}

func newSolver(p *Problem) *solver {
	m := compile(p)
	s := &solver{m: m, greedy: newGreedy(m)}
	s.least = 1e-30
	price, net := make([]float64, len(m.bins)), make([]float64, len(m.bins))
	for i, b := range m.bins {
		price[i], net[i] = b.price, p.Bins[b.orig].Price
		s.least = max(s.least, 1e-18*b.price)
	}
	s.tariff = newTariff(m, price)
	s.net = s.tariff
	if p.BinFee != 0 {
		s.net = newTariff(m, net)
	}
	s.greedy.rate, s.greedy.familyOf = s.tariff.rate, s.tariff.familyOf
	return s
}

// classPrices returns the prices of the kinds by class.
func (s *solver) classPrices(classes int) []float64 {
	prices := make([]float64, classes)
	for k, kind := range s.m.kinds {
		for _, c := range s.m.members[kind.first:kind.last] {
			prices[c] = s.tariff.value[k]
		}
	}
	return prices
}

// solution says the best packing in terms of the problem.
func (s *solver) solution(p *Problem) Solution {
	sol := Solution{ClassPrices: s.classPrices(len(p.Classes)), Bound: s.bound()}
	h := newHandout(p, s.m)
	for _, l := range s.best.loads {
		orig := s.m.bins[l.bin].orig
		sol.Price += p.Bins[orig].Price * float64(l.times)
		h.load(orig, l.times, s.best.of(l))
	}
	sol.Patterns = h.patterns
	for c := range p.Classes {
		if h.waiting[c] > 0 {
			sol.Unplaced = append(sol.Unplaced, Item{Class: int32(c), N: h.waiting[c]})
		}
	}
	return sol
}

// bound returns what the placed items cost at least, without fees.
func (s *solver) bound() float64 {
	left := slices.Clone(s.greedy.left)
	clear(left)
	for _, l := range s.best.loads {
		for _, it := range s.best.of(l) {
			left[it.Class] += it.N * l.times
		}
	}
	return max(s.net.least(left), s.proven)
}

// handout turns items of kinds into items of classes.
type handout struct {
	m        *model
	waiting  []int   // of each class
	next     []int32 // of each kind, in members
	patterns []Pattern
	items    []Item // of all patterns
}

func newHandout(p *Problem, m *model) *handout {
	h := &handout{m: m, waiting: make([]int, len(p.Classes)), next: make([]int32, len(m.kinds))}
	for c := range p.Classes {
		h.waiting[c] = max(p.Classes[c].Count, 0)
	}
	for k := range m.kinds {
		h.next[k] = m.kinds[k].first
	}
	return h
}

// load hands a bin's items to classes, for as many bins at once as get the same.
func (h *handout) load(bin int32, times int, items []Item) {
	for times > 0 {
		alike := times
		for _, it := range items {
			h.skip(it.Class)
			alike = max(1, min(alike, h.waiting[h.m.members[h.next[it.Class]]]/it.N))
		}
		first := len(h.items)
		for _, it := range items {
			for n := it.N; n > 0; {
				h.skip(it.Class)
				c := h.m.members[h.next[it.Class]]
				part := min(n, h.waiting[c]/alike)
				h.waiting[c] -= part * alike
				n -= part
				h.items = append(h.items, Item{Class: c, N: part})
			}
		}
		given := h.items[first:len(h.items):len(h.items)]
		slices.SortFunc(given, func(a, b Item) int { return int(a.Class - b.Class) })
		h.patterns = append(h.patterns, Pattern{Bin: bin, Times: alike, Items: given})
		times -= alike
	}
}

// skip moves to the next class of the kind that waits.
func (h *handout) skip(kind int32) {
	for h.waiting[h.m.members[h.next[kind]]] == 0 {
		h.next[kind]++
	}
}
