package launch

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// exclusiveMax is how many mutually exclusive sets a problem has at most.
const exclusiveMax = 3

// mutuallyExclusive is sets of classes, by index. No two pods of a set may be on one node. In a
// problem such a set is a resource of which every node has one.
type mutuallyExclusive []map[int]bool

// of returns in which of the sets a class is, a bit for each set.
func (s mutuallyExclusive) of(class int) (bits int) {
	for i, set := range s {
		if set[class] {
			bits |= 1 << i
		}
	}
	return bits
}

// exclusive returns the sets with the most pods, given the pods of each class.
func (b *launcher) exclusive(counts []int) mutuallyExclusive {
	hostname := slices.Index(b.ledger.Keys(), label.Hostname)
	if hostname < 0 {
		return nil
	}
	pods := make([]int, b.ledger.Groups())
	var groups []int
	for c, n := range counts {
		if n == 0 {
			continue
		}
		for g := range b.keptApart(c, hostname) {
			if pods[g] == 0 {
				groups = append(groups, g)
			}
			pods[g] += n
		}
	}
	slices.SortStableFunc(groups, func(x, y int) int { return cmp.Compare(pods[y], pods[x]) })
	var out mutuallyExclusive
	for _, g := range groups[:min(len(groups), exclusiveMax)] {
		if pods[g] > 1 {
			out = append(out, map[int]bool{})
		}
	}
	for c, n := range counts {
		for g := range b.keptApart(c, hostname) {
			if i := slices.Index(groups[:len(out)], g); n > 0 && i >= 0 {
				out[i][c] = true
			}
		}
	}
	return out
}

// keptApart returns the groups under a key that the pods of a class count in and keep away from:
// no two pods of such a group may share a domain.
func (b *launcher) keptApart(class, key int) iter.Seq[int] {
	return func(yield func(group int) bool) {
		for g := range b.ledger.KeptFrom(class, key, math.MaxInt) {
			if slices.Contains(b.ledger.CountedIn(class), g) && !yield(g) {
				return
			}
		}
	}
}

// addExclusive adds the sets to the problem as resources.
func (b *launcher) addExclusive(p *cover.Problem, shares []share, s mutuallyExclusive) {
	if len(s) == 0 {
		return
	}
	one := make([]int64, len(s))
	for i := range one {
		one[i] = 1
	}
	p.Dims += len(s)
	var memory model.Slab[int64]
	for i := range p.Bins {
		b := &p.Bins[i]
		b.Capacity = append(append(memory.Take(p.Dims)[:0], b.Capacity...), one...)
	}
	for i := range p.Classes {
		c := &p.Classes[i]
		c.Size = append(memory.Take(p.Dims)[:0], c.Size...)
		in := s.of(shares[i].members[0].class.Index)
		for n := range s {
			c.Size = append(c.Size, int64(in>>n&1))
		}
	}
}
