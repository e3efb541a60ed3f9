package repack

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestVacanciesFindTheFirstWithRoom compares the tree with a list that is searched from its
// beginning, while nodes come and go and get fuller.
func TestVacanciesFindTheFirstWithRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SampledFrom([]int{1, 2, 3, 6, 8}).Draw(t, "dimensions")
		most := rapid.SampledFrom([]int64{5, 1000, 1 << 40}).Draw(t, "most")
		amount := rapid.Custom(func(t *rapid.T) quantity.Vector {
			v := make(quantity.Vector, dims)
			for r := range v {
				v[r] = rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, most)).Draw(t, "amount")
			}
			return v
		})
		largest := make(quantity.Vector, dims)
		for r := range largest {
			largest[r] = most / 2
		}
		var tree vacancies
		var order []int32
		free := map[int32]quantity.Vector{}
		for h := range int32(rapid.IntRange(0, 4).Draw(t, "nodes")) {
			order = append(order, h)
			free[h] = amount.Draw(t, "free")
		}
		tree.reset(order, largest)
		for _, h := range order {
			tree.set(int(h), free[h])
		}
		tree.build()
		coming := int32(len(order))
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				tree.push(coming)
				free[coming] = amount.Draw(t, "free")
				tree.set(int(coming), free[coming])
				order = append(order, coming)
				coming++
			},
			"drop": func(t *rapid.T) {
				h := rapid.Int32Range(0, coming+1).Draw(t, "node")
				tree.drop(int(h))
				delete(free, h)
			},
			"set": func(t *rapid.T) {
				h := rapid.Int32Range(0, coming+1).Draw(t, "node")
				if _, ok := free[h]; ok {
					free[h] = amount.Draw(t, "free")
					tree.set(int(h), free[h])
				}
			},
			"": func(t *rapid.T) {
				need := amount.Draw(t, "need")
				want := int32(-1)
				for _, h := range order {
					if room, ok := free[h]; ok && need.Fits(room) {
						want = h
						break
					}
				}
				got, visits := int32(-1), 1000
				if at := tree.next(0, tree.request(need), &visits); at >= 0 {
					got = tree.host[at]
				}
				if got != want {
					t.Fatalf("node %d has room for %v first, the tree says %d: %v in the order %v", want, need, got, free, order)
				}
				for h, room := range free {
					if tree.holds(h, need) != need.Fits(room) {
						t.Fatalf("node %d has %v for %v", h, room, need)
					}
				}
			},
		})
	})
}
