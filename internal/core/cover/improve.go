package cover

import (
	"cmp"
	"math"
	"slices"
)

// improver mends a packing: it gives back some of the bins, most of them wasteful, packs
// what was in them anew, and keeps what is cheaper.
type improver struct {
	s      *solver
	luck   random
	freed  []int // of each load, how many bins are given back
	order  []int32
	waste  []float64
	repair packing
	price  float64 // of what was given back
	items  []Item  // of the bin at hand
	last   int     // candidate that may be looked at
}

const (
	// goodEnough is at which part of the bound it is not worth to go on.
	goodEnough = 1.001
	// nearEnough is at which part of the bound an ascent is not worth it.
	nearEnough = 1.02
	// farOff is above which part of the bound the search is repeated, and worthwhile which part of
	// the cost a search must save not to be useless.
	farOff, worthwhile = 1.02, 1e-3
	// uselessMost is how many useless searches there are at most.
	uselessMost = 10
)

// improve searches for a cheaper packing, and again as often as that is allowed, while the packing is
// far from the bound and not too many searches were useless.
func (s *solver) improve(e Effort) {
	im := &improver{s: s, luck: 1, last: math.MaxInt}
	defer func() { s.greedy.strict = 0 }()
	if e.Evaluations > 0 {
		im.last = s.greedy.evaluations + e.Evaluations
	}
	copy(s.value, s.bestValue)
	useless := 0
	for range 1 + max(e.Repeat, 0) {
		before := s.best.cost
		im.rounds(e.Improve)
		if s.best.cost > before*(1-worthwhile) {
			useless++
		}
		if s.best.cost < s.tariff.bound*farOff || useless == uselessMost || s.greedy.evaluations >= im.last {
			return
		}
	}
}

// rounds does so many rounds on the best packing, less if it is close to the bound or the last
// candidate has been looked at.
func (im *improver) rounds(many int) {
	s := im.s
	for range many {
		bins := 0
		for _, l := range s.best.loads {
			bins += l.times
		}
		if bins < 2 || s.greedy.evaluations >= im.last || s.best.cost < s.tariff.bound*goodEnough {
			return
		}
		im.round(bins)
	}
}

func (im *improver) round(bins int) {
	s, b := im.s, im.s.greedy
	im.choose(im.many(bins))
	im.open()
	noise := 0.1 * im.luck.unit()
	for k, v := range s.value {
		b.value[k] = float32(max(v*(1+noise*(im.luck.unit()-0.5)), s.least))
	}
	b.even = 0.1 + 0.9*im.luck.unit()
	if s.hasAscended {
		b.strict = strictness(im.luck.below(4))
	}
	im.repair.reset()
	if len(b.active) <= stuffKinds && im.luck.below(stuffEvery) == 0 {
		im.stuff()
	}
	if b.cover(&im.repair, s.estimate, im.price) && len(b.active) == 0 {
		im.accept()
	}
}

// many returns how many bins to give back: a few, or a part of very many.
func (im *improver) many(bins int) int {
	n := 2 + im.luck.below(8)
	if im.luck.below(2) == 0 {
		n = max(n, bins/20+im.luck.below(1+bins/5))
	}
	return min(n, bins)
}

// choose marks so many bins, about two thirds of them among those that hold least value
// for their price, the others anywhere.
func (im *improver) choose(many int) {
	p := &im.s.best
	im.freed = append(im.freed[:0], make([]int, len(p.loads))...)
	im.order, im.waste = im.order[:0], im.waste[:0]
	for i, l := range p.loads {
		held := 0.0
		for _, it := range p.of(l) {
			held += im.s.value[it.Class] * float64(it.N)
		}
		im.order = append(im.order, int32(i))
		im.waste = append(im.waste, im.s.m.bins[l.bin].price/max(held, im.s.least))
	}
	slices.SortFunc(im.order, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(im.waste[a], im.waste[b]), cmp.Compare(a, b))
	})
	im.price = 0
	for at := 0; many > 0; at++ {
		i := im.order[im.luck.below(len(im.order))]
		if im.luck.below(3) > 0 {
			i = im.order[at%len(im.order)]
			if im.luck.below(4) == 0 {
				continue
			}
		}
		l := p.loads[i]
		n := min(many, l.times-im.freed[i], 1+im.luck.below(l.times))
		im.freed[i] += n
		im.price += float64(n) * im.s.m.bins[l.bin].price
		many -= n
	}
}

// open makes what was in the marked bins wait.
func (im *improver) open() {
	s, b := im.s, im.s.greedy
	clear(b.left)
	for i := range b.stock {
		b.stock[i] = s.m.bins[i].left
	}
	for i, l := range s.best.loads {
		b.stock[l.bin] -= l.times - im.freed[i]
		for _, it := range s.best.of(l) {
			b.left[it.Class] += it.N * im.freed[i]
		}
	}
	b.active = b.active[:0]
	for k, n := range b.left {
		if n > 0 {
			b.active = append(b.active, int32(k))
		}
	}
}

const (
	// stuffEvery is in one of how many rounds what waits is put into other bins first.
	stuffEvery = 4
	// stuffed is into how many of them it is put at most, stuffKinds how many kinds at most.
	stuffed, stuffKinds = 24, 100
)

// stuff puts what waits into bins that are not given back, as far as they have room, the
// dearest items first.
func (im *improver) stuff() {
	s, b := im.s, im.s.greedy
	p := &s.best
	slices.SortFunc(b.active, func(x, y int32) int {
		return cmp.Or(-cmp.Compare(b.value[x], b.value[y]), cmp.Compare(x, y))
	})
	first := im.luck.below(len(p.loads))
	for n := range min(stuffed, len(p.loads)) {
		i := (first + n) % len(p.loads)
		l := p.loads[i]
		if l.times == im.freed[i] || !im.top(l) {
			continue
		}
		price := s.m.bins[l.bin].price
		im.freed[i]++
		im.price += price
		im.repair.add(l.bin, 1, im.items, price)
	}
	b.prune()
	slices.Sort(b.active)
}

// top adds to the filling of a bin what waits, and reports whether anything did.
func (im *improver) top(l load) (any bool) {
	s, b := im.s, im.s.greedy
	copy(b.free, s.m.bins[l.bin].room)
	im.items = append(im.items[:0], s.best.of(l)...)
	for _, it := range im.items {
		for d, z := range s.m.sizeOf(int(it.Class)) {
			b.free[d] -= z * int64(it.N)
		}
	}
	for _, k := range b.active {
		b.evaluations++
		if n := im.fits(k, l.bin); n > 0 {
			any = true
			im.put(k, n)
		}
	}
	return any
}

// fits returns how many more of what waits of a kind fit in the bin at hand.
func (im *improver) fits(k, bin int32) int {
	s, b := im.s, im.s.greedy
	kind := &s.m.kinds[k]
	most := int64(b.left[k])
	for d, z := range s.m.sizeOf(int(k)) {
		if z > 0 {
			if most = min(most, b.free[d]/z); most == 0 {
				return 0
			}
		}
	}
	if !s.m.groups[kind.group].has(int(bin)) {
		return 0
	}
	for _, it := range im.items {
		if it.Class == k {
			most = min(most, int64(kind.most-it.N))
		} else if _, rival := slices.BinarySearch(kind.rivals, it.Class); rival {
			return 0
		}
	}
	return int(min(most, int64(kind.most)))
}

// put notes that so many of a kind are in the bin at hand.
func (im *improver) put(k int32, n int) {
	b := im.s.greedy
	b.left[k] -= n
	for d, z := range im.s.m.sizeOf(int(k)) {
		b.free[d] -= z * int64(n)
	}
	if i := slices.IndexFunc(im.items, func(it Item) bool { return it.Class == k }); i >= 0 {
		im.items[i].N += n
		return
	}
	im.items = append(im.items, Item{Class: k, N: n})
}

// accept replaces the marked bins by those of the repair.
func (im *improver) accept() {
	s := im.s
	s.trial.reset()
	for _, p := range []*packing{&s.best, &im.repair} {
		for i, l := range p.loads {
			times := l.times
			if p == &s.best {
				times -= im.freed[i]
			}
			if times > 0 {
				s.trial.add(l.bin, times, p.of(l), s.m.bins[l.bin].price)
			}
		}
	}
	if s.trial.cost < s.best.cost*(1-1e-12) {
		s.best, s.trial = s.trial, s.best
	}
}
