package launch

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// sharesWanted is how many shares are enough. With more, those of nearly the same size are
// merged. The answer is then about pods of mean size, and whether the real ones fit is found
// out when they are placed.
const sharesWanted = 3000

// merge makes one share of shares that are alike: of equal size, and where there are too many, of
// nearly equal size.
func (b *launcher) merge() {
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
	sets := alike(plain, groups, digits)
	for len(sets) > sharesWanted && digits > 3 {
		digits = min(digits, 8) - 1
		sets = alike(plain, groups, digits)
	}
	merged := allTogether(plain, sets)
	for i := range merged {
		sh := &merged[i]
		sh.high = len(sh.members) - 1
	}
	b.shares = append(rest, merged...)
	b.exact = digits == 64
}

// intern numbers the shares' sets of bins: equal sets have equal numbers, and share memory.
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

// mergeBy makes one share of those that are alike.
func mergeBy(shares []share, groups []int, digits int) []share {
	return allTogether(shares, alike(shares, groups, digits))
}

// allTogether makes one share of each set of shares.
func allTogether(shares []share, sets [][]int) []share {
	merged := make([]share, 0, len(sets))
	members, dims := 0, 0
	for _, which := range sets {
		if len(which) > 1 {
			dims += len(shares[which[0]].size)
			for _, i := range which {
				members += len(shares[i].members)
			}
		}
	}
	memory := slabs{members: make([]member, 0, members), sizes: make(quantity.Vector, dims)}
	for _, which := range sets {
		merged = append(merged, memory.together(shares, which))
	}
	return merged
}

// slabs is memory for many shares at once.
type slabs struct {
	members []member
	sizes   quantity.Vector
}

// alike returns the sets of shares, by index, that are of one group and whose sizes are equal in
// so many leading binary digits.
func alike(shares []share, groups []int, digits int) (sets [][]int) {
	if len(shares) == 0 {
		return nil
	}
	order, dims := make([]int, len(shares)), len(shares[0].size)
	sizes := make(quantity.Vector, 0, len(shares)*dims)
	for i := range order {
		order[i] = i
		for _, v := range shares[i].size {
			sizes = append(sizes, rough(v, digits))
		}
	}
	compare := func(i, j int) int {
		if c := cmp.Compare(groups[i], groups[j]); c != 0 {
			return c
		}
		return slices.Compare(sizes[i*dims:(i+1)*dims], sizes[j*dims:(j+1)*dims])
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(compare(i, j), cmp.Compare(i, j)) })
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

// together makes one share of several, with the largest members first.
func (m *slabs) together(shares []share, which []int) share {
	sh := shares[which[0]]
	if len(which) == 1 {
		return sh
	}
	first := len(m.members)
	sh.count, sh.size, m.sizes = 0, m.sizes[:len(sh.size):len(sh.size)], m.sizes[len(sh.size):]
	for _, i := range which {
		m.members = append(m.members, shares[i].members...)
		sh.count += shares[i].count
		sh.size.AddN(shares[i].size, int64(shares[i].count))
	}
	for d, sum := range sh.size {
		sh.size[d] = (sum + int64(sh.count) - 1) / int64(sh.count)
	}
	sh.members = m.members[first:]
	slices.SortStableFunc(sh.members, func(x, y member) int { return slices.Compare(y.class.Need, x.class.Need) })
	return sh
}

// rough returns an amount without all but so many of its leading binary digits.
func rough(v int64, digits int) int64 {
	if drop := bits.Len64(uint64(v)) - digits; v > 0 && drop > 0 {
		return v >> drop << drop
	}
	return v
}
