package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// sharesWanted is how many shares are enough: with more, those of nearly the same size are
// taken together. The answer is then about pods of mean size; whether the real ones fit is
// seen when they are placed.
const sharesWanted = 3000

// merge takes shares together that differ in nothing that matters, and more so the more
// there are.
func (b *buyer) merge() {
	var rest []share
	plain := make([]share, 0, len(b.shares))
	for i := range b.shares {
		if b.shares[i].plain() {
			plain = append(plain, b.shares[i])
		} else {
			rest = append(rest, b.shares[i])
		}
	}
	groups := intern(plain)
	digits := 64
	merged := mergeBy(plain, groups, digits)
	for len(merged) > sharesWanted && digits > 3 {
		digits = min(digits, 8) - 1
		merged = mergeBy(plain, groups, digits)
	}
	for i := range merged {
		sh := &merged[i]
		sh.high = len(sh.members) - 1
	}
	b.shares = append(rest, merged...)
	b.exact = digits == 64
}

// intern numbers the shares' sets of bins, so that equal sets have equal numbers.
func intern(shares []share) []int {
	numbers := make([]int, len(shares))
	byHash := map[uint64][]int{} // hash → indexes of shares with different sets
	for i := range shares {
		if i > 0 && slices.Equal(shares[i].bins, shares[i-1].bins) {
			numbers[i] = numbers[i-1]
			shares[i].bins = shares[i-1].bins
			continue
		}
		hash := uint64(14695981039346656037)
		for _, w := range shares[i].bins {
			hash = (hash ^ w) * 1099511628211
			hash ^= hash >> 29
		}
		same := slices.IndexFunc(byHash[hash], func(j int) bool { return slices.Equal(shares[i].bins, shares[j].bins) })
		if same < 0 {
			byHash[hash] = append(byHash[hash], i)
			numbers[i] = i
			continue
		}
		numbers[i] = byHash[hash][same]
		shares[i].bins = shares[numbers[i]].bins
	}
	return numbers
}

// mergeBy takes together the shares that are alike.
func mergeBy(shares []share, groups []int, digits int) []share {
	var merged []share
	for _, which := range alike(shares, groups, digits) {
		merged = append(merged, together(shares, which))
	}
	return merged
}

// alike returns, by index, which shares are of one group and need the same in so many
// binary digits.
func alike(shares []share, groups []int, digits int) (sets [][]int) {
	order := make([]int, len(shares))
	for i := range order {
		order[i] = i
	}
	compare := func(i, j int) int {
		if c := cmp.Compare(groups[i], groups[j]); c != 0 {
			return c
		}
		for d := range shares[i].size {
			if c := cmp.Compare(rough(shares[i].size[d], digits), rough(shares[j].size[d], digits)); c != 0 {
				return c
			}
		}
		return 0
	}
	slices.SortStableFunc(order, compare)
	for first := 0; first < len(order); {
		end := first + 1
		for end < len(order) && compare(order[first], order[end]) == 0 {
			end++
		}
		sets = append(sets, order[first:end])
		first = end
	}
	return sets
}

// together makes one share of several, largest members first.
func together(shares []share, which []int) share {
	sh := shares[which[0]]
	sh.members, sh.count = nil, 0
	sum := make(quantity.Vector, len(sh.size))
	for _, i := range which {
		sh.members = append(sh.members, shares[i].members...)
		sh.count += shares[i].count
		sum.AddN(shares[i].size, int64(shares[i].count))
	}
	sh.size = make(quantity.Vector, len(sum))
	for d := range sum {
		sh.size[d] = (sum[d] + int64(sh.count) - 1) / int64(sh.count)
	}
	slices.SortStableFunc(sh.members, func(x, y member) int { return slices.Compare(y.class.need, x.class.need) })
	return sh
}

// rough returns an amount with so many of its leading binary digits.
func rough(v int64, digits int) int64 {
	if drop := bits.Len64(uint64(v)) - digits; v > 0 && drop > 0 {
		return v >> drop << drop
	}
	return v
}
