package disrupt

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// A pool's limits bound what it costs. A node that is going to be removed counts against them, beside
// its replacement, until it is deleted: the removal may fail.

// hold takes amounts from the limits of a pool, for what the snapshot's Nodes do not show. The
// snapshot's pools must be its own.
func hold(snap *cluster.Snapshot, pool string, amount quantity.List) {
	p, ok := snap.PoolByName(pool)
	if !ok || len(p.Limits) == 0 {
		return
	}
	p.Limits = maps.Clone(p.Limits)
	for name := range p.Limits {
		n := amount[name]
		if name == quantity.Nodes {
			n = 1
		}
		p.Limits[name] = quantity.Sub(p.Limits[name], n)
	}
}

// Room returns, for each pool with limits, what these leave beside its nodes. Nodes that are being
// deleted do not count.
func Room(snap *cluster.Snapshot) map[string]quantity.List {
	room := map[string]quantity.List{}
	for i := range snap.Pools {
		if p := &snap.Pools[i]; len(p.Limits) > 0 {
			room[p.Name] = maps.Clone(p.Limits)
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		left, limited := room[n.Pool]
		switch {
		case !limited || n.Deleting:
		case n.InFlight != nil:
			p, _ := snap.PoolByName(n.Pool)
			takeNode(left, largest(p, n.InFlight.Types))
		default:
			takeNode(left, n.Capacity)
		}
	}
	return room
}

// takeNode takes the resources of one node from what is left.
func takeNode(left, node quantity.List) {
	for name := range left {
		if name == quantity.Nodes {
			left[name]--
			continue
		}
		left[name] = quantity.Sub(left[name], node[name])
	}
}

// beside returns why a pod was refused, without the numbers of limits: what is held of the limits makes
// them misleading.
func beside(why verdict.Verdict) verdict.Verdict {
	if why.Reason == verdict.PoolLimitReached {
		why.Detail = "its limits leave no room beside what is there until it is gone"
	}
	why.Causes = slices.Clone(why.Causes)
	for i := range why.Causes {
		why.Causes[i] = beside(why.Causes[i])
	}
	return why
}

// largest returns the most that one of the types has of each resource.
func largest(p *cluster.Pool, types []string) quantity.List {
	most := quantity.List{}
	for _, t := range p.Types {
		if slices.Contains(types, t.Name) {
			for name, n := range t.Capacity {
				most[name] = max(most[name], n)
			}
		}
	}
	return most
}
