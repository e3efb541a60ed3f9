package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLayers compares orders with what is known about them.
func TestLayers(t *testing.T) {
	t.Parallel()
	chain := [][]int{{0, 1, 0}, {0, 0, 1}, {0, 0, 0}}
	circle := [][]int{{0, 5, 0}, {0, 0, 5}, {2, 0, 0}}
	mutual := [][]int{{0, 3}, {4, 0}}
	for name, test := range map[string]struct {
		uses  [][]int
		order []int
		cost  int
	}{
		"a chain has an order with nothing against it":  {chain, []int{0, 1, 2}, 0},
		"a circle is cut where it is weakest":           {circle, []int{0, 1, 2}, 2},
		"of two that use each other the heavier counts": {mutual, []int{1, 0}, 3},
	} {
		order := layers(test.uses)
		if !slices.Equal(order, test.order) || against(test.uses, order) != test.cost {
			t.Errorf("%s: layers = %v with %d against, want %v with %d", name, order, against(test.uses, order), test.order, test.cost)
		}
	}
}

// TestSearchFindsWhatIsBest compares the search with the exact answer for random knots
// that are small enough for it.
func TestSearchFindsWhatIsBest(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		uses := make([][]int, 12)
		knot := make([]int, len(uses))
		for i := range uses {
			knot[i] = i
			uses[i] = make([]int, len(uses))
			for j := range uses {
				if i != j && random.IntN(3) == 0 {
					uses[i][j] = 1 + random.IntN(5)
				}
			}
		}
		if got, want := against(uses, search(uses, knot)), against(uses, best(uses, knot)); got != want {
			t.Errorf("search leaves %d against, the best order %d", got, want)
		}
	}
}
