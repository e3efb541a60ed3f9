package disperse

import (
	"cmp"
	"math"
	"slices"
)

// Gather exchanges pods between nodes, so that pods that may not be evicted by our choice are on few of them, as far as
// that costs nothing: a node with such a pod can neither be replaced nor removed. What workloads lose with a node or a
// zone stays within the limits.
func (x *Board) Gather() {
	if !slices.Contains(x.stays, true) {
		return
	}
	x.domains, x.gathers = x.newChoosing().domains, true
	order := x.holding()
	for k, i := range order {
		for h := 0; h < len(x.nodes[i].held) && x.searches > 0; h++ {
			c := x.nodes[i].held[h].class
			for t := len(order) - 1; t > k && x.stays[c] && x.movable[c]; t-- {
				x.give(c, i, order[t])
			}
		}
	}
	x.domains, x.gathers = nil, false
	x.finish()
}

// staying returns how many pods that stay a node has.
func (x *Board) staying(i int) (n int32) {
	for _, h := range x.nodes[i].held {
		if x.stays[h.class] {
			n += h.n
		}
	}
	return n
}

// Holding returns how many nodes have pods that may not be evicted.
func (x *Board) Holding() (n int) {
	for i := range x.nodes {
		if x.nodes[i].offering >= 0 && x.staying(i) > 0 {
			n++
		}
	}
	return n
}

// holding returns the nodes with pods that stay, those with the fewest first.
func (x *Board) holding() (order []int) {
	counts := make([]int32, len(x.nodes))
	for i := range x.nodes {
		if counts[i] = x.staying(i); counts[i] > 0 && !x.nodes[i].isFixed {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	return order
}

// give moves pods of a class that stay from one node to another that has such pods, as long as one is there and they
// fit.
func (x *Board) give(c int32, i, j int) {
	limit := int32(math.MaxInt32)
	if x.size[c] > 1 {
		limit = Limit(x.size[c])
	}
	for {
		most := min(x.nodes[i].count(c), limit-x.nodes[j].count(c), x.domains.room(c, j, i))
		if most <= 0 || x.searches <= 0 || !x.pass(c, i, j, most) {
			return
		}
	}
}
