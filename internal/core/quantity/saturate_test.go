package quantity_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// nearest returns the amount that is nearest to a number.
func nearest(n *big.Int) int64 {
	switch most := big.NewInt(quantity.Max); {
	case n.Cmp(most) > 0:
		return quantity.Max
	case n.CmpAbs(most) > 0:
		return -quantity.Max
	default:
		return n.Int64()
	}
}

// FuzzSaturate compares every operation with that on whole numbers without bounds.
func FuzzSaturate(f *testing.F) {
	edges := []int64{0, 1, -1, 1000, 4 << 60, 1<<62 - 1, quantity.Max, -quantity.Max, quantity.Max - 1, quantity.Max + 1, math.MaxInt64, math.MinInt64}
	for _, a := range edges {
		for _, b := range edges {
			f.Add(a, b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := big.NewInt(quantity.Clamp(a)), big.NewInt(quantity.Clamp(b))
		sum, product := nearest(new(big.Int).Add(x, y)), nearest(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)))
		for name, c := range map[string]struct{ got, want int64 }{
			"Clamp":      {quantity.Clamp(a), nearest(big.NewInt(a))},
			"Add":        {quantity.Add(a, b), sum},
			"Sub":        {quantity.Sub(a, b), nearest(new(big.Int).Sub(x, y))},
			"Mul":        {quantity.Mul(a, b), product},
			"Plus":       {quantity.List{"a": a}.Plus(quantity.List{"a": b})["a"], sum},
			"MinusFloor": {quantity.List{"a": a}.MinusFloor(quantity.List{"a": b})["a"], max(0, nearest(new(big.Int).Sub(x, y)))},
			"AddN":       {addN(a, a, b), nearest(new(big.Int).Add(x, big.NewInt(product)))},
			"Times":      {quantity.Times(quantity.Vector{quantity.Clamp(a)}, quantity.Vector{quantity.Clamp(b)}, quantity.Vector{1}, math.MaxInt64), max(0, nearestTo(x, y))},
			"Vector":     {quantity.Space{"a"}.Vector(quantity.List{"a": a})[0], quantity.Clamp(a)},
			"Room":       {quantity.Space{"a"}.Room(quantity.List{"a": a})[0], quantity.Clamp(a)},
		} {
			if c.got != c.want {
				t.Errorf("%s of %d and %d is %d, want %d", name, a, b, c.got, c.want)
			}
		}
	})
}

func addN(a, amount, n int64) int64 {
	v := quantity.Vector{a}
	v.AddN(quantity.Vector{amount}, n)
	return v[0]
}

// nearestTo returns x - y, which no bound was in the way of.
func nearestTo(x, y *big.Int) int64 { return new(big.Int).Sub(x, y).Int64() }

// TestSumsNeverComeBackSmall adds up what wraps around to a small number in an int64.
func TestSumsNeverComeBackSmall(t *testing.T) {
	t.Parallel()
	sum, v := quantity.List{}, quantity.Vector{0}
	for range 4 {
		sum.Add(quantity.List{quantity.Memory: 1 << 62})
		v.AddN(quantity.Vector{1 << 61}, 2)
	}
	if sum[quantity.Memory] != quantity.Max || v[0] != quantity.Max {
		t.Errorf("four times 4Ei are %d and %d, want %d", sum[quantity.Memory], v[0], int64(quantity.Max))
	}
}
