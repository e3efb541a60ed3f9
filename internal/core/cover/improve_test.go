package cover

import (
	"math/rand/v2"
	"testing"
)

// manyKinds returns a problem like a cluster of many small workloads: two items of each of a
// hundred sizes, and bins from tiny to huge of which the larger are cheaper for their size.
func manyKinds(seed uint64) *Problem {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it must be the same each time
	p := &Problem{Dims: 2}
	for size := int64(20); size <= 1280; size *= 2 {
		for ratio := range int64(3) {
			p.Bins = append(p.Bins, Bin{Capacity: []int64{size, size << (1 + ratio)}, Price: float64(size) * (0.9 + 0.2*r.Float64()) * (0.8 + 0.2*float64(ratio))})
		}
	}
	for range 100 {
		cpu := int64(1 + 12*r.ExpFloat64())
		p.Classes = append(p.Classes, Class{Size: []int64{min(cpu, 60), min(1+int64(float64(cpu)*8*r.Float64()), 300)}, Count: 2, Bins: []uint64{1<<len(p.Bins) - 1}})
	}
	return p
}

// TestSearchIsRepeatedWhereItPays has packings of many kinds come out cheaper for repeated searches,
// and none dearer.
func TestSearchIsRepeatedWhereItPays(t *testing.T) {
	t.Parallel()
	once, repeated := 0.0, 0.0
	for seed := range uint64(10) {
		p := manyKinds(seed)
		e := Effort{Passes: 3, Improve: 20, Evaluations: 5_000_000}
		a := Solve(p, e)
		e.Repeat = 60
		b := Solve(p, e)
		check(t, p, b)
		if b.Price > a.Price {
			t.Errorf("seed %d: %v after repeated searches, %v after one", seed, b.Price, a.Price)
		}
		once, repeated = once+a.Price/a.Bound, repeated+b.Price/b.Bound
	}
	t.Logf("price over bound: %.4f after one search, %.4f after repeated ones", once/10, repeated/10)
	if once/10-repeated/10 < 0.002 {
		t.Error("repeating a search makes packings no cheaper")
	}
}

// TestRepeatedSearchesEnd checks that the candidates are bounded for all searches together, and
// that useless searches end early.
func TestRepeatedSearchesEnd(t *testing.T) {
	t.Parallel()
	candidates := func(e Effort) int {
		s := newSolver(manyKinds(1))
		s.correct(1)
		first := s.greedy.evaluations
		s.improve(e)
		return s.greedy.evaluations - first
	}
	oneRound := candidates(Effort{Improve: 1})
	if n := candidates(Effort{Improve: 5, Evaluations: 10 * oneRound, Repeat: 1_000_000}); n > 100*oneRound {
		t.Errorf("%d candidates were looked at, 100 rounds have %d", n, 100*oneRound)
	}
	if n := candidates(Effort{Improve: 100, Repeat: 1_000_000}); n > 100*100*oneRound {
		t.Errorf("%d candidates were looked at, 10,000 rounds have %d", n, 100*100*oneRound)
	}
}
