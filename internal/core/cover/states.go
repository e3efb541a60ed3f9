package cover

import (
	"math"
	"slices"
)

// statesMax bounds the table of exactly, in cells.
const statesMax = 1 << 23

// scarceEnough is what part of a bin's worth a dimension must be to have an axis: without
// that of one that is worth next to nothing the bin holds next to nothing more.
const scarceEnough = 1e-6

// axis is a dimension of a bin in steps that all sizes are multiples of.
type axis struct {
	dim    int
	step   int64
	cells  int
	stride int
}

// states is a table of what most value a bin can hold, by how much of it may be used.
type states struct {
	axes []axis
	best []float64
	need []int // of one kind, by axis
	at   []int
}

// exactly returns the most value that fillings of a bin with whole items have, as if there
// were any number of items, and the filling, after relax. It goes through all amounts of
// every dimension that has a rate, and returns false if they are too many.
func (k *knapsack) exactly(b int32, s *states, out []Item) (most float64, items []Item, ok bool) {
	cells := s.span(k, b)
	if cells > statesMax {
		return 0, nil, false
	}
	s.best = append(s.best[:0], make([]float64, cells)...)
	for i := range k.value {
		if k.most[i] == 0 || k.value[i] <= 0 {
			continue
		}
		back := s.back(k, i)
		if back == 0 {
			return 0, nil, false // what takes no room could be there for ever
		}
		s.add(back, k.value[i])
	}
	return s.best[cells-1] * (1 + 10*safety), s.filling(k, out), true
}

// back returns how many cells before the one with an item of the kind that without it is.
func (s *states) back(k *knapsack, kind int) (cells int) {
	for a, x := range s.axes {
		s.need[a] = int(k.m.sizeOf(kind)[x.dim] / x.step)
		cells += s.need[a] * x.stride
	}
	return cells
}

// add lets items of one kind, whose need is noted, be in the bin.
func (s *states) add(back int, value float64) {
	last := len(s.axes) - 1
	copy(s.at, s.need)
	for {
		row := 0
		for a := range last {
			row += s.at[a] * s.axes[a].stride
		}
		to := s.best[row+s.need[last] : row+s.axes[last].cells]
		from := s.best[row+s.need[last]-back:]
		for c := range to {
			if v := from[c] + value; v > to[c] {
				to[c] = v
			}
		}
		a := last - 1
		for ; a >= 0; a-- {
			if s.at[a]++; s.at[a] < s.axes[a].cells {
				break
			}
			s.at[a] = s.need[a]
		}
		if a < 0 {
			return
		}
	}
}

// filling returns items that have the most value.
func (s *states) filling(k *knapsack, items []Item) []Item {
	items = items[:0]
	c := len(s.best) - 1
	for i := range k.value {
		if k.most[i] == 0 || k.value[i] <= 0 {
			continue
		}
		back, n := s.back(k, i), 0
		for s.within(c) && s.best[c] <= (s.best[c-back]+k.value[i])*(1+1e-12) {
			c -= back
			n++
		}
		if n > 0 {
			items = append(items, Item{Class: int32(i), N: n})
		}
	}
	return items
}

// within reports whether the need that is noted is within what a cell allows.
func (s *states) within(c int) bool {
	for a, x := range s.axes {
		if c/x.stride%x.cells < s.need[a] {
			return false
		}
	}
	return true
}

// span finds the dimensions that are scarce in the bin, and returns how many cells they have.
func (s *states) span(k *knapsack, b int32) (cells int) {
	s.axes, cells = s.axes[:0], 1
	scarce := 0.0
	for d, room := range k.m.bins[b].room {
		scarce += scarceEnough * max(k.rates[d], 0) * float64(room)
	}
	for d, room := range k.m.bins[b].room {
		step := int64(0)
		for i := range k.value {
			if k.most[i] > 0 {
				step = gcd(step, k.m.sizeOf(i)[d])
			}
		}
		if k.rates[d]*float64(room) <= scarce || step == 0 {
			continue
		}
		x := axis{dim: d, step: step, cells: int(room/step) + 1}
		if x.cells > statesMax/cells {
			return math.MaxInt
		}
		cells *= x.cells
		s.axes = append(s.axes, x)
	}
	// The finest goes last, where cells are next to each other.
	slices.SortStableFunc(s.axes, func(x, y axis) int { return x.cells - y.cells })
	stride := 1
	for a := len(s.axes) - 1; a >= 0; a-- {
		s.axes[a].stride = stride
		stride *= s.axes[a].cells
	}
	s.need, s.at = make([]int, len(s.axes)), make([]int, len(s.axes))
	return cells
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// tabled goes on as run does, but looks for fillings in tables over all amounts.
func (c *master) tabled(left []int, rounds int) {
	var table states
	for range rounds {
		c.lp.solve(10 * c.lp.rows)
		sum, dear, added := 0.0, 0.0, false
		for k := range c.value {
			c.value[k] = max(c.lp.prices[k], 0) * c.unit / float64(c.s.m.kinds[k].count)
			sum += c.value[k] * float64(left[k])
		}
		for i := range c.s.m.bins {
			bin, price := int32(i), max(c.price[i], tiny)
			ceiling := c.sack.relax(bin)
			if ceiling > price*(1+tableGap) {
				if most, items, ok := c.sack.exactly(bin, &table, c.items); ok {
					ceiling, c.items = min(ceiling, most), items
					added = c.possible(bin, left, items) && c.candidate(bin, items) || added
				}
			}
			if dear = max(dear, ceiling/price); ceiling > 0 && c.price[i] < tiny {
				return // what is free has no value
			}
		}
		if dear > 0 {
			c.bound = max(c.bound, sum/dear*(1-safety))
		}
		if !added {
			return
		}
	}
}

// possible reports whether a filling that was found without regard to counts, conflicts and
// what is not scarce is one.
func (c *master) possible(bin int32, left []int, items []Item) bool {
	m := c.s.m
	for d, room := range m.bins[bin].room {
		for _, it := range items {
			size := m.sizeOf(int(it.Class))[d]
			if size > room/int64(max(it.N, 1)) { // the product may be more than there is
				return false
			}
			room -= size * int64(it.N)
		}
	}
	return !slices.ContainsFunc(items, func(it Item) bool {
		return it.N > left[it.Class] || it.N > int(c.sack.most[it.Class]) || slices.ContainsFunc(items, func(other Item) bool {
			return slices.Contains(m.kinds[it.Class].rivals, other.Class)
		})
	})
}
