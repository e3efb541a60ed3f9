package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// LaunchFor finds new nodes for all unplaced pods for less than limit dollars per hour
// together. It returns what they cost; false, and nothing is launched, when it can't.
func (s *Launcher) LaunchFor(limit float64) (float64, bool) {
	mark, spent := len(s.nodes.log), 0.0
	least := s.gather()
	var sum topology.Sum
	if s.negative != nil {
		if sum = s.sumOfUnplaced(); s.negative.covers(sum, limit) {
			return 0, false
		}
	}
	best, bestAt := math.Inf(1), -1 // completing with one node after so many launches
	s.estimate(least)
	var bought []int32
	wide := false // all bins are tried
	for least > 0 || s.nodes.AnyUnplaced() {
		if spent+least >= limit {
			break
		}
		if b := s.single(limit - spent); b >= 0 && spent+s.inv.offerings[b].price < best {
			best, bestAt = spent+s.inv.offerings[b].price, len(bought)
		}
		b := s.densest()
		if b < 0 && !wide {
			wide = true
			s.estimateAll()
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
			h := s.nodes.place(b, s.inv.fills.best)
			bought = append(bought, int32(h))
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

// finish takes back all but the first nodes that were launched and completes with one.
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
	s.fill(b)
	s.nodes.place(b, s.inv.fills.content)
	return spent + s.inv.offerings[b].price, true
}

// single returns the cheapest bin, below a price, that takes all unplaced pods; -1: none.
func (s *Launcher) single(below float64) int {
	f := &s.inv.fills
	f.total = append(f.total[:0], f.none...)
	for _, c := range f.some {
		f.total.AddN(s.inv.classes[c].Need, int64(s.nodes.unplaced[c]))
	}
	s.inv.model.Meter.Spend(1 + len(s.inv.offerings)/classesUnit)
	for b := range s.inv.offerings {
		bin := &s.inv.offerings[b]
		if bin.price >= below {
			return -1
		}
		if !f.total.Fits(bin.free) || !s.inv.stock(b) {
			continue
		}
		if s.fill(b); s.took() {
			return b
		}
	}
	return -1
}

// took reports whether the last fill took all unplaced pods.
func (s *Launcher) took() bool {
	rest := int32(0)
	for _, c := range s.inv.fills.some {
		rest += s.nodes.unplaced[c]
	}
	for _, sh := range s.inv.fills.content {
		rest -= sh.N
	}
	return rest == 0
}

// densest returns the bin that carries most worth for its price, with its content in
// fills.best; -1 when none takes anything. What a bin carries per dollar hardly ever
// rises as pods get fewer, so only the best are filled anew.
func (s *Launcher) densest() int {
	f := &s.inv.fills
	best, bestRatio := -1, 0.0
	try := func(b int) {
		if !s.inv.stock(b) {
			f.ratio[b] = 0
			return
		}
		r := s.fill(b) / max(s.inv.offerings[b].price, 1e-9)
		f.merit[f.bucket][b] = r
		if r > bestRatio {
			best, bestRatio = b, r
			f.best = append(f.best[:0], f.content...)
		}
		f.ratio[b] = min(r, bestRatio)
	}
	for _, b := range f.tried {
		if math.IsInf(f.ratio[b], 1) { // it has yet to be filled
			try(int(b))
		}
	}
	// Those that can't be better than the best are not looked at again: it only gets better.
	open := append(f.open[:0], f.tried...)
	for {
		top, kept := -1, open[:0]
		for _, b := range open {
			if f.ratio[b] <= bestRatio {
				continue
			}
			if kept = append(kept, b); top < 0 || f.ratio[b] > f.ratio[top] {
				top = int(b)
			}
		}
		if top < 0 {
			f.open = open
			return best
		}
		open = kept
		try(top)
	}
}

// tryMax is how many bins are tried for unplaced pods, once all have been for as many.
const tryMax = 12

// estimate sets the ratios to what is hoped for: those bins are tried that did best the last
// time when pods of about this worth were unplaced.
func (s *Launcher) estimate(worth float64) {
	f := &s.inv.fills
	f.bucket = 0
	for x := worth; len(s.inv.offerings) > 0 && x > s.inv.offerings[0].price && f.bucket < len(f.merit)-1; x /= 2 {
		f.bucket++
	}
	merit := f.merit[f.bucket]
	if merit == nil {
		merit = make([]float64, len(s.inv.offerings))
		for b := range merit {
			merit[b] = math.Inf(1)
		}
		f.merit[f.bucket] = merit
	}
	clear(f.ratio)
	top := f.top[:0] // the best so far, those first that did best, of equals the cheaper
	for b, m := range merit {
		if len(top) == tryMax {
			if m <= merit[top[tryMax-1]] {
				continue
			}
			top = top[:tryMax-1]
		}
		at := len(top)
		for at > 0 && m > merit[top[at-1]] {
			at--
		}
		top = slices.Insert(top, at, int32(b))
	}
	for _, b := range top {
		f.ratio[b] = math.Inf(1)
	}
	f.tried = f.tried[:0]
	for b, m := range merit {
		if math.IsInf(m, 1) {
			f.ratio[b] = m
		}
		if f.ratio[b] > 0 {
			f.tried = append(f.tried, int32(b))
		}
	}
}

// estimateAll has all bins tried: none of those hoped for takes what is left.
func (s *Launcher) estimateAll() {
	s.inv.fills.tried = s.inv.fills.tried[:0]
	for b := range s.inv.fills.ratio {
		s.inv.fills.ratio[b] = math.Inf(1)
		s.inv.fills.tried = append(s.inv.fills.tried, int32(b))
	}
}

// times returns how many more nodes could have the content of fills.best.
func (s *Launcher) times() int32 {
	n := int32(math.MaxInt32)
	for _, sh := range s.inv.fills.best {
		if s.inv.fills.keyed[sh.Class] || len(s.inv.classes[sh.Class].Constraints.Ports) > 0 {
			return 1
		}
		n = min(n, s.nodes.unplaced[sh.Class]/sh.N)
	}
	return n
}

// cheapestFor returns the cheapest bin that holds what is in fills.best, which b does.
func (s *Launcher) cheapestFor(b int) int {
	f := &s.inv.fills
	clear(f.free)
	keyed := false
	for _, sh := range f.best {
		if len(s.inv.classes[sh.Class].Constraints.Ports) > 0 || s.inv.mayConflict(sh.Class) {
			return b
		}
		keyed = keyed || f.keyed[sh.Class]
		f.free.AddN(s.inv.classes[sh.Class].Need, int64(sh.N))
	}
	for o := range b {
		bin := &s.inv.offerings[o]
		if f.free.Fits(bin.free) && s.inv.stock(o) && (!keyed || bin.alike(&s.inv.offerings[b])) && !slices.ContainsFunc(f.best, func(sh Share) bool { return !bin.allowed.Has(int(sh.Class)) }) {
			return o
		}
	}
	return b
}
