// Package static decides how many nodes a static NodePool, one with spec.replicas, launches or
// removes to have its number of nodes.
//
// A node of the pool counts as active unless it is deleting or has a disruption reason. What has
// a disruption reason is going to be removed when its replacement, which is active, is
// initialized; until then nothing is launched for it. If a replacement fails and the node stays
// after all, the pool has one node too many, and one of them goes.
//
// Read Next. The package imports the core only.
package static

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// launchesMax bounds the launches of one decision. The next one launches more.
const launchesMax = 1000

// Next returns what brings a static pool to its number of nodes. Of a pool that is not static it
// returns the zero Scaling.
func Next(snap *cluster.Snapshot, name string) plan.Scaling {
	out := plan.Scaling{At: snap.At, Pool: name}
	pool, ok := snap.PoolByName(name)
	if !ok || !pool.Static {
		return plan.Scaling{}
	}
	count := CountOf(snap, name)
	out.Missing = max(0, pool.Replicas-count.Active)
	switch surplus := count.Active - pool.Replicas; {
	case surplus > 0:
		out.Removals = leastWanted(snap, name, surplus)
	case count.Active+count.Pending < pool.Replicas:
		launch(&out, snap, pool, count)
	}
	return out
}

// Part returns the part of a snapshot that Next reads for a pool, and all that need be kept of the
// decision: the pool and its nodes.
func Part(snap *cluster.Snapshot, name string) *cluster.Snapshot {
	part := &cluster.Snapshot{At: snap.At}
	if pool, ok := snap.PoolByName(name); ok {
		part.Pools = []cluster.Pool{*pool}
	}
	for i := range snap.Nodes {
		if snap.Nodes[i].Pool == name {
			part.Nodes = append(part.Nodes, snap.Nodes[i])
		}
	}
	return part
}

// launch adds the launches that are missing, as far as the pool can launch.
func launch(out *plan.Scaling, snap *cluster.Snapshot, pool *cluster.Pool, count Count) {
	if pool.Unready != "" {
		out.Blocked = verdict.Of(verdict.PoolUnready, pool.Name, "%s", pool.Unready)
		return
	}
	room := count.Room(pool)
	n := min(out.Missing, room, launchesMax)
	if n < min(out.Missing, launchesMax) {
		out.Blocked = verdict.Of(verdict.PoolLimitReached, pool.Name, "its limit of %d nodes leaves room for %d of the %d that are missing",
			pool.Limits[quantity.Nodes], n, out.Missing)
	}
	if n <= 0 {
		return
	}
	if left := cluster.SuppliesLeft(Part(snap, pool.Name)).Left; left != nil {
		launchWithin(left, out, pool, n)
		return
	}
	one, why := Template(pool)
	if !why.IsYes() {
		out.Blocked = why
		return
	}
	out.Launches = slices.Repeat([]plan.Launch{one}, n)
}

// launchWithin adds n launches, or as many as what is left of supplies covers beside the pool's own
// NodeClaims. NodeClaims of other pools that the cloud has not been asked for do not count: if they take
// what is left, the cloud refuses, and the pool launches later.
func launchWithin(left catalog.Supplies, out *plan.Scaling, pool *cluster.Pool, n int) {
	choices := catalog.Choices(pool.Types, pool.Requirements, nil)
	for range n {
		choices = slices.DeleteFunc(choices, func(c catalog.Choice) bool {
			_, ok := left.Short(c.Offering)
			return !ok
		})
		if len(choices) == 0 {
			out.Blocked = whyNone(pool, pool.Requirements, left)
			return
		}
		out.Launches = append(out.Launches, launchOf(pool, pool.Requirements, choices))
		left.Take(choices[0].Offering)
	}
}

// Count is how many nodes of a static pool there are, by what becomes of them.
type Count struct {
	// Active stay. Pending have a disruption reason. Deleting are being deleted.
	Active, Pending, Deleting int
}

// CountOf returns the count of a pool's nodes.
func CountOf(snap *cluster.Snapshot, pool string) Count {
	var c Count
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		switch {
		case n.Pool != pool || n.Claim == "":
		case n.Deleting:
			c.Deleting++
		case n.DisruptionReason != "":
			c.Pending++
		default:
			c.Active++
		}
	}
	return c
}

// Room returns how many nodes the pool may launch beside those that there are. Nodes that are
// deleting take room until they are gone.
func (c Count) Room(pool *cluster.Pool) int {
	limit, limited := pool.Limits[quantity.Nodes]
	if !limited {
		return math.MaxInt
	}
	return max(0, int(min(limit, math.MaxInt32))-c.Active-c.Pending-c.Deleting)
}

// Template returns the launch of one node of a pool as its template has it, without regard to
// pods. The verdict says why there is none.
func Template(pool *cluster.Pool) (plan.Launch, verdict.Verdict) {
	return template(pool, pool.Requirements)
}

// Replacement returns the launch of the node that takes another one's place. If that has pods, it is
// in the same zone, where that can be had: pods with volumes could not follow to another one, so the
// command would be taken back when its node is there, and begun again, for ever.
func Replacement(pool *cluster.Pool, n *cluster.Node) (plan.Launch, verdict.Verdict) {
	if zone := n.Labels[label.Zone]; zone != "" && len(n.Reschedulable) > 0 {
		if l, why := template(pool, pool.Requirements.With(label.Zone, label.In(zone))); why.IsYes() {
			return l, why
		}
	}
	return Template(pool)
}

func template(pool *cluster.Pool, requirements label.Requirements) (plan.Launch, verdict.Verdict) {
	choices := catalog.Choices(pool.Types, requirements, nil)
	if len(choices) == 0 {
		var left catalog.Supplies
		for _, o := range catalog.Offered(pool.Types, requirements) {
			left.Add(o)
		}
		return plan.Launch{}, whyNone(pool, requirements, left)
	}
	return launchOf(pool, requirements, choices), verdict.Verdict{}
}

// whyNone says why nothing can be launched.
func whyNone(pool *cluster.Pool, requirements label.Requirements, left catalog.Supplies) verdict.Verdict {
	for _, o := range catalog.Offered(pool.Types, requirements) {
		if short, ok := left.Short(o); o.Available && !ok {
			return verdict.Of(verdict.SupplyUsedUp, pool.Name, "%s", short)
		}
	}
	return verdict.Of(verdict.NoCompatibleType, pool.Name, "no instance type within the requirements is available")
}

// launchOf returns the launch of one of the choices, of which there is at least one.
func launchOf(pool *cluster.Pool, requirements label.Requirements, choices []catalog.Choice) plan.Launch {
	l := plan.Launch{Pool: pool.Name, Requirements: requirements, PriceHourly: choices[0].Offering.Price()}
	if math.IsInf(l.PriceHourly, 0) {
		l.PriceHourly = 0 // it is not known
	}
	for _, c := range choices {
		if !slices.Contains(l.Types, c.Type.Name) {
			l.Types = append(l.Types, c.Type.Name)
		}
	}
	return l
}

// leastWanted returns the nodes of a pool that go first when it has too many: those that no
// instance is known of, then those without pods, then those whose pods are the cheapest to evict,
// and last those with a pod that must not be disrupted. Of equals the youngest goes.
func leastWanted(snap *cluster.Snapshot, pool string, n int) []plan.Removal {
	type candidate struct {
		node *cluster.Node
		rank int
		cost float64
	}
	var all []candidate
	for i := range snap.Nodes {
		node := &snap.Nodes[i]
		if node.Pool == pool && node.Claim != "" && !node.Deleting && node.DisruptionReason == "" {
			all = append(all, candidate{node, rank(node), EvictionCost(snap, node)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.cost, b.cost),
			b.node.Created.Compare(a.node.Created), cmp.Compare(a.node.Name, b.node.Name))
	})
	out := make([]plan.Removal, 0, n)
	for _, c := range all[:n] {
		out = append(out, plan.Removal{Node: c.node.Name, Claim: c.node.Claim, Pool: pool})
	}
	return out
}

// rank sorts nodes into kinds, of which the lower goes first.
func rank(n *cluster.Node) int {
	switch {
	case n.InFlight != nil:
		return 0
	case n.DoNotDisrupt != "":
		return 3
	case len(n.Reschedulable) == 0:
		return 1
	default:
		return 2
	}
}

// EvictionCost returns what the eviction of a node's pods counts as: each pod by its priority and
// its annotation pod-deletion-cost, all by how much of the node's life is left.
func EvictionCost(snap *cluster.Snapshot, n *cluster.Node) float64 {
	sum := 0.0
	for i := range n.Reschedulable {
		sum += n.Reschedulable[i].EvictionCost()
	}
	if life := n.Expires.Sub(n.Created); !n.Expires.IsZero() && life > 0 {
		sum *= min(1, max(0, n.Expires.Sub(snap.At).Seconds()/life.Seconds()))
	}
	return sum
}
