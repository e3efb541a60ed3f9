package cover

import (
	"cmp"
	"math"
	"slices"
)

// knapsack finds what most value a bin can hold, as an upper bound that is proven and as a
// filling that is found.
type knapsack struct {
	m      *model
	dims   int
	value  []float64
	most   []float64 // of each kind in one bin
	rates  []float64 // of each dimension; the dual values
	inv    []float64 // of the basis
	basis  []int32   // kind, or -1-d for what is free of dimension d
	x      []float64 // value of the basis
	upper  []bool    // whether a kind outside the basis is at its most
	inside []bool
	step   []float64
	size   []float64 // of the model's kinds
	open   []int32   // the kinds that fit in the bin at hand

	search search
}

func newKnapsack(m *model, value []float64) *knapsack {
	n := len(m.kinds)
	size := make([]float64, len(m.size))
	for i, s := range m.size {
		size[i] = float64(s)
	}
	return &knapsack{
		m: m, dims: m.dims, size: size, open: make([]int32, 0, n), value: value, most: make([]float64, n), rates: make([]float64, m.dims),
		inv: make([]float64, m.dims*m.dims), basis: make([]int32, m.dims), x: make([]float64, m.dims),
		upper: make([]bool, n), inside: make([]bool, n), step: make([]float64, m.dims), search: search{worth: make([]float64, n)},
	}
}

// relax solves the knapsack of a bin as if items could be cut, leaving rates at which
// nothing more is gained, and returns the value that the bin holds at most. However the
// arithmetic went, the answer is an upper bound: it is computed from the rates.
func (k *knapsack) relax(b int32) float64 {
	k.begin(b)
	for range 20 * (k.dims + 2) {
		if !k.improve() {
			break
		}
	}
	return k.worth(b)
}

func (k *knapsack) begin(b int32) {
	room := k.m.bins[b].room
	clear(k.inv)
	for d := range k.dims {
		k.inv[d*k.dims+d] = 1
		k.basis[d] = int32(-1 - d)
		k.x[d] = float64(room[d])
		k.rates[d] = 0
	}
	k.open = k.open[:0]
	for i := range k.m.kinds {
		k.upper[i], k.inside[i] = false, false
		k.most[i] = 0
		kind := &k.m.kinds[i]
		if !k.m.groups[kind.group].has(int(b)) {
			continue
		}
		most := int64(min(kind.most, kind.count))
		for d, s := range k.m.sizeOf(i) {
			if s > 0 {
				most = min(most, room[d]/s)
			}
		}
		if k.most[i] = float64(most); most > 0 {
			k.open = append(k.open, int32(i))
		}
	}
}

// gain returns what one more of a column adds to the value at the present rates.
func (k *knapsack) gain(i int32) float64 {
	g := k.value[i]
	size := k.size[int(i)*k.dims:]
	for d, rate := range k.rates {
		g -= rate * size[d]
	}
	return g
}

// improve does one pivot of the simplex method with bounded variables and reports
// whether there was one to do.
func (k *knapsack) improve() bool {
	D := k.dims
	for d := range D {
		k.rates[d] = 0
		for r := range D {
			if j := k.basis[r]; j >= 0 {
				k.rates[d] += k.value[j] * k.inv[r*D+d]
			}
		}
	}
	enter, best, sign := int32(math.MinInt32), 0.0, 1.0
	for _, i := range k.open {
		if k.inside[i] {
			continue
		}
		g := k.gain(i)
		if k.upper[i] {
			g = -g
		}
		if g > 1e-9*k.value[i] && g*k.most[i] > best {
			enter, best, sign = i, g*k.most[i], 1
			if k.upper[i] {
				sign = -1
			}
		}
	}
	for d := range D {
		// A rate below nothing: leave some of the dimension free.
		if g := -k.rates[d] * k.room(d); g > 1e-9 && g > best && !slices.Contains(k.basis, int32(-1-d)) {
			enter, best, sign = int32(-1-d), g, 1
		}
	}
	if enter == math.MinInt32 {
		return false
	}
	k.pivot(enter, sign)
	return true
}

func (k *knapsack) room(d int) float64 { return max(k.m.total[d], 1) }

// pivot moves the column up or down until it or one of the basis meets a bound.
func (k *knapsack) pivot(enter int32, sign float64) {
	D := k.dims
	limit, row := inf, -1
	if enter >= 0 {
		limit = k.most[enter]
	}
	for r := range D {
		k.step[r] = 0
		if enter < 0 {
			k.step[r] = k.inv[r*D+int(-1-enter)]
		} else {
			for d, s := range k.m.sizeOf(int(enter)) {
				k.step[r] += k.inv[r*D+d] * float64(s)
			}
		}
		change := -sign * k.step[r]
		room := inf
		switch j := k.basis[r]; {
		case change < -1e-12:
			room = max(k.x[r], 0) / -change
		case change > 1e-12 && j >= 0:
			room = max(k.most[j]-k.x[r], 0) / change
		}
		if room < limit {
			limit, row = room, r
		}
	}
	for r := range D {
		k.x[r] -= sign * k.step[r] * limit
	}
	if row < 0 {
		k.upper[enter] = !k.upper[enter]
		return
	}
	start := 0.0
	if enter >= 0 && k.upper[enter] {
		start = k.most[enter]
	}
	if out := k.basis[row]; out >= 0 {
		k.inside[out] = false
		k.upper[out] = -sign*k.step[row] > 0
	}
	if enter >= 0 {
		k.inside[enter] = true
	}
	k.basis[row] = enter
	k.x[row] = start + sign*limit
	p := k.step[row]
	for d := range D {
		k.inv[row*D+d] /= p
	}
	for r := range D {
		if f := k.step[r]; r != row && f != 0 {
			for d := range D {
				k.inv[r*D+d] -= f * k.inv[row*D+d]
			}
		}
	}
}

// worth returns what the bin's room and the best of all items are worth at the rates,
// which no filling can be worth more than.
func (k *knapsack) worth(b int32) float64 {
	v := 0.0
	for d, r := range k.m.bins[b].room {
		k.rates[d] = max(k.rates[d], 0)
		v += k.rates[d] * float64(r)
	}
	for _, i := range k.open {
		v += k.most[i] * max(k.gain(i), 0)
	}
	return v * (1 + safety)
}

// search looks for the best filling with whole items, depth first in the order of value
// for room.
type search struct {
	order []int32
	worth []float64 // of the room that one of each kind takes
	cost  []float64 // the same by position in order
	now   []int
	found []int
	best  float64
	nodes int
	free  []int64
	taken []bool // kinds in now, where some kinds have rivals
}

// integral looks for a good filling of a bin after relax, and searches in up to so many
// nodes for a better one unless it is worth more than enough. It returns the value of the
// best filling, an upper bound on the value of every filling, and the filling.
func (k *knapsack) integral(b int32, nodes int, enough float64, out []Item) (best, bound float64, items []Item) {
	s := &k.search
	s.order = s.order[:0]
	for _, i := range k.open {
		if k.value[i] > 0 {
			s.order = append(s.order, i)
			worth := 0.0
			for d, rate := range k.rates {
				worth += rate * k.size[int(i)*k.dims+d]
			}
			s.worth[i] = worth
		}
	}
	cost := s.worth
	slices.SortFunc(s.order, func(a, b int32) int {
		if c := cmp.Compare(k.value[b]*cost[a], k.value[a]*cost[b]); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(k.value[b], k.value[a]), cmp.Compare(a, b))
	})
	n := len(s.order)
	s.cost = s.cost[:0]
	for _, i := range s.order {
		s.cost = append(s.cost, cost[i])
	}
	s.now = append(s.now[:0], make([]int, n)...)
	s.found = append(s.found[:0], make([]int, n)...)
	s.free = append(s.free[:0], k.m.bins[b].room...)
	s.nodes = nodes
	s.taken = append(s.taken[:0], make([]bool, len(k.value))...)
	k.whole(b)
	ceiling := k.worth(b)
	bound = ceiling
	if s.best <= enough*(1+closeEnough) {
		k.dive(0, 0, ceiling)
		if s.nodes > 0 {
			bound = min(bound, s.best*(1+10*safety))
		}
	}
	items = out[:0]
	for p, n := range s.found {
		if n > 0 {
			items = append(items, Item{Class: s.order[p], N: n})
		}
	}
	return s.best, bound, items
}

// whole starts the search with the cut solution's whole items, and what then still fits,
// densest first.
func (k *knapsack) whole(b int32) {
	s := &k.search
	s.best = 0
	if k.m.rivalry {
		return
	}
	cut := func(i int32) int64 {
		if k.upper[i] {
			return int64(k.most[i])
		}
		if r := slices.Index(k.basis, i); r >= 0 {
			return int64(k.x[r] + 1e-9)
		}
		return 0
	}
	for again := range 2 {
		for p, i := range s.order {
			n := int64(k.most[i]) - int64(s.found[p])
			if again == 0 {
				n = min(n, cut(i))
			}
			for d, z := range k.m.sizeOf(int(i)) {
				if z > 0 {
					n = min(n, s.free[d]/z)
				}
			}
			for d, z := range k.m.sizeOf(int(i)) {
				s.free[d] -= n * z
			}
			s.found[p] += int(n)
			s.best += k.value[i] * float64(n)
		}
	}
	copy(s.free, k.m.bins[b].room)
}

// dive tries the kinds from a position in order on, most of each first.
func (k *knapsack) dive(at int, value, ceiling float64) {
	s := &k.search
	if value > s.best {
		s.best = value
		copy(s.found, s.now)
		clear(s.found[at:])
	}
	if at == len(s.order) || s.nodes <= 0 || s.best >= ceiling*(1-1e-9) {
		return
	}
	s.nodes--
	open := 0.0
	for d, f := range s.free {
		open += k.rates[d] * float64(f)
	}
	open *= 1 + 1e-12 // whatever was lost to rounding
	i := s.order[at]
	size := k.m.sizeOf(int(i))
	n := int64(k.most[i])
	for d, z := range size {
		if z > 0 {
			n = min(n, s.free[d]/z)
		}
	}
	if slices.ContainsFunc(k.m.kinds[i].rivals, func(r int32) bool { return s.taken[r] }) {
		n = 0
	}
	for d, z := range size {
		s.free[d] -= z * n
	}
	for ; n >= 0; n-- {
		here := value + k.value[i]*float64(n)
		if here+k.above(at+1, open-s.cost[at]*float64(n)) > s.best*(1+1e-9) {
			s.now[at] = int(n)
			s.taken[i] = n > 0
			k.dive(at+1, here, ceiling)
		} else {
			// Fewer of the denser kind cannot hold more.
			for d, z := range size {
				s.free[d] += z * n
			}
			s.now[at], s.taken[i] = 0, false
			return
		}
		if n > 0 {
			for d, z := range size {
				s.free[d] += z
			}
		}
	}
	s.now[at], s.taken[i] = 0, false
}

// above bounds what the kinds from a position on add to the value when the room that is
// left is worth so much.
func (k *knapsack) above(at int, room float64) float64 {
	s := &k.search
	v := 0.0
	for p := at; p < len(s.order); p++ {
		i := s.order[p]
		worth := k.most[i] * s.cost[p]
		if worth > room {
			return v + k.value[i]*max(room, 0)/s.cost[p]
		}
		v += k.most[i] * k.value[i]
		room -= worth
	}
	return v
}
