// Package deletioncost says in which order nodes are to lose their pods when workloads are scaled
// down, so that this empties the nodes that consolidation would remove. It may import the core's
// values, budget and disrupt. Read Rank.
package deletioncost

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// systemNamespace has pods that are expected to be evicted, whatever made them.
const systemNamespace = "kube-system"

// Rank returns the deletion cost of the pods of each of our nodes, lowest first: of those that go
// away already, then of those that have drifted, then of those that could be consolidated, both as
// many as the budgets allow now, and those that save most for their disruption first. The pods of
// the other nodes have none.
func Rank(snap *cluster.Snapshot) []plan.DeletionCost {
	r := ranking{snap: snap, prices: cluster.NewPrices(snap), left: map[key]int{}, ledger: budget.Open(snap)}
	var going, drifted, normal, others []plan.DeletionCost
	for _, n := range r.nodes() {
		cost := plan.DeletionCost{Node: n.Name, Pool: n.Pool}
		switch reason := r.reason(n); {
		case n.Deleting || n.DisruptionReason != "" || n.DisruptedTaint:
			cost.Cost, cost.Going = math.MinInt32, true
			going = append(going, cost)
		case reason == "" || !r.take(n.Pool, reason):
			cost.None = true
			others = append(others, cost)
		case reason == disrupt.Drifted:
			drifted = append(drifted, cost)
		default:
			normal = append(normal, cost)
		}
	}
	ranked := slices.Concat(drifted, normal)
	for i := range ranked {
		ranked[i].Cost = int32(i - len(ranked)) //nolint:gosec // a cluster has fewer nodes
	}
	return slices.Concat(going, ranked, others)
}

// ranking is a ranking under way.
type ranking struct {
	snap   *cluster.Snapshot
	prices *cluster.Prices
	ledger *budget.Ledger
	// left is how many more nodes the budgets of a pool allow to be ranked for a reason.
	left map[key]int
}

type key struct{ pool, reason string }

// nodes returns our nodes, those first that save most for the disruption of their pods.
func (r *ranking) nodes() []*cluster.Node {
	type candidate struct {
		node  *cluster.Node
		ratio float64
	}
	var all []candidate
	for i := range r.snap.Nodes {
		if n := &r.snap.Nodes[i]; n.Claim != "" && n.Pool != "" {
			price, _ := r.prices.Of(n)
			all = append(all, candidate{n, price / disruption(n)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(a.node.Name, b.node.Name))
	})
	nodes := make([]*cluster.Node, len(all))
	for i := range all {
		nodes[i] = all[i].node
	}
	return nodes
}

// disruption returns what the removal of a node counts as.
func disruption(n *cluster.Node) float64 {
	sum := 1.0
	for i := range n.Reschedulable {
		sum += max(0, n.Reschedulable[i].EvictionCost())
	}
	return sum
}

// reason returns the reason for which a node could be disrupted now; empty: for none.
func (r *ranking) reason(n *cluster.Node) string {
	pool, ok := r.snap.PoolByName(n.Pool)
	isKnown := func() bool {
		for _, t := range pool.Types {
			if t.Name == n.Labels[label.InstanceType] {
				return true
			}
		}
		return false
	}
	switch {
	case !ok || pool.Static || !r.disruptable(n) || !isKnown():
		return ""
	case n.Drifted != "":
		return disrupt.Drifted
	case pool.ConsolidateAfter >= 0:
		return disrupt.Underutilized
	default:
		return ""
	}
}

// disruptable reports whether nothing on the node keeps it from disruption, and its workloads are
// such that a ReplicaSet chooses which pods go.
func (r *ranking) disruptable(n *cluster.Node) bool {
	if !n.Initialized || n.DoNotDisrupt != "" || n.Planned > 0 {
		return false
	}
	for i := range n.Reschedulable {
		p := &n.Reschedulable[i]
		byReplicaSet := p.Controller == "ReplicaSet" || p.Controller == "Job" || p.Controller == "DaemonSet"
		if p.DoNotDisrupt != "" || !byReplicaSet && p.Namespace != systemNamespace {
			return false
		}
		for _, g := range p.PDBs {
			if r.snap.PDBs[g].Allowed <= 0 {
				return false
			}
		}
	}
	return true
}

// take reports whether the budgets of a pool allow that one more of its nodes is ranked for the
// reason.
func (r *ranking) take(pool, reason string) bool {
	k := key{pool, reason}
	if _, ok := r.left[k]; !ok {
		r.left[k] = r.ledger.Left(pool, reason)
	}
	if r.left[k] <= 0 {
		return false
	}
	r.left[k]--
	return true
}
