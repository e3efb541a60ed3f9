package pack

import "github.com/dovetail-sh/dovetail/internal/core/quantity"

// slots finds the first machine, in an order, that has room. It is a tree whose inner
// nodes know the most that any machine below has in each dimension.
type slots struct {
	dims   int
	leaves int     // a power of two
	most   []int64 // dims for each node; node 1 is the root, leaf i is node leaves+i
	host   []int32 // by position; -1: it was dropped
	at     []int32 // by host: its position; -1
	bulk   bool    // inner nodes are brought up to date later
}

// reset makes the order that of the hosts. Until build, inner nodes are not kept.
func (t *slots) reset(hosts []int32, dims int) {
	t.dims, t.leaves = dims, 1
	for t.leaves < len(hosts) {
		t.leaves *= 2
	}
	t.most = make([]int64, 2*t.leaves*dims)
	for i := range t.most {
		t.most[i] = -1
	}
	t.host = append(t.host[:0], hosts...)
	for i := range t.at {
		t.at[i] = -1
	}
	for pos, h := range hosts {
		if h >= 0 {
			t.place(h, int32(pos))
		}
	}
	t.bulk = true
}

func (t *slots) place(h, pos int32) {
	for int(h) >= len(t.at) {
		t.at = append(t.at, -1)
	}
	t.at[h] = pos
}

// push adds a machine at the end of the order. What it has free is set after that.
func (t *slots) push(h int32) {
	if len(t.host) == t.leaves {
		hosts := append(t.host, h)
		old, leaves := t.most, t.leaves
		t.host = nil
		t.reset(hosts, t.dims)
		copy(t.most[t.leaves*t.dims:], old[leaves*t.dims:])
		t.build()
		return
	}
	t.host = append(t.host, h)
	t.place(h, int32(len(t.host)-1))
}

// drop takes a machine out of the order.
func (t *slots) drop(h int) {
	if h >= len(t.at) || t.at[h] < 0 {
		return
	}
	t.set(h, nil)
	t.host[t.at[h]], t.at[h] = -1, -1
	for last := len(t.host) - 1; last >= 0 && t.host[last] < 0; last-- {
		t.host = t.host[:last]
	}
}

// build brings every inner node up to date.
func (t *slots) build() {
	t.bulk = false
	for i := t.leaves - 1; i >= 1; i-- {
		t.raise(i)
	}
}

// set notes what a machine has free; nil: it takes nothing.
func (t *slots) set(h int, free quantity.Vector) {
	if h >= len(t.at) || t.at[h] < 0 {
		return
	}
	i := t.leaves + int(t.at[h])
	leaf := t.most[i*t.dims : (i+1)*t.dims]
	if free == nil {
		for r := range leaf {
			leaf[r] = -1
		}
	} else {
		copy(leaf, free)
	}
	for i >>= 1; i >= 1 && !t.bulk; i >>= 1 {
		if !t.raise(i) {
			return
		}
	}
}

// raise works out an inner node from those below, and tells whether it changed.
func (t *slots) raise(i int) (changed bool) {
	d := t.dims
	own, l, r := t.most[i*d:(i+1)*d], t.most[2*i*d:(2*i+1)*d], t.most[(2*i+1)*d:(2*i+2)*d]
	for k := range own {
		if m := max(l[k], r[k]); m != own[k] {
			own[k], changed = m, true
		}
	}
	return changed
}

// has tells whether a node may have room.
func (t *slots) has(i int, need quantity.Vector) bool {
	own := t.most[i*t.dims : (i+1)*t.dims]
	for k, n := range need {
		if n > 0 && n > own[k] {
			return false
		}
	}
	return true
}

// holds tells whether a machine has room still; -1, which is none, always does.
func (t *slots) holds(h int32, need quantity.Vector) bool {
	return h < 0 || t.at[h] >= 0 && t.has(t.leaves+int(t.at[h]), need)
}

// next returns the first position from the given one on that has room; -1: none. It gives
// up when visits, which it counts down, is used up: where what is free is in pieces, most
// inner nodes promise what no machine below has.
func (t *slots) next(from int, need quantity.Vector, visits *int) int {
	if from >= len(t.host) {
		return -1
	}
	i := t.leaves + from
	for *visits > 0 {
		*visits--
		if t.has(i, need) {
			if i >= t.leaves {
				return i - t.leaves
			}
			i *= 2
			continue
		}
		for i&1 == 1 { // the last of its parent: go up
			if i >>= 1; i == 0 {
				return -1
			}
		}
		i++
	}
	return -1
}
