package consolidate

import (
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// evictionWeight returns how much worse it is to evict the pod than an ordinary one. The
// annotation pod-deletion-cost and the priority count as they do for Karpenter; a pod
// that keeps state, or work that would be lost, weighs more.
func evictionWeight(r *cluster.ReschedulablePod, now time.Time) float64 {
	w := min(10, max(0.1, 1+r.DeletionCost/(1<<27)+float64(r.Priority)/(1<<25)))
	switch r.Controller {
	case "StatefulSet":
		w *= 2
	case "Job":
		w *= 1 + min(9, now.Sub(r.Created).Hours()*2)
	case "":
		w *= 10
	}
	return w
}

// youth makes it dearer to remove a young node: twice as much at first.
func youth(age time.Duration) float64 {
	return 1 + max(0, 1-age.Hours()/young.Hours())
}

// AnyYoung reports whether time alone makes it cheaper to remove one of our nodes.
func AnyYoung(snap *cluster.Snapshot) bool {
	return slices.ContainsFunc(snap.Nodes, func(n cluster.Node) bool { return n.Claim != "" && snap.At.Sub(n.Created) < young })
}

// blocked returns why a node may not be removed; yes: it may be. A node that is not
// ours has no reason.
func (c *consolidator) blocked(n *cluster.Node, price float64) verdict.Verdict {
	if n.Claim == "" || n.Deleting || n.InFlight != nil {
		return verdict.Of(verdict.NodeBlocked, "", "")
	}
	if c.opts.Candidate != nil {
		if v := c.opts.Candidate(n); !v.IsYes() {
			return v
		}
	}
	switch {
	case !n.Initialized:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is not initialised")
	case n.DoNotDisrupt != "":
		return verdict.Of(verdict.NodeBlocked, n.Name, "%s", n.DoNotDisrupt)
	case n.Planned > 0:
		return verdict.Of(verdict.NodeBlocked, n.Name, "%d pods are meant for it", n.Planned)
	case n.DisruptionReason != "" || n.DisruptedTaint:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is being disrupted already")
	case math.IsNaN(price):
		return verdict.Of(verdict.Unconsolidatable, n.Name, "its price is not known: pool %s has no type %s in zone %s as %s",
			n.Pool, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType])
	}
	for i := range n.Reschedulable {
		if v := c.holds(&n.Reschedulable[i]); !v.IsYes() {
			return v.About(n.Name)
		}
	}
	return verdict.Verdict{}
}

// holds returns why a pod may not be evicted.
func (c *consolidator) holds(r *cluster.ReschedulablePod) verdict.Verdict {
	if r.DoNotDisrupt != "" {
		return verdict.Of(verdict.NodeBlocked, "", "pod %s has %s", r.PodRef, r.DoNotDisrupt)
	}
	if why := r.Constraints.Invalid; why != "" {
		return verdict.Of(verdict.Unconsolidatable, "", "pod %s would have nowhere to go: %s", r.PodRef, why)
	}
	if v := c.opts.CoolingDown(r, c.snap.At); !v.IsYes() {
		return v
	}
	if len(r.PDBs) > 1 {
		return verdict.Of(verdict.NodeBlocked, "", "pod %s has more than one PodDisruptionBudget (%s, %s)", r.PodRef,
			c.snap.PDBs[r.PDBs[0]].Name, c.snap.PDBs[r.PDBs[1]].Name)
	}
	for _, g := range r.PDBs {
		if c.snap.PDBs[g].Allowed < 1 {
			return verdict.Of(verdict.NodeBlocked, "", "PodDisruptionBudget %s allows no eviction of pod %s", c.snap.PDBs[g].Name, r.PodRef)
		}
	}
	return verdict.Verdict{}
}

// CoolingDown returns why a pod is not evicted that may have come in the place of an evicted one.
func (t *Terms) CoolingDown(r *cluster.ReschedulablePod, at time.Time) verdict.Verdict {
	if ago, rest := at.Sub(r.Moved), t.CooldownOf(r); !r.Moved.IsZero() && ago < rest {
		return verdict.Of(verdict.Unconsolidatable, "", "pod %s came %s ago, perhaps in the place of an evicted one, and is let be for %s", r.PodRef, ago.Round(time.Second), rest)
	}
	return verdict.Verdict{}
}

// CooldownOf returns for how long a pod is not evicted after it has come. It doubles when the pod has to move
// again and again: what is saved by that comes back, for a reason that is not seen.
func (t *Terms) CooldownOf(r *cluster.ReschedulablePod) time.Duration {
	return t.Rest << max(r.Moves-1, 0)
}

// balanced reports whether every pool whose policy is Balanced finds the saving worth the
// disruption: its share of what the pool costs must be at least half of the share of the
// pool's disruption. Pools get their part of the saving by the price of what they lose.
func (c *consolidator) balanced(remove []int32, saving float64) bool {
	price, lost, weight := 0.0, map[string]float64{}, map[string]float64{}
	for _, h := range remove {
		pool := c.snap.Nodes[h].Pool
		price += c.s.Nodes.Price(int(h))
		lost[pool] += c.s.Nodes.Price(int(h))
		weight[pool] += 1 + c.weight[h]
	}
	approved, from := true, len(c.out.Scores)
	for i := range c.snap.Pools {
		pool := &c.snap.Pools[i]
		if pool.Policy != cluster.PolicyBalanced || lost[pool.Name] == 0 {
			continue
		}
		total := c.totals(pool.Name)
		score := saving * lost[pool.Name] / price / total.price / (weight[pool.Name] / total.weight)
		c.out.Scores = append(c.out.Scores, plan.Score{Node: c.snap.Nodes[remove[0]].Name, Pool: pool.Name, Value: score})
		approved = approved && score >= balancedMin
	}
	for i := range c.out.Scores[from:] {
		c.out.Scores[from+i].Approved = approved
	}
	return approved
}

// total is what a pool's nodes cost and would disrupt together.
type total struct{ price, weight float64 }

// totals adds up a pool, once.
func (c *consolidator) totals(pool string) total {
	if t, ok := c.total[pool]; ok {
		return t
	}
	var t total
	for h := range c.snap.Nodes {
		if n := &c.snap.Nodes[h]; n.Pool == pool {
			if p := c.s.Nodes.Price(h); !math.IsNaN(p) {
				t.price += p
			}
			t.weight++
			for i := range n.Reschedulable {
				t.weight += evictionWeight(&n.Reschedulable[i], c.snap.At)
			}
		}
	}
	c.total[pool] = t
	return t
}
