package repack

import (
	"math/bits"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// vacancies finds the first node, in an order, that has room. It is a tree. Its leaves have what
// each node has free. An inner node has, for each resource, roughly the most that any leaf below
// has: a few bits of each, side by side in one word, so that all are compared at once.
type vacancies struct {
	dims     int
	fields   int      // so many dimensions are in the words
	width    int      // bits of each, the highest of which is kept clear
	shift    [6]uint8 // by dimension: the bits that are left out
	highBits uint64   // the highest bit of each field
	leaves   int      // a power of two
	most     []uint64 // node 1 is the root, leaf i is node leaves+i
	free     []int64  // dims for each leaf
	host     []int32  // by position; -1: it was dropped
	at       []int32  // by host: its position; -1
	bulk     bool     // inner nodes are brought up to date later
}

// reset sets the order of the nodes. None has more free than largest, or more is not counted. Inner
// nodes are not kept up to date until build.
func (t *vacancies) reset(hosts []int32, largest quantity.Vector) {
	t.dims, t.leaves = len(largest), 1
	t.fields = min(t.dims, len(t.shift))
	t.width, t.highBits = 64/max(t.fields, 1), 0
	for r := range t.fields {
		t.highBits |= 1 << ((r+1)*t.width - 1)
		t.shift[r] = uint8(max(0, bits.Len64(uint64(max(largest[r], 0)))-(t.width-1)))
	}
	for t.leaves < len(hosts) {
		t.leaves *= 2
	}
	t.most, t.free = make([]uint64, 2*t.leaves), make([]int64, t.leaves*t.dims)
	for i := range t.free {
		t.free[i] = -1
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

func (t *vacancies) place(h, pos int32) {
	for int(h) >= len(t.at) {
		t.at = append(t.at, -1)
	}
	t.at[h] = pos
}

// push adds a node at the end of the order. What it has free is set after that.
func (t *vacancies) push(h int32) {
	if len(t.host) == t.leaves {
		t.most = append(make([]uint64, 2*t.leaves), append(t.most[t.leaves:], make([]uint64, t.leaves)...)...)
		for range t.leaves * t.dims {
			t.free = append(t.free, -1)
		}
		t.leaves *= 2
		t.build()
	}
	t.host = append(t.host, h)
	t.place(h, int32(len(t.host)-1))
}

// drop takes a node out of the order.
func (t *vacancies) drop(h int) {
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
func (t *vacancies) build() {
	t.bulk = false
	for i := t.leaves - 1; i >= 1; i-- {
		t.raise(i)
	}
}

// word returns the bits of amounts that the words hold, rounded down.
func (t *vacancies) word(amounts []int64) uint64 {
	var w uint64
	for r := range t.fields {
		w |= min(uint64(max(amounts[r], 0))>>t.shift[r], 1<<(t.width-1)-1) << (r * t.width)
	}
	return w
}

// set notes what a node has free; nil: it takes nothing.
func (t *vacancies) set(h int, free quantity.Vector) {
	if h >= len(t.at) || t.at[h] < 0 {
		return
	}
	pos := int(t.at[h])
	leaf := t.free[pos*t.dims : (pos+1)*t.dims]
	i := t.leaves + pos
	if free == nil {
		for r := range leaf {
			leaf[r] = -1
		}
		t.most[i] = 0
	} else {
		copy(leaf, free)
		t.most[i] = t.word(free)
	}
	for i >>= 1; i >= 1 && !t.bulk; i >>= 1 {
		if !t.raise(i) {
			return
		}
	}
}

// raise works out an inner node from the two below it, and reports whether it changed.
func (t *vacancies) raise(i int) (changed bool) {
	a, b := t.most[2*i], t.most[2*i+1]
	over := ((a | t.highBits) - b) & t.highBits // the high bit stays where a is no less
	mask := over - over>>(t.width-1)
	m := a&mask | b&^mask
	changed = m != t.most[i]
	t.most[i] = m
	return changed
}

// fits reports whether the node at a position has room.
func (t *vacancies) fits(pos int, need quantity.Vector) bool {
	return model.RoomFor(t.free[pos*t.dims:(pos+1)*t.dims], need)
}

// holds reports whether a node still has room; true for -1, which is no node.
func (t *vacancies) holds(h int32, need quantity.Vector) bool {
	return h < 0 || t.at[h] >= 0 && t.fits(int(t.at[h]), need)
}

// request is what room is searched for, and the bits of it that the words hold.
type request struct {
	need quantity.Vector
	word uint64
}

func (t *vacancies) request(need quantity.Vector) request { return request{need, t.word(need)} }

// next returns the first position from the given one on that has room; -1: none. It counts visits
// down and gives up at zero: where different leaves have much of different resources, inner nodes
// promise what no single leaf has.
func (t *vacancies) next(from int, want request, visits *int) int {
	if from >= len(t.host) {
		return -1
	}
	word, highBits, most := want.word, t.highBits, t.most
	i := t.leaves + from
	for *visits > 0 {
		*visits--
		if ((most[i]|highBits)-word)&highBits == highBits {
			if i < t.leaves {
				i *= 2
				continue
			}
			if t.fits(i-t.leaves, want.need) {
				return i - t.leaves
			}
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
