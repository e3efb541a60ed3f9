// Package budget says how many nodes of a pool may be disrupted now: the pool's budgets
// against the nodes that are already being disrupted or are not well.
package budget

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Left returns how many more nodes of the pool may be disrupted for the reason. Nodes
// that leave, are marked, or are not ready use the budget up. Without budgets there is
// no limit.
func Left(snap *cluster.Snapshot, pool *cluster.Pool, reason string) int {
	total, disrupting := count(snap, pool)
	return max(0, allowed(pool.Budgets, reason, total)-disrupting)
}

// Used returns how many nodes of the pool use its budgets up.
func Used(snap *cluster.Snapshot, pool *cluster.Pool) int {
	_, disrupting := count(snap, pool)
	return disrupting
}

func count(snap *cluster.Snapshot, pool *cluster.Pool) (total, disrupting int) {
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Pool != pool.Name || n.Claim == "" || !n.Initialised {
			continue
		}
		total++
		if n.Leaving || n.Marked != "" || !n.Ready {
			disrupting++
		}
	}
	return total, disrupting
}

// allowed returns the least that the budgets for the reason allow of total nodes; a
// percentage is rounded up.
func allowed(budgets []cluster.Budget, reason string, total int) int {
	least := math.MaxInt32
	for _, b := range budgets {
		if !b.Active || (len(b.Reasons) > 0 && !slices.Contains(b.Reasons, reason)) {
			continue
		}
		n := b.Nodes
		if b.Percent {
			n = (total*b.Nodes + 99) / 100
		}
		least = min(least, n)
	}
	return least
}
