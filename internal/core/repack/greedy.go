package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// LaunchFor launches nodes for all unplaced pods, for less than limit dollars an hour together. It
// returns what they cost. If it cannot, it launches nothing and returns false.
//
// It launches the bin that carries most worth for its price, and again, as long as pods are
// unplaced. After each it tries whether a single node takes all the rest for less.
func (s *Launcher) LaunchFor(limit float64) (float64, bool) {
	mark, spent := len(s.nodes.log), 0.0
	least := s.gather()
	var sum topology.Sum
	if s.negative != nil {
		if sum = s.sumOfUnplaced(); s.negative.covers(sum, limit) {
			return 0, false
		}
	}
	best, bestAt := math.Inf(1), -1 // the price with a single node for the rest after so many launches
	s.estimates.choose(least)
	launched := 0
	wide := false // all bins are tried
	for least > 0 || s.nodes.AnyUnplaced() {
		if spent+least >= limit {
			break
		}
		if b := s.single(limit - spent); b >= 0 && spent+s.inv.offerings[b].price < best {
			best, bestAt = spent+s.inv.offerings[b].price, launched
		}
		b := s.densest()
		if b < 0 && !wide {
			wide = true
			s.estimates.chooseAll()
			continue
		}
		if b < 0 {
			break
		}
		b = s.cheapestFor(b)
		times := s.times()
		for range times {
			if spent+s.inv.offerings[b].price >= min(limit, best) || !s.inv.stock(b) {
				times = 0
				break
			}
			h := s.nodes.place(b, s.best)
			launched++
			spent += s.inv.offerings[b].price
			for _, sh := range s.nodes.hosts[h].added {
				least -= float64(sh.N) * s.inv.worth[sh.Class]
			}
			least = max(0, least)
		}
		if times == 0 {
			break
		}
	}
	if !s.nodes.AnyUnplaced() && spent < limit && spent <= best {
		return spent, true
	}
	if bestAt < 0 || best >= limit {
		s.nodes.unwind(mark)
		if s.negative != nil {
			s.negative.add(sum, limit)
		}
		return 0, false
	}
	return s.finish(mark, bestAt, limit)
}

// finish takes back all but so many of the nodes that were launched since the mark, and launches
// a single node for the rest.
func (s *Launcher) finish(mark, nodes int, limit float64) (float64, bool) {
	end, seen := len(s.nodes.log), 0
	for i := mark; i < len(s.nodes.log); i++ {
		if s.nodes.log[i].kind == changeLaunch {
			if seen == nodes {
				end = i
				break
			}
			seen++
		}
	}
	s.nodes.unwind(end)
	spent := 0.0
	for _, e := range s.nodes.log[mark:] {
		if e.kind == changeLaunch {
			spent += s.nodes.hosts[e.host].price
		}
	}
	b := s.single(limit - spent)
	if b < 0 || !s.inv.stock(b) {
		s.nodes.unwind(mark)
		return 0, false
	}
	s.fills.fill(b, s.some)
	s.nodes.place(b, s.fills.content)
	return spent + s.inv.offerings[b].price, true
}

// single returns the cheapest bin, below a price, that takes all unplaced pods; -1: none.
func (s *Launcher) single(below float64) int {
	s.total = append(s.total[:0], s.inv.none...)
	for _, c := range s.some {
		s.total.AddN(s.inv.classes[c].Need, int64(s.nodes.unplaced[c]))
	}
	s.inv.model.Meter.Spend(1 + len(s.inv.offerings)/classesUnit)
	for b := range s.inv.offerings {
		bin := &s.inv.offerings[b]
		if bin.price >= below {
			return -1
		}
		if !s.total.Fits(bin.free) || !s.inv.stock(b) {
			continue
		}
		if s.fills.fill(b, s.some); s.took() {
			return b
		}
	}
	return -1
}

// took reports whether the bin that was filled last takes all unplaced pods.
func (s *Launcher) took() bool {
	rest := int32(0)
	for _, c := range s.some {
		rest += s.nodes.unplaced[c]
	}
	for _, sh := range s.fills.content {
		rest -= sh.N
	}
	return rest == 0
}

// densest returns the bin that carries most worth for its price, and leaves its content in
// best; -1 when none takes anything. What a bin carries per dollar hardly ever rises as pods
// get fewer, so only the best are filled anew.
func (s *Launcher) densest() int {
	e := &s.estimates
	best, bestRatio := -1, 0.0
	try := func(b int) {
		if !s.inv.stock(b) {
			e.ratio[b] = 0
			return
		}
		r := s.fills.fill(b, s.some) / max(s.inv.offerings[b].price, 1e-9)
		e.merit[e.bucket][b] = r
		if r > bestRatio {
			best, bestRatio = b, r
			s.best = append(s.best[:0], s.fills.content...)
		}
		e.ratio[b] = min(r, bestRatio)
	}
	for _, b := range e.tried {
		if math.IsInf(e.ratio[b], 1) { // it has yet to be filled
			try(int(b))
		}
	}
	// A bin that cannot be better than the best is not filled again: the best only gets better.
	open := append(e.open[:0], e.tried...)
	for {
		top, kept := -1, open[:0]
		for _, b := range open {
			if e.ratio[b] <= bestRatio {
				continue
			}
			if kept = append(kept, b); top < 0 || e.ratio[b] > e.ratio[top] {
				top = int(b)
			}
		}
		if top < 0 {
			e.open = open
			return best
		}
		open = kept
		try(top)
	}
}

func newEstimates(offerings []offering) estimates {
	e := estimates{cheapest: math.Inf(1), ratio: make([]float64, len(offerings))}
	if len(offerings) > 0 {
		e.cheapest = offerings[0].price
	}
	return e
}

// estimates are what bins may carry for their price: those that did best lately are tried
// before all others.
type estimates struct {
	cheapest float64   // the price of the cheapest bin
	ratio    []float64 // by bin: at least what it was when last filled
	tried    []int32   // bins whose ratio may be above zero, in order
	open     []int32   // those of them that may be better than the best
	// merit is what bins carried when they were last filled, by bucket: pods in the bucket are
	// worth about as much together.
	merit  [16][]float64
	bucket int
	top    [triedMax]int32
}

// triedMax is how many bins are tried for unplaced pods, once all have been for as many.
const triedMax = 12

// choose has those bins tried that did best the last time when pods of about this worth were
// unplaced, and those that were never filled for as many.
func (e *estimates) choose(worth float64) {
	e.bucket = 0
	for x := worth; x > e.cheapest && e.bucket < len(e.merit)-1; x /= 2 {
		e.bucket++
	}
	merit := e.merit[e.bucket]
	if merit == nil {
		merit = slices.Repeat([]float64{math.Inf(1)}, len(e.ratio))
		e.merit[e.bucket] = merit
	}
	clear(e.ratio)
	top := e.top[:0] // the best so far, those first that did best, of equals the cheaper
	for b, m := range merit {
		if len(top) == triedMax {
			if m <= merit[top[triedMax-1]] {
				continue
			}
			top = top[:triedMax-1]
		}
		at := len(top)
		for at > 0 && m > merit[top[at-1]] {
			at--
		}
		top = slices.Insert(top, at, int32(b))
	}
	for _, b := range top {
		e.ratio[b] = math.Inf(1)
	}
	e.tried = e.tried[:0]
	for b, m := range merit {
		if math.IsInf(m, 1) {
			e.ratio[b] = m
		}
		if e.ratio[b] > 0 {
			e.tried = append(e.tried, int32(b))
		}
	}
}

// chooseAll has all bins tried. It is for when none of those that were chosen takes what is left.
func (e *estimates) chooseAll() {
	e.tried = e.tried[:0]
	for b := range e.ratio {
		e.ratio[b] = math.Inf(1)
		e.tried = append(e.tried, int32(b))
	}
}

// times returns how many more nodes could have the content of best.
func (s *Launcher) times() int32 {
	n := int32(math.MaxInt32)
	for _, sh := range s.best {
		if s.inv.keyed[sh.Class] || len(s.inv.classes[sh.Class].Constraints.Ports) > 0 {
			return 1
		}
		n = min(n, s.nodes.unplaced[sh.Class]/sh.N)
	}
	return n
}

// cheapestFor returns the cheapest bin that holds the content of best, which b does.
func (s *Launcher) cheapestFor(b int) int {
	s.total = append(s.total[:0], s.inv.none...)
	keyed := false
	for _, sh := range s.best {
		if len(s.inv.classes[sh.Class].Constraints.Ports) > 0 || s.inv.mayConflict(sh.Class) {
			return b
		}
		keyed = keyed || s.inv.keyed[sh.Class]
		s.total.AddN(s.inv.classes[sh.Class].Need, int64(sh.N))
	}
	for o := range b {
		bin := &s.inv.offerings[o]
		if s.total.Fits(bin.free) && s.inv.stock(o) && (!keyed || bin.alike(&s.inv.offerings[b])) && !slices.ContainsFunc(s.best, func(sh Share) bool { return !bin.allowed.Has(int(sh.Class)) }) {
			return o
		}
	}
	return b
}
