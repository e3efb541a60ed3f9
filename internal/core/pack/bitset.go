package pack

import (
	"iter"
	"math"
	"math/bits"
)

// bitset is a set of small integers, of a width fixed when it is made.
type bitset []uint64

func newBitset(width int) bitset { return make(bitset, (width+63)/64) }

// fullBitset returns the set of all integers below width.
func fullBitset(width int) bitset {
	b := newBitset(width)
	for i := range b {
		b[i] = math.MaxUint64
	}
	if rest := width & 63; rest > 0 {
		b[len(b)-1] = 1<<rest - 1
	}
	return b
}

func (b bitset) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clear(i int)    { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// setRange adds the integers from i to before end.
func (b bitset) setRange(i, end int) {
	for ; i < end; i++ {
		b.set(i)
	}
}

func (b bitset) clone() bitset {
	c := make(bitset, len(b))
	copy(c, b)
	return c
}

// or adds o to b.
func (b bitset) or(o bitset) {
	for i := range o {
		b[i] |= o[i]
	}
}

// and keeps of b what is in o.
func (b bitset) and(o bitset) {
	for i := range o {
		b[i] &= o[i]
	}
}

// remove takes what is in o out of b.
func (b bitset) remove(o bitset) {
	for i := range o {
		b[i] &^= o[i]
	}
}

// intersection writes x∩y to b and tells whether anything is left.
func (b bitset) intersection(x, y bitset) bool {
	var any uint64
	for i := range b {
		b[i] = x[i] & y[i]
		any |= b[i]
	}
	return any != 0
}

// meets tells whether any member of b is in o.
func (b bitset) meets(o bitset) bool {
	for i := range b {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// within tells whether b is a subset of o.
func (b bitset) within(o bitset) bool {
	for i := range b {
		if b[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

func (b bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// anyIn tells whether a member is in [from, to).
func (b bitset) anyIn(from, to int) bool {
	for i := from; i < to; {
		w, span := b[i>>6]>>(i&63), 64-i&63
		if to-i < span {
			w &= 1<<(to-i) - 1
		}
		if w != 0 {
			return true
		}
		i += span
	}
	return false
}

// allIn tells whether all of [from, to) are members.
func (b bitset) allIn(from, to int) bool {
	for i := from; i < to; i++ {
		if !b.has(i) {
			return false
		}
	}
	return true
}

// all goes through the set, smallest first.
func (b bitset) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(w<<6 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
