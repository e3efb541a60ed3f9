package consolidate

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// balanced reports whether the saving is worth the disruption to every pool whose policy is Balanced:
// as a share of what the pool costs, the saving must be at least half of the disruption as a share of
// what disrupting all its nodes would be. The saving is divided among pools by the price of the nodes
// that they lose.
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

// totals returns the total of a pool, which it computes once.
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
