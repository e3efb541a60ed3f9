package cover

import (
	"math"

	"pgregory.net/rapid"
)

// check fails the test if the solution breaks a rule of the problem. It shares nothing
// with what it judges.
func check(tb rapid.TB, p *Problem, s Solution) {
	tb.Helper()
	seen := make([]int, len(p.Classes))
	opened := make([]int, len(p.Bins))
	price := 0.0
	for i, pat := range s.Patterns {
		b := p.Bins[pat.Bin]
		if pat.Times <= 0 || len(pat.Items) == 0 {
			tb.Errorf("pattern %d: %d times %v", i, pat.Times, pat.Items)
		}
		opened[pat.Bin] += pat.Times
		price += b.Price * float64(pat.Times)
		used := make([]int64, p.Dims)
		within := map[int32]int{}
		for _, it := range pat.Items {
			c := p.Classes[it.Class]
			if w := int(pat.Bin) / 64; w >= len(c.Bins) || c.Bins[w]>>(pat.Bin%64)&1 == 0 {
				tb.Errorf("pattern %d: class %d may not be in bin %d", i, it.Class, pat.Bin)
			}
			if it.N <= 0 || within[it.Class] > 0 {
				tb.Errorf("pattern %d: class %d: %d items, %d before", i, it.Class, it.N, within[it.Class])
			}
			within[it.Class] = it.N
			if c.PerBin > 0 && it.N > c.PerBin {
				tb.Errorf("pattern %d: class %d: %d items in a bin, at most %d", i, it.Class, it.N, c.PerBin)
			}
			seen[it.Class] += it.N * pat.Times
			for d := range used {
				used[d] += c.Size[d] * int64(it.N)
			}
		}
		for c := range within {
			for _, o := range p.Classes[c].Conflicts {
				if o != c && within[o] > 0 {
					tb.Errorf("pattern %d: classes %d and %d share a bin", i, c, o)
				}
			}
		}
		for d, u := range used {
			if u > b.Capacity[d] {
				tb.Errorf("pattern %d: dimension %d: %d used of %d", i, d, u, b.Capacity[d])
			}
		}
	}
	for i, b := range p.Bins {
		if b.Left > 0 && opened[i] > b.Left {
			tb.Errorf("bin %d: %d opened of %d", i, opened[i], b.Left)
		}
	}
	for _, u := range s.Unplaced {
		seen[u.Class] += u.N
	}
	for c, n := range seen {
		if n != max(p.Classes[c].Count, 0) {
			tb.Errorf("class %d: %d of %d items answered for", c, n, p.Classes[c].Count)
		}
	}
	if math.Abs(price-s.Price) > 1e-6*(1+price) {
		tb.Errorf("price %v, patterns cost %v", s.Price, price)
	}
	if s.Bound > s.Price*(1+1e-9) {
		tb.Errorf("bound %v above price %v", s.Bound, s.Price)
	}
	if len(s.ClassPrices) != len(p.Classes) {
		tb.Errorf("%d class prices for %d classes", len(s.ClassPrices), len(p.Classes))
	}
}
