package cover

import (
	"cmp"
	"math"
	"slices"
)

// Column generation: the linear program over all fillings of bins, whose prices are the
// best there are, solved with those fillings only that its own prices ask for. It pays
// when there are few kinds.

const (
	// kindsMax is how many kinds are few, kindsMaxLowEffort where less is done for each.
	kindsMax, kindsMaxLowEffort = 40, 64
	// searchNodes bounds the search for one filling, searchTotal that for all.
	searchNodes = 300
	searchTotal = 30000
	// closeEnough is when the bound is as good as the program.
	closeEnough = 1e-4
	// wholeEvery is in how many rounds every bin is looked at once with low effort, and not only
	// those that last held at least warm times their price.
	wholeEvery, warm = 5, 0.97
	// candidatesMax is how many fillings are added in one round with low effort.
	candidatesMax = 48
	// finish is how many rounds follow when whole bins have been opened, finishLowEffort if there
	// is little time.
	finish, finishLowEffort = 10, 1
	// risen is by which part of the price what is left must have become dearer for that.
	risen = 1e-3
)

// master is the program: a row for each kind, a column for each filling.
type master struct {
	s         *solver
	sack      *knapsack
	fills     packing // the columns; times is not used
	first     int32   // the column of the first filling in lp
	lp        *linear
	price     []float64 // of bins
	unit      float64   // what a cost of one in lp is
	value     []float64 // of kinds, at which fillings are sought
	center    []float64 // of kinds, at the best bound
	bound     float64
	items     []Item
	nodes     int       // that searches may still visit
	heat      []float64 // of bins: what they held at most for their price when last looked at
	lowEffort bool
	order     []int32 // of bins: with low effort, those first that held most for their price
}

// newMaster returns the program at a tariff, which its prices start from.
func newMaster(s *solver, t *tariff) *master {
	c := &master{
		s: s, nodes: searchTotal, price: t.price, value: make([]float64, len(s.m.kinds)),
		center: slices.Clone(t.value), bound: t.bound, unit: max(t.bound, s.least),
	}
	c.sack = newKnapsack(s.m, c.value)
	c.heat, c.order = make([]float64, len(s.m.bins)), make([]int32, len(s.m.bins))
	return c
}

// add makes a filling a column.
func (c *master) add(bin int32, items []Item) {
	c.fills.add(bin, 1, items, 0)
	c.column(len(c.fills.loads) - 1)
}

func (c *master) column(i int) {
	l := c.fills.loads[i]
	index, value := make([]int32, 0, l.to-l.from), make([]float64, 0, l.to-l.from)
	for _, it := range c.fills.of(l) {
		index = append(index, it.Class)
		value = append(value, float64(it.N)/float64(c.s.m.kinds[it.Class].count))
	}
	c.lp.add(c.price[l.bin]/c.unit, index, value)
}

// open starts the program for so many items of each kind with the fillings known so far.
func (c *master) open(left []int) {
	need := make([]float64, len(left))
	for k, n := range left {
		need[k] = float64(n) / float64(c.s.m.kinds[k].count)
	}
	if c.lp != nil && c.lp.renew(need, 10*c.lp.rows) {
		return
	}
	c.lp = newLinear(need, 1e4)
	c.first = int32(len(c.lp.cost))
	for i := range c.fills.loads {
		c.column(i)
	}
}

// run adds fillings until none is missing or the rounds are over. Left is how many items
// of each kind there are. The prices that it asks for fillings with lie between those of
// the program, which jump about, and the best known, and nearer to the program's each time
// that nothing is found.
func (c *master) run(left []int, rounds int) {
	trust := 0.3
	for round := range rounds {
		c.lp.solve(10 * c.lp.rows)
		for k := range c.value {
			v := max(c.lp.prices[k], 0) * c.unit / float64(c.s.m.kinds[k].count)
			c.value[k] = trust*v + (1-trust)*c.center[k]
		}
		whole := !c.lowEffort || round%wholeEvery == 0 || trust >= 1
		if c.extend(left, whole) || !whole && c.extend(left, true) {
			continue
		}
		if trust >= 1 {
			return
		}
		if trust += 0.25; trust > 0.9 {
			trust = 1
		}
	}
	c.lp.solve(10 * c.lp.rows)
}

// extend looks in every bin, or only in those where it is likely, for a filling that is
// worth more than it costs at the present prices. Whole shows at the same time how far the
// prices are from being valid.
func (c *master) extend(left []int, whole bool) bool {
	dear, added := 0.0, false
	b := c.s.greedy
	for k, v := range c.value {
		b.value[k] = float32(max(v, c.s.least))
	}
	if whole {
		for i := range c.s.m.bins {
			c.heat[i] = c.sack.relax(int32(i)) / max(c.price[i], tiny)
			c.order[i] = int32(i)
		}
		if c.lowEffort {
			slices.SortStableFunc(c.order, func(x, y int32) int { return cmp.Compare(c.heat[y], c.heat[x]) })
		}
	}
	candidates := 0
	for _, bin := range c.order {
		price := max(c.price[bin], tiny)
		if !whole {
			if c.heat[bin] < warm || candidates == candidatesMax {
				continue
			}
			c.heat[bin] = c.sack.relax(bin) / price
		}
		ceiling := c.heat[bin] * price
		if c.heat[bin] > 1+closeEnough && (!c.lowEffort || candidates < candidatesMax) {
			items, value := b.fill(bin, b.active)
			if value <= price*(1+closeEnough) {
				var most float64
				nodes := min(searchNodes, c.nodes)
				if whole {
					c.sack.relax(bin) // once more: another bin came since
				}
				most, ceiling, c.items = c.sack.integral(bin, nodes, price, c.items)
				c.nodes -= nodes - c.sack.search.nodes
				items, value = c.items, most
			}
			if value > price*(1+closeEnough/2) && c.candidate(bin, items) {
				added = true
				candidates++
			}
		}
		if dear = max(dear, ceiling/price); ceiling > 0 && c.price[bin] < tiny {
			dear = math.Inf(1) // what is free has no value
		}
	}
	if !whole {
		return added
	}
	sum := 0.0
	for k, v := range c.value {
		sum += v * float64(left[k])
	}
	if bound := sum / dear * (1 - safety); dear > 0 && bound > c.bound {
		c.bound = bound
		for k, v := range c.value {
			c.center[k] = v / dear
		}
	}
	return added
}

// candidate makes the filling a column if the program would use it.
func (c *master) candidate(bin int32, items []Item) bool {
	gain := -c.price[bin] / c.unit
	for _, it := range items {
		gain += c.lp.prices[it.Class] * float64(it.N) / float64(c.s.m.kinds[it.Class].count)
	}
	if gain <= closeEnough/2*c.price[bin]/c.unit {
		return false
	}
	c.add(bin, items)
	return true
}

// columns solves the program, which may raise the bound, and rounds its solution, which
// may lower the cost. It is for problems where all items are placed. LowEffort: what they cost
// without fees is not looked into.
func (s *solver) columns(rounds int, lowEffort bool) {
	c := newMaster(s, s.tariff)
	c.lowEffort = lowEffort
	for _, l := range s.best.loads {
		c.fills.add(l.bin, 1, s.best.of(l), 0)
	}
	s.greedy.everything()
	c.open(s.greedy.left)
	c.run(s.greedy.left, rounds)
	s.proven = c.bound
	switch {
	case s.net == s.tariff:
	case lowEffort:
		s.proven = 0
	default:
		n := newMaster(s, s.net)
		n.fills = c.fills
		n.open(s.greedy.left)
		n.run(s.greedy.left, rounds)
		s.proven = n.bound
	}
	more, ways := finish, []bool{false, true}
	if lowEffort {
		more, ways = finishLowEffort, ways[1:]
	}
	for _, dive := range ways {
		s.greedy.everything()
		c.open(s.greedy.left)
		s.trial.reset()
		s.round(c, &s.trial, more, dive)
		if s.trial.better(&s.best) {
			s.best.copyFrom(&s.trial)
		}
	}
}

// round opens the bins of which the program has whole numbers, then solves the program anew
// for the rest, with so many rounds for new fillings, and so on. For the little that is left in
// the end bins are opened by value for money.
func (s *solver) round(c *master, p *packing, rounds int, dive bool) {
	b := s.greedy
	last := p.cost + c.lp.objective()*c.unit // when fillings were last sought
	for {
		opened := false
		for r, j := range c.lp.basis {
			if n := int(c.lp.x[r] + 1e-6); j >= c.first && n > 0 {
				opened = s.take(c, p, int(j-c.first), n) || opened
			}
		}
		if !opened {
			if !dive || !s.dive(c, p) {
				break
			}
			rounds = finishLowEffort
		}
		b.prune()
		if len(b.active) == 0 {
			return
		}
		c.open(b.left)
		if p.cost+c.lp.objective()*c.unit > last*(1+risen) {
			c.run(b.left, rounds)
			last = p.cost + c.lp.objective()*c.unit
		}
	}
	copy(s.value, c.value)
	s.valueItems()
	b.even = 0.4
	b.cover(p, s.estimate, inf)
}

// dive opens one bin of the column that the program opens most of, with what is left of its
// items. It reports whether it opened any.
func (s *solver) dive(c *master, p *packing) bool {
	best, most := -1, 1e-6
	for r, j := range c.lp.basis {
		if j >= c.first && c.lp.x[r] > most {
			best, most = int(j-c.first), c.lp.x[r]
		}
	}
	if best < 0 {
		return false
	}
	l := c.fills.loads[best]
	c.items = c.items[:0]
	for _, it := range c.fills.of(l) {
		if n := min(it.N, s.greedy.left[it.Class]); n > 0 {
			c.items = append(c.items, Item{Class: it.Class, N: n})
		}
	}
	if len(c.items) == 0 {
		return false
	}
	bin := s.greedy.cheapest(c.items, l.bin)
	if s.greedy.stock[bin] == 0 {
		return false
	}
	for _, it := range c.items {
		s.greedy.left[it.Class] -= it.N
	}
	s.greedy.stock[bin]--
	p.add(bin, 1, c.items, s.m.bins[bin].price)
	return true
}

// take opens a column up to so many times, as often as the items are there.
func (s *solver) take(c *master, p *packing, i, times int) bool {
	l := c.fills.loads[i]
	items := c.fills.of(l)
	times = min(times, s.greedy.stock[l.bin])
	for _, it := range items {
		times = min(times, s.greedy.left[it.Class]/it.N)
	}
	if times <= 0 {
		return false
	}
	for _, it := range items {
		s.greedy.left[it.Class] -= it.N * times
	}
	s.greedy.stock[l.bin] -= times
	p.add(l.bin, times, items, s.m.bins[l.bin].price)
	return true
}
