package cover

import (
	"math"
	"slices"
)

// A proof works a bound out to the last: the best prices there are, with fillings that are
// sought to the end, and then the knowledge that bins are opened whole, by parting the
// question into more of some bins and fewer of them until no part can be cheaper.

const (
	// kindsMaxProof is up to how many kinds a bound is worked out to the last.
	kindsMaxProof = 160
	// proofColumns is in how many rounds fillings are gathered for that, proofRounds bounds
	// the rounds that follow, of all parts of the question.
	proofColumns, proofRounds = 100, 400
	// proofColumnsMin is the least of the former where the latter are bounded.
	proofColumnsMin = 20
	// proofNodes bounds the search for one filling, proofTotal that for all, and proofPerRound that for all in each of fewer
	// rounds than proofRounds.
	proofNodes, proofTotal, proofPerRound = 100_000, 200_000_000, 50_000
	// cellsPerNode is how many cells of a table take as long as a node of a search.
	cellsPerNode = 256
	// proofMany is of how many items there are as good as any number of each, and bins as good as
	// cut: tables are gone through then, in so many rounds.
	proofMany, tableRounds = 1500, 400
	// proofGap is how much less than proven a bound may be, tableGap where tables are gone
	// through, which takes longest.
	proofGap, tableGap = 1e-4, 2e-3
	// wholeEnough is how near to a whole number a number of bins is one.
	wholeEnough = 1e-4
)

// proof is the question with all fillings found so far.
type proof struct {
	*master
	left    []int
	columns []filling
	effort  []proofEffort // of bins
	sets    []bitset      // of bins, of which a whole number is opened
	table   states
	nodes   int // that searches may still visit
	rounds  int // that may still follow
}

// filling is how many of each kind are in a bin. They need not be whole numbers where a bin
// is too large for its fillings to be sought to the end.
type filling struct {
	bin   int32
	kinds []int32
	many  []float64
}

// proofEffort is how the filling of most value is sought for a bin.
type proofEffort uint8

const (
	bySearch proofEffort = iota
	byTable              // as if there were any number of items, and no conflicts
	inParts              // as if items could be cut, and no conflicts
)

// part is a part of the question, and what it costs at least.
type part struct {
	limits []limit
	bound  float64
}

// limit says that at least so many bins of a set are opened; with a sign of -1 at most.
type limit struct {
	bins       bitset
	sign, many float64
}

// prove works out what all items cost at least, in at most so many rounds; 0: in proofRounds.
func (s *solver) prove(rounds int) {
	isMany := s.m.count > proofMany && len(s.m.kinds) <= kindsMaxLowEffort
	if rounds <= 0 || rounds > proofRounds {
		rounds = proofRounds
	} else if isMany {
		return // a few rounds with tables take as long as all
	}
	c := newMaster(s, s.net)
	c.lowEffort = len(s.m.kinds) > kindsMaxLowEffort
	for _, l := range s.best.loads {
		c.fills.add(l.bin, 1, s.best.of(l), 0)
	}
	s.greedy.everything()
	c.open(s.greedy.left)
	if isMany {
		c.run(s.greedy.left, tableRounds)
		c.tabled(s.greedy.left, tableRounds)
	} else {
		c.run(s.greedy.left, max(proofColumns*rounds/proofRounds, proofColumnsMin))
		c.prove(s.greedy.left, s.best.cost, rounds)
	}
	s.proven = max(s.proven, c.bound)
}

// prove raises the bound. A packing of that price is known.
func (c *master) prove(left []int, price float64, rounds int) {
	p := newProof(c, left)
	if p.rounds = rounds; rounds < proofRounds {
		p.nodes = rounds * proofPerRound
	}
	goal := price // the bound cannot be higher
	open := []part{{bound: c.bound}}
	for len(open) > 0 && p.rounds > 0 {
		least := leastBound(open)
		at := open[least]
		if at.bound >= goal*(1-proofGap) {
			break
		}
		open = slices.Delete(open, least, least+1)
		p.solve(&at, goal)
		if at.bound >= goal {
			continue
		}
		bins, many := p.divided()
		if bins == nil {
			goal = at.bound
			continue
		}
		for _, l := range []limit{{bins, 1, math.Ceil(many)}, {bins, -1, math.Floor(many)}} {
			open = append(open, part{limits: append(slices.Clip(at.limits), l), bound: at.bound})
		}
	}
	if len(open) > 0 {
		goal = min(goal, open[leastBound(open)].bound)
	}
	c.bound = max(c.bound, goal*(1-safety))
}

func newProof(c *master, left []int) *proof {
	p := &proof{master: c, left: left, effort: make([]proofEffort, len(c.price)), nodes: proofTotal, rounds: proofRounds}
	for _, l := range c.fills.loads {
		f := filling{bin: l.bin}
		for _, it := range c.fills.of(l) {
			f.kinds, f.many = append(f.kinds, it.Class), append(f.many, float64(it.N))
		}
		p.columns = append(p.columns, f)
	}
	all := newBitset(len(c.price))
	for b := range c.price {
		one := newBitset(len(c.price))
		one.set(b)
		all.set(b)
		p.sets = append(p.sets, one)
		p.columns = append(p.columns, filling{bin: int32(b)}) // limits may ask for an empty one
	}
	p.sets = append(p.sets, all)
	for k := range c.s.m.kinds {
		may := newBitset(len(c.price))
		for b := range c.price {
			if c.s.m.may(int32(k), int32(b)) {
				may.set(b)
			}
		}
		if !slices.ContainsFunc(p.sets, may.equal) {
			p.sets = append(p.sets, may)
		}
	}
	return p
}

// leastBound returns the part with the lowest bound.
func leastBound(parts []part) (least int) {
	for i := range parts {
		if parts[i].bound < parts[least].bound {
			least = i
		}
	}
	return least
}

// solve raises the bound of a part, up to the goal.
func (p *proof) solve(at *part, goal float64) {
	p.open(at, goal)
	for ; p.rounds > 0; p.rounds-- {
		p.lp.solve(10 * p.lp.rows)
		worth := 0.0
		for k := range p.value {
			p.value[k] = max(p.lp.prices[k], 0) * p.unit / float64(p.s.m.kinds[k].count)
			worth += p.value[k] * float64(p.left[k])
		}
		for i, l := range at.limits {
			worth += p.duty(i) * l.sign * l.many
		}
		dear, added := p.extend(at)
		if dear > 0 {
			at.bound = max(at.bound, worth/dear)
		}
		if at.bound >= goal || at.bound >= p.lp.objective()*p.unit*(1-proofGap) || !added && (len(at.limits) > 0 || !p.loosen(dear)) {
			return
		}
	}
}

// open states the program of a part. What it cannot have costs more than the goal.
func (p *proof) open(at *part, goal float64) {
	var need []float64
	for k, n := range p.left {
		need = append(need, float64(n)/float64(p.s.m.kinds[k].count))
	}
	for _, l := range at.limits {
		need = append(need, l.sign*l.many)
	}
	p.lp = newLinear(need, 2*goal/p.unit)
	p.first = int32(len(p.lp.cost))
	for i := range p.columns {
		p.column(&p.columns[i], at)
	}
}

func (p *proof) column(f *filling, at *part) {
	var index []int32
	var value []float64
	for i, k := range f.kinds {
		index, value = append(index, k), append(value, f.many[i]/float64(p.s.m.kinds[k].count))
	}
	for i, l := range at.limits {
		if l.bins.has(int(f.bin)) {
			index, value = append(index, int32(len(p.left)+i)), append(value, l.sign)
		}
	}
	p.lp.add(p.price[f.bin]/p.unit, index, value)
}

// duty returns what a limit is worth for each bin of its set.
func (p *proof) duty(limit int) float64 { return max(p.lp.prices[len(p.left)+limit], 0) * p.unit }

// extend adds the fillings that are worth more than they cost, and returns how many times
// its price the dearest filling of any bin is worth at most.
func (p *proof) extend(at *part) (dear float64, added bool) {
	for b := range p.price {
		bin, price, duties := int32(b), max(p.price[b], tiny), 0.0
		for i, l := range at.limits {
			if l.bins.has(b) {
				duties += l.sign * p.duty(i)
			}
		}
		most, f := p.fullest(bin, price-duties)
		p.heat[b] = (most + duties) / price
		if dear = max(dear, p.heat[b]); most+duties > 0 && p.price[b] < tiny {
			return math.Inf(1), false // what is free has no value
		}
		if f == nil {
			continue
		}
		value := duties
		for i, k := range f.kinds {
			value += p.value[k] * f.many[i]
		}
		if value > price*(1+proofGap/2) {
			p.columns = append(p.columns, *f)
			p.column(f, at)
			added = true
		}
	}
	return dear, added
}

// fullest returns what a bin can hold at most, and a filling of about so much value if that
// may be more than enough.
func (p *proof) fullest(bin int32, enough float64) (most float64, f *filling) {
	most = p.sack.relax(bin)
	gap := proofGap / 2
	if p.effort[bin] == byTable {
		gap = tableGap
	}
	if most <= enough*(1+gap) {
		return most, nil
	}
	effort := p.effort[bin]
	if p.nodes <= 0 {
		effort = inParts
	}
	if effort == bySearch {
		nodes := min(proofNodes, p.nodes)
		_, bound, items := p.sack.integral(bin, nodes, math.Inf(1), p.items)
		p.nodes -= nodes - p.sack.search.nodes
		p.items = items
		return min(most, bound), fillingOf(bin, items)
	}
	if effort == byTable {
		value, items, ok := p.sack.exactly(bin, &p.table, p.items)
		if p.nodes -= len(p.table.best) * len(p.sack.open) / cellsPerNode; ok && value < most {
			p.items = items
			return value, fillingOf(bin, items)
		}
	}
	return most, p.parts(bin)
}

// loosen seeks less for the fillings of those bins that keep the bound down most, which can
// then be found. It returns false if there are none.
func (p *proof) loosen(dear float64) (any bool) {
	for b, heat := range p.heat {
		if heat > (1+dear)/2 && p.effort[b] < inParts {
			p.effort[b]++
			any = true
		}
	}
	return any
}

func fillingOf(bin int32, items []Item) *filling {
	f := &filling{bin: bin}
	for _, it := range items {
		f.kinds, f.many = append(f.kinds, it.Class), append(f.many, float64(it.N))
	}
	return f
}

// parts returns the filling that relax found.
func (p *proof) parts(bin int32) *filling {
	f := &filling{bin: bin}
	for _, i := range p.sack.open {
		n := 0.0
		if r := slices.Index(p.sack.basis, i); r >= 0 {
			n = p.sack.x[r]
		} else if p.sack.upper[i] {
			n = p.sack.most[i]
		}
		if n > 0 {
			f.kinds, f.many = append(f.kinds, i), append(f.many, n)
		}
	}
	return f
}

// divided returns the set of bins of which the program opens no whole number and that the
// most depends on, and how many it opens; nil if there is none.
func (p *proof) divided() (bins bitset, many float64) {
	opened := make([]float64, len(p.price))
	for r, j := range p.lp.basis {
		if j >= p.first {
			opened[p.columns[j-p.first].bin] += p.lp.x[r]
		}
	}
	most := 0.0
	for _, set := range p.sets {
		n, cost := 0.0, 0.0
		set.each(func(b int) {
			n += opened[b]
			cost += opened[b] * p.price[b]
		})
		odd := n - math.Floor(n)
		if odd = min(odd, 1-odd); odd > wholeEnough && odd*cost/n > most {
			bins, many, most = set, n, odd*cost/n
		}
	}
	return bins, many
}
