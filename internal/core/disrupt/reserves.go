package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// reserves returns the nodes that stay and have no need to take pods yet, emptiest first. The
// others are those that the pods under way fill if they go where least is free, largest first.
// kube-scheduler puts what comes where most is free, a little on each node, and in the end no
// room is left anywhere that a large pod fits in.
func (w *work) reserves(later map[string]bool) (reserves []int) {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.Initialized && n.Ready && !n.Deleting && !n.Empty && !w.taken[i] && !later[n.Name] && w.consolidates(n.Pool) {
			reserves = append(reserves, i)
		}
	}
	if len(reserves) > reservesMax {
		return nil
	}
	used := make([]float64, len(w.snap.Nodes))
	for _, i := range reserves {
		used[i] = usedShare(&w.snap.Nodes[i])
	}
	slices.SortStableFunc(reserves, func(a, b int) int { return cmp.Compare(used[b], used[a]) })
	needed := w.fill(reserves)
	reserves = slices.DeleteFunc(reserves, func(i int) bool { return needed[i] })
	slices.Reverse(reserves)
	return reserves
}

// usedShare returns how much of a node's cpu and memory is used, as kube-scheduler adds it up.
func usedShare(n *cluster.Node) (share float64) {
	for _, name := range []string{quantity.CPU, quantity.Memory} {
		if all := n.Allocatable[name]; all > 0 {
			share += float64(n.Used[name]) / float64(all)
		}
	}
	return share
}

// fill returns which of the nodes the pods under way need, if the first take all that they can.
func (w *work) fill(nodes []int) map[int]bool {
	var constraintSets []*cluster.Constraints
	count := map[*cluster.Constraints]int{}
	add := func(s *cluster.Constraints) {
		if count[s]++; count[s] == 1 {
			constraintSets = append(constraintSets, s)
		}
	}
	for i := range w.snap.Pending {
		add(w.snap.Pending[i].Constraints)
	}
	for i, taken := range w.taken {
		for r := range w.snap.Nodes[i].Reschedulable {
			if taken {
				add(w.snap.Nodes[i].Reschedulable[r].Constraints)
			}
		}
	}
	slices.SortStableFunc(constraintSets, func(a, b *cluster.Constraints) int {
		return cmp.Compare(lifecycle.SizeOf(b.Requests), lifecycle.SizeOf(a.Requests))
	})
	needed, used := map[int]bool{}, map[int]quantity.List{}
	for _, s := range constraintSets {
		for _, i := range nodes {
			n := &w.snap.Nodes[i]
			if used[i] == nil {
				used[i] = n.Used
			}
			for count[s] > 0 && quantity.Add(used[i][quantity.CPU], s.Requests[quantity.CPU]) <= n.Allocatable[quantity.CPU] {
				sum := used[i].Plus(s.Requests)
				if !sum.Fits(n.Allocatable) {
					break
				}
				used[i], needed[i] = sum, true
				count[s]--
			}
			if count[s] == 0 {
				break
			}
		}
	}
	return needed
}
