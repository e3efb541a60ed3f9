package cover

import (
	"math/bits"
	"slices"
)

// bitset is a set of small numbers. Missing words are empty.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }
func (b bitset) set(i int)      { b[i>>6] |= 1 << (i & 63) }

// within reports whether every member is in the other set.
func (b bitset) within(o bitset) bool {
	for i, w := range b {
		if i < len(o) {
			w &^= o[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// hash returns a number that equal sets share, whatever their length.
func (b bitset) hash() uint64 {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range b {
		h = (h ^ w) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

// equal reports whether both have the same members.
func (b bitset) equal(o bitset) bool { return b.within(o) && o.within(b) }

// each calls f with the members in order.
func (b bitset) each(f func(int)) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			f(i<<6 + bits.TrailingZeros64(w))
		}
	}
}

// interned numbers sets by their members, in the order in which they come.
type interned struct {
	sets   []bitset
	byHash map[uint64][]int32
}

// number returns the number of the set; of a set that is new a copy is kept.
func (t *interned) number(b bitset) int32 {
	h := b.hash()
	for _, i := range t.byHash[h] {
		if t.sets[i].equal(b) {
			return i
		}
	}
	if t.byHash == nil {
		t.byHash = map[uint64][]int32{}
	}
	i := int32(len(t.sets))
	t.sets = append(t.sets, slices.Clone(b))
	t.byHash[h] = append(t.byHash[h], i)
	return i
}

// random is a stream of numbers that are the same for the same seed (splitmix64).
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// unit returns a number from 0 to less than 1.
func (r *random) unit() float64 { return float64(r.next()>>11) / (1 << 53) }
