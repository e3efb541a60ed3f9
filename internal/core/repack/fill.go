package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// filler is the scratch of filling bins.
type filler struct {
	none    quantity.Vector
	index   map[*cluster.Constraints]int // constraints → class in the ledger
	allowed []model.Bitset               // by class: kinds of nodes; nil: to be asked one by one
	keyed   []bool                       // by class: the ledger is to be asked
	hosts   int32                        // a hostname domain for nodes that are only thought of
	free    quantity.Vector
	// have is what is free, inverse its inverse, blocks what the classes need, four resources
	// at a time.
	have, inverse, blocks [][4]float64
	needs                 []int64 // of all classes
	some                  []int32 // the classes that may be unplaced, in the order of size
	total                 quantity.Vector
	cand                  []int32
	left                  []int32 // by class
	content               []Share
	best                  []Share
	ratio                 []float64 // by bin: at least what it was when last filled
	tried                 []int32   // bins whose ratio may be above zero, in order
	open                  []int32   // those of them that may be better than the best
	// merit is what bins carried when they were last filled, by how much was unplaced.
	merit  [16][]float64
	bucket int
	top    [tryMax]int32
}

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

// gather lists the classes that are unplaced, and returns what their pods are worth.
func (s *Launcher) gather() (worth float64) {
	s.inv.fills.some = s.inv.fills.some[:0]
	for _, c := range s.inv.size {
		if s.nodes.unplaced[c] > 0 {
			s.inv.fills.some = append(s.inv.fills.some, c)
			worth += float64(s.nodes.unplaced[c]) * s.inv.worth[c]
		}
	}
	return worth
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

// unwind is Undo that leaves pods unplaced that were so at the mark.
func (s *Nodes) unwind(mark int) {
	for i := len(s.log) - 1; i >= mark; i-- {
		switch e := s.log[i]; e.kind {
		case changeAdd:
			s.takeBack(e)
			s.unplaced[e.class] += e.n
		case changeLaunch:
			s.unbuy()
		case changeRemove, changeRelease: // not since the mark
		}
	}
	s.log = s.log[:mark]
}

// Unplaced returns how many pods of a class have no node.
func (s *Nodes) Unplaced(class int32) int32 { return s.unplaced[class] }

// AnyUnplaced reports whether a pod has no node.
func (s *Nodes) AnyUnplaced() bool {
	return slices.ContainsFunc(s.unplaced, func(n int32) bool { return n > 0 })
}

// stock reports whether the pool's limits allow one more of the bin.
func (s *Inventory) stock(b int) bool {
	bin := &s.offerings[b]
	return bin.pool.NodesLeft > 0 && bin.pool.Types[bin.typ].Amounts.Fits(bin.pool.Left)
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

// fill thinks of a bin and fills it with unplaced pods, those first that are worth most for
// what they take of what is left. The content is in fills.content; what it is worth is
// returned.
func (s *Launcher) fill(b int) float64 {
	f, bin := &s.inv.fills, &s.inv.offerings[b]
	s.inv.model.Meter.Spend(1 + len(f.some))
	f.content, f.cand = f.content[:0], f.cand[:0]
	free := f.free
	copy(free, bin.free)
	for r := range free {
		f.setFree(r, free[r])
	}
	for _, c := range f.some {
		if s.nodes.unplaced[c] > 0 && bin.allowed.Has(int(c)) && s.inv.fits(c, free) {
			f.cand = append(f.cand, c)
			f.left[c] = s.nodes.unplaced[c]
		}
	}
	value, asked := 0.0, false
	for len(f.cand) > 0 {
		at, n := s.pick(free)
		if at < 0 {
			break
		}
		c := f.cand[at]
		if s.inv.hasConflict(bin.at, c, f.content) {
			f.left[c] = 0
			continue
		}
		if f.keyed[c] || len(s.inv.classes[c].Constraints.Ports) > 0 {
			if asked = true; !s.joins(bin, c) {
				f.left[c] = 0
				continue
			}
			n = 1
			s.inv.ledger.Count(int(c), &bin.place, 1, 0)
		}
		free.AddN(s.inv.classes[c].Need, -int64(n))
		for r, amount := range s.inv.classes[c].Need {
			if amount != 0 {
				f.setFree(r, free[r])
			}
		}
		f.left[c] -= n
		value += s.inv.worth[c] * float64(n)
		k := slices.IndexFunc(f.content, func(sh Share) bool { return sh.Class == c })
		if k < 0 {
			k = len(f.content)
			f.content = append(f.content, Share{Class: c})
		}
		f.content[k].N += n
	}
	if asked {
		for _, sh := range f.content {
			if f.keyed[sh.Class] {
				s.inv.ledger.Count(int(sh.Class), &bin.place, -sh.N, 0)
			}
		}
	}
	return value
}

// setFree says how much of a resource is free in the bin that is being filled.
func (f *filler) setFree(r int, amount int64) {
	have, inverse := 0.0, 0.0
	if amount > 0 {
		have, inverse = float64(amount), 1/float64(amount)
	}
	f.have[r/4][r%4], f.inverse[r/4][r%4] = have, inverse
}

// pick returns the candidate that is worth most for what it takes, and how many of it to
// put in at once. Candidates that do not fit any more are dropped.
func (s *Launcher) pick(free quantity.Vector) (at int, n int32) {
	f := &s.inv.fills
	best, kept := -1.0, f.cand[:0]
	at = -1
candidates:
	for _, c := range f.cand {
		if f.left[c] == 0 {
			continue
		}
		share := 0.0
		for k := range f.have {
			need, have, inverse := &f.blocks[int(c)*len(f.have)+k], &f.have[k], &f.inverse[k]
			if need[0] > have[0] || need[1] > have[1] || need[2] > have[2] || need[3] > have[3] {
				continue candidates
			}
			share += need[0]*inverse[0] + need[1]*inverse[1] + need[2]*inverse[2] + need[3]*inverse[3]
		}
		if worth := s.inv.worth[c]; worth > best*share {
			best, at = worth/share, len(kept)
		}
		kept = append(kept, c)
	}
	f.cand = kept
	if at < 0 {
		return at, 0
	}
	c := kept[at]
	if n = int32(quantity.Times(free, f.none, s.inv.needOf(c), int64(f.left[c]))); n > 3 {
		return at, (n + 3) / 4
	}
	return at, 1
}

// needOf returns what a pod of the class asks for.
func (s *Inventory) needOf(c int32) []int64 {
	dims := int32(len(s.model.Space))
	return s.fills.needs[c*dims : (c+1)*dims]
}

// fits reports whether what is free is enough for a pod of the class.
func (s *Inventory) fits(c int32, free quantity.Vector) bool { return fitsAsked(s.needOf(c), free) }

// fitsAsked reports whether what is free is enough. What is not asked for may be short.
func fitsAsked(need, free quantity.Vector) bool {
	for r, amount := range need {
		if amount > 0 && amount > free[r] {
			return false
		}
	}
	return true
}

// joins reports whether a pod of the class may be on the bin with what is in it.
func (s *Launcher) joins(bin *offering, c int32) bool {
	if want := s.inv.classes[c].Constraints.Ports; len(want) > 0 &&
		(!model.PortsFree(s.inv.model.Meter, want, bin.pool.Types[bin.typ].Ports) || s.inv.portAmong(s.inv.fills.content, want)) {
		return false
	}
	return s.inv.ledger.Check(int(c), &bin.place, s.inv.classes[c].Last().PreferencesFrom, false).IsYes()
}

// place launches a bin and puts the pods on it. It returns the node.
func (s *Nodes) place(b int, content []Share) int {
	bin := &s.inv.offerings[b]
	h := len(s.hosts)
	s.hosts = append(s.hosts, host{bin: int32(b), free: slices.Clone(bin.free), price: bin.price, since: s.change, spot: bin.isSpot()})
	host := &s.hosts[h]
	if keys := s.inv.ledger.Keys(); len(keys) > 0 {
		host.place = topology.Place{Domain: slices.Clone(bin.place.Domain), Counts: bin.place.Counts}
		for k := range keys {
			if keys[k] == label.Hostname {
				host.place.Domain[k] = s.hostDomain(k)
			}
		}
		s.appear(&host.place)
	}
	bin.pool.ReturnLimits(bin.pool.Types[bin.typ].Amounts, -1)
	s.log = append(s.log, change{kind: changeLaunch, host: int32(h)})
	for _, sh := range content {
		s.add(sh.Class, h, sh.N)
	}
	return h
}

// hostDomain returns a hostname domain that no node has.
func (s *Nodes) hostDomain(key int) int32 {
	if n := len(s.unused); n > 0 {
		d := s.unused[n-1]
		s.unused = s.unused[:n-1]
		return d
	}
	return s.inv.ledger.NewDomain(key)
}

// unbuy undoes the last buy.
func (s *Nodes) unbuy() {
	h := len(s.hosts) - 1
	host := &s.hosts[h]
	s.vacancies.drop(h)
	b := &s.inv.offerings[host.bin]
	b.pool.ReturnLimits(b.pool.Types[b.typ].Amounts, 1)
	if keys := s.inv.ledger.Keys(); len(keys) > 0 {
		s.vanish(&host.place)
		for k := range keys {
			if keys[k] == label.Hostname {
				s.unused = append(s.unused, host.place.Domain[k])
			}
		}
	}
	s.hosts = s.hosts[:h]
}
