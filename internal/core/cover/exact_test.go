package cover

import (
	"fmt"
	"math"
	"testing"
)

// optimum returns the least price of packing all items, by trying all ways to part them.
// It knows nothing of what it judges, ignores Left, and is for a dozen items at most.
func optimum(p *Problem) float64 {
	items := itemsOf(p)
	together := make([]float64, 1<<len(items)) // the price of the cheapest bin for each set
	for set := range together {
		together[set] = cheapestFor(p, items, set)
	}
	best := make([]float64, len(together))
	for set := 1; set < len(best); set++ {
		first := set & -set
		rest := set &^ first
		best[set] = math.Inf(1)
		for sub := rest; ; sub = (sub - 1) & rest {
			best[set] = min(best[set], together[sub|first]+best[rest&^sub])
			if sub == 0 {
				break
			}
		}
	}
	return best[len(best)-1]
}

// itemsOf returns the class of each item.
func itemsOf(p *Problem) (items []int) {
	for c := range p.Classes {
		for range p.Classes[c].Count {
			items = append(items, c)
		}
	}
	return items
}

// cheapestFor returns the price of the cheapest bin that may hold the set of items.
func cheapestFor(p *Problem, items []int, set int) float64 {
	used := make([]int64, p.Dims)
	n := make([]int, len(p.Classes))
	for i, c := range items {
		if set>>i&1 == 1 {
			n[c]++
			for d, s := range p.Classes[c].Size {
				used[d] += s
			}
		}
	}
	for c, k := range n {
		if k > 0 && p.Classes[c].PerBin > 0 && k > p.Classes[c].PerBin {
			return math.Inf(1)
		}
		for _, o := range p.Classes[c].Conflicts {
			if k > 0 && n[o] > 0 {
				return math.Inf(1)
			}
		}
	}
	price := math.Inf(1)
	for b := range p.Bins {
		fits := p.Bins[b].Price < price
		for c, k := range n {
			fits = fits && (k == 0 || p.Classes[c].Bins[b/64]>>(b%64)&1 == 1)
		}
		for d, u := range used {
			fits = fits && u <= p.Bins[b].Capacity[d]
		}
		if fits {
			price = p.Bins[b].Price
		}
	}
	return price
}

// small draws a problem of about ten items; every item has a bin.
func small(seed uint64) *Problem {
	r := random(seed)
	p := &Problem{Dims: 1 + r.below(3)}
	for range 2 + r.below(4) {
		b := Bin{Price: float64(20+r.below(180)) / 100}
		for range p.Dims {
			b.Capacity = append(b.Capacity, int64(4+r.below(30)))
		}
		p.Bins = append(p.Bins, b)
	}
	last := Bin{Price: 3} // a dear one for everybody
	for range p.Dims {
		last.Capacity = append(last.Capacity, 40)
	}
	p.Bins = append(p.Bins, last)
	for left := 7 + r.below(5); left > 0; {
		c := Class{Count: min(left, 1+r.below(4)), Bins: []uint64{r.next() | 1<<(len(p.Bins)-1)}}
		for range p.Dims {
			c.Size = append(c.Size, int64(r.below(13)))
		}
		if r.below(4) == 0 {
			c.PerBin = 1 + r.below(2)
		}
		if n := len(p.Classes); n > 0 && r.below(4) == 0 {
			c.Conflicts = []int32{int32(r.below(n))}
		}
		left -= c.Count
		p.Classes = append(p.Classes, c)
	}
	return p
}

// TestOptimumLiesBetweenBoundAndPrice compares with an exact method on small problems.
func TestOptimumLiesBetweenBoundAndPrice(t *testing.T) {
	t.Parallel()
	const problems = 200
	exact, sum, bounds := 0, 0.0, 0.0
	for seed := range uint64(problems) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := small(seed)
			items := 0
			for _, c := range p.Classes {
				items += c.Count
			}
			e := Default(items)
			e.Prove = seed%4 != 0
			s := Solve(p, e)
			check(t, p, s)
			best := optimum(p)
			if s.Bound > best*(1+1e-9) {
				t.Errorf("bound %v is above the optimum %v", s.Bound, best)
			}
			if s.Price < best*(1-1e-9) {
				t.Errorf("price %v is below the optimum %v", s.Price, best)
			}
			if bound, _ := Bound(p); bound > best*(1+1e-9) {
				t.Errorf("Bound returns %v, above the optimum %v", bound, best)
			}
			if s.Price < best*(1+1e-9) {
				exact++
			}
			sum += s.Price / best
			bounds += s.Bound / best
		})
	}
	t.Logf("%d of %d problems are solved exactly; the price is %.4f and the bound %.4f of the optimum on average", exact, problems, sum/problems, bounds/problems)
}

// TestNoBinHoldsMoreValueThanItCosts tries all fillings of small problems, with the values for a thousand times as many items.
// They are worth more than by the rates of the bins' room alone.
func TestNoBinHoldsMoreValueThanItCosts(t *testing.T) {
	t.Parallel()
	const many, problems = 1000, 200
	byRoom := 0.0
	for seed := range uint64(problems) {
		p, large := small(seed), small(seed)
		for c := range large.Classes {
			large.Classes[c].Count *= many
		}
		if seed%2 == 0 {
			p.BinFee, large.BinFee = 0.1, 0.1
		}
		value, items := Values(large, 20), itemsOf(p)
		for set := range 1 << len(items) {
			worth := 0.0
			for i, c := range items {
				worth += value[c] * float64(set>>i&1)
			}
			if price := cheapestFor(p, items, set) + p.BinFee; worth > price*(1+1e-9) {
				t.Fatalf("seed %d: items worth %v have room in a bin that costs %v", seed, worth, price)
			}
		}
		rates, sum := newSolver(large).tariff.bound, 0.0
		for c := range large.Classes {
			sum += value[c] * float64(large.Classes[c].Count)
		}
		if sum < rates*(1-1e-9) {
			t.Errorf("seed %d: items are worth %v, and %v by the room they take", seed, sum, rates)
		}
		byRoom += rates / sum / problems
	}
	if byRoom > 0.95 {
		t.Errorf("by the room they take items are worth %.3f of their values", byRoom)
	}
	t.Logf("by the room they take items are worth %.3f of their values", byRoom)
}
