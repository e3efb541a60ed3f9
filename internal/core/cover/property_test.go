package cover

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawProblem draws anything that a Problem may be: no bins, no classes, items of no size
// or too large, bins that are free, of no room, equal, or soon sold out.
func drawProblem(t *rapid.T) *Problem {
	p := &Problem{Dims: rapid.IntRange(1, 6).Draw(t, "dims"), BinFee: rapid.SampledFrom([]float64{0, 0, 0.01, 1}).Draw(t, "fee")}
	vector := func(name string, most int64) []int64 {
		return rapid.SliceOfN(rapid.Int64Range(0, most), p.Dims, p.Dims).Draw(t, name)
	}
	for range rapid.IntRange(0, 12).Draw(t, "bins") {
		p.Bins = append(p.Bins, Bin{
			Capacity: vector("capacity", rapid.SampledFrom([]int64{0, 10, 1000, 1 << 45}).Draw(t, "most")),
			Price:    rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.1, 0.3, 2, 100}).Draw(t, "price"),
			Left:     rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "left"),
		})
	}
	n := rapid.IntRange(0, 12).Draw(t, "classes")
	for range n {
		p.Classes = append(p.Classes, Class{
			Size:   vector("size", rapid.SampledFrom([]int64{0, 3, 300, 1 << 40}).Draw(t, "largest")),
			Count:  rapid.SampledFrom([]int{0, 1, 2, 7, 50, 1_000_000}).Draw(t, "count"),
			PerBin: rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "perBin"),
			Bins:   []uint64{rapid.Uint64().Draw(t, "allowed")},
		})
	}
	for i := range p.Classes {
		if rapid.IntRange(0, 3).Draw(t, "rival") == 0 {
			if o := rapid.Int32Range(0, int32(n-1)).Draw(t, "other"); int(o) != i {
				p.Classes[i].Conflicts = []int32{o}
			}
		}
		for b := len(p.Bins); b < 64; b++ {
			p.Classes[i].Bins[0] &^= 1 << b
		}
	}
	return p
}

func drawEffort(t *rapid.T) Effort {
	return Effort{
		Passes: rapid.IntRange(0, 4).Draw(t, "passes"), Columns: rapid.IntRange(0, 10).Draw(t, "columns"),
		Improve: rapid.IntRange(0, 10).Draw(t, "improve"), Repeat: rapid.IntRange(0, 3).Draw(t, "repeat"), Ascend: rapid.Bool().Draw(t, "ascend"), Twice: rapid.Bool().Draw(t, "twice"), LowEffort: rapid.Bool().Draw(t, "low effort"), Prove: rapid.Bool().Draw(t, "prove"),
	}
}

func TestEveryAnswerKeepsTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, e := drawProblem(t), drawEffort(t)
		s := Solve(p, e)
		check(t, p, s)
		for _, u := range s.Unplaced {
			if c := p.Classes[u.Class]; endless(p, c) {
				t.Errorf("class %d: %d items are unplaced, and there is a bin for them without end", u.Class, u.N)
			}
		}
	})
}

// endless reports whether some bin of which there is any number takes an item of the class.
func endless(p *Problem, c Class) bool {
	for b := range p.Bins {
		if p.Bins[b].Left == 0 && bitset(c.Bins).has(b) && covers(p.Bins[b].Capacity, c.Size) {
			return true
		}
	}
	return false
}

func TestValuesAreFinite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		values := Values(p, 5)
		for c, v := range values {
			if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
				t.Errorf("an item of class %d is worth %v", c, v)
			}
		}
		if diff := cmp.Diff(values, Values(p, 5)); diff != "" {
			t.Errorf("the second answer differs (-first +second):\n%s", diff)
		}
	})
}

func TestTheSameProblemHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, e := drawProblem(t), drawEffort(t)
		if diff := cmp.Diff(Solve(p, e), Solve(p, e)); diff != "" {
			t.Errorf("Solve twice (-first +second):\n%s", diff)
		}
	})
}

// TestPricesHaveNoUnit scales all prices by a power of two, which loses nothing.
func TestPricesHaveNoUnit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, e := drawProblem(t), drawEffort(t)
		for b := range p.Bins {
			p.Bins[b].Price += 0.05 // what is free is a case of its own
		}
		before := Solve(p, e)
		p.BinFee *= 4
		for b := range p.Bins {
			p.Bins[b].Price *= 4
		}
		after := Solve(p, e)
		if diff := cmp.Diff(before.Patterns, after.Patterns); diff != "" {
			t.Errorf("patterns at four times the prices (-before +after):\n%s", diff)
		}
	})
}

// TestMoreWorkIsNeverDearer holds because the best is kept, and first-fit-decreasing is
// among what it is the best of.
func TestMoreWorkIsNeverDearer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		cost := func(s Solution) (unplaced int, cost float64) {
			for _, u := range s.Unplaced {
				unplaced += u.N
			}
			cost = s.Price
			for _, pat := range s.Patterns {
				cost += p.BinFee * float64(pat.Times)
			}
			return unplaced, cost
		}
		fewUnplaced, few := cost(Solve(p, Effort{Passes: 1}))
		manyUnplaced, many := cost(Solve(p, Effort{Passes: 3, Columns: 5, Improve: 10}))
		if manyUnplaced > fewUnplaced || manyUnplaced == fewUnplaced && many > few*(1+1e-9) {
			t.Errorf("one pass costs %v and leaves out %d, all the rest %v and %d", few, fewUnplaced, many, manyUnplaced)
		}
		var plain packing
		if m := compile(p); m.firstFitDecreasing(&plain) && many > plain.cost*(1+1e-9) {
			t.Errorf("first-fit-decreasing costs %v, all the rest %v", plain.cost, many)
		}
	})
}

func FuzzSolve(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		p := drawProblem(t)
		check(t, p, Solve(p, drawEffort(t)))
	}))
}
