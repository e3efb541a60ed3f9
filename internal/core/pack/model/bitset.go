package model

import (
	"iter"
	"math"
	"math/bits"
)

// Bitset is a set of small integers, of a width fixed when it is made.
type Bitset []uint64

// NewBitset returns an empty set for integers below width.
func NewBitset(width int) Bitset { return make(Bitset, (width+63)/64) }

// FullBitset returns the set of all integers below width.
func FullBitset(width int) Bitset {
	b := NewBitset(width)
	for i := range b {
		b[i] = math.MaxUint64
	}
	if rest := width & 63; rest > 0 {
		b[len(b)-1] = 1<<rest - 1
	}
	return b
}

// Set adds i.
func (b Bitset) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Clear takes i out.
func (b Bitset) Clear(i int) { b[i>>6] &^= 1 << (i & 63) }

// Has reports whether i is a member.
func (b Bitset) Has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// setRange adds the integers from i to before end.
func (b Bitset) setRange(i, end int) {
	for ; i < end; i++ {
		b.Set(i)
	}
}

// Clone returns a set of its own with the same members.
func (b Bitset) Clone() Bitset {
	c := make(Bitset, len(b))
	copy(c, b)
	return c
}

// Or adds o to b.
func (b Bitset) Or(o Bitset) {
	for i := range o {
		b[i] |= o[i]
	}
}

// And keeps of b what is in o.
func (b Bitset) And(o Bitset) {
	for i := range o {
		b[i] &= o[i]
	}
}

// remove takes what is in o out of b.
func (b Bitset) remove(o Bitset) {
	for i := range o {
		b[i] &^= o[i]
	}
}

// Intersection writes x∩y to b and reports whether anything is left.
func (b Bitset) Intersection(x, y Bitset) bool {
	var any uint64
	for i := range b {
		b[i] = x[i] & y[i]
		any |= b[i]
	}
	return any != 0
}

// Meets reports whether any member of b is in o.
func (b Bitset) Meets(o Bitset) bool {
	for i := range b {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// Within reports whether b is a subset of o.
func (b Bitset) Within(o Bitset) bool {
	for i := range b {
		if b[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

// Empty reports whether the set has no member.
func (b Bitset) Empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

func (b Bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// AnyIn reports whether a member is in [from, to).
func (b Bitset) AnyIn(from, to int) bool {
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

// allIn reports whether all of [from, to) are members.
func (b Bitset) allIn(from, to int) bool {
	for i := from; i < to; i++ {
		if !b.Has(i) {
			return false
		}
	}
	return true
}

// All goes through the set, smallest first.
func (b Bitset) All() iter.Seq[int] {
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
