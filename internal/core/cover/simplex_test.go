package cover

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A program that needs less than it did has the answer that it would have had from the start.
func TestLowerNeedsAreMetAtTheSameCost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		need := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 8).Draw(t, "need")
		lower := slices.Clone(need)
		for i := range lower {
			lower[i] *= rapid.Float64Range(0, 1).Draw(t, "part")
		}
		columns := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 4), len(need)+1, len(need)+1), 1, 20).Draw(t, "columns")
		program, fresh := linearOf(need, columns), linearOf(lower, columns)
		program.solve(1000)
		if !program.renew(lower, 1000) {
			t.Fatalf("renew(%v) gave up", lower)
		}
		fresh.solve(1000)
		if got, want := program.objective(), fresh.objective(); math.Abs(got-want) > 1e-6*(1+want) {
			t.Errorf("renew(%v) costs %v, want %v", lower, got, want)
		}
		for i, x := range program.x {
			if x < -1e-6 {
				t.Errorf("renew(%v): x of row %d is %v, want none below 0", lower, i, x)
			}
		}
	})
}

// linearOf returns the program with these columns; the first number of each says what it costs.
func linearOf(need []float64, columns [][]int) *linear {
	l := newLinear(slices.Clone(need), 1e4)
	for _, c := range columns {
		var index []int32
		var value []float64
		for r, v := range c[1:] {
			if v > 0 {
				index, value = append(index, int32(r)), append(value, float64(v)/8)
			}
		}
		l.add(0.1+float64(c[0]), index, value)
	}
	return l
}
