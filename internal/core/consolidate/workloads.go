package consolidate

import (
	"github.com/dovetail-sh/dovetail/internal/core/pack/disperse"
)

// countWorkloads counts the pods of each workload on all nodes, by class. It is nil if workloads need not
// be spread.
func (c *consolidator) countWorkloads() (size []int32) {
	if c.opts.Pack.ResiliencePremium == 0 {
		return nil
	}
	size = make([]int32, c.s.Inventory.Classes())
	for i := range c.snap.Nodes {
		for r := range c.snap.Nodes[i].Reschedulable {
			if sh := c.snap.Nodes[i].Reschedulable[r].Constraints; disperse.IsWorkload(sh) {
				size[c.s.Inventory.Class(sh)]++
			}
		}
	}
	return size
}

// gatherCost returns what a command must save in addition because it gathers pods that placement has
// spread: the premium of the price of the nodes that it removes. It is 0 unless a node gets more pods of a
// workload than it should, and more than each of the removed nodes has.
func (c *consolidator) gatherCost(mark int, remove []int32) float64 {
	if c.size == nil {
		return 0
	}
	for _, m := range c.s.Nodes.Moved(mark, c.s.Nodes.Hosts()) {
		if c.size[m.Class] < 2 {
			continue
		}
		most := disperse.Limit(c.size[m.Class])
		for _, h := range remove {
			most = max(most, c.podsOn(int(h), m.Class))
		}
		if c.podsOn(int(m.Host), m.Class) <= most {
			continue
		}
		price := 0.0
		for _, h := range remove {
			price += c.s.Nodes.Price(int(h)) * disperse.Weight(c.s.Nodes.IsSpot(int(h)))
		}
		return c.opts.Pack.ResiliencePremium * price
	}
	return 0
}

// podsOn returns how many pods of a class a node has.
func (c *consolidator) podsOn(h int, class int32) (n int32) {
	for _, sh := range c.s.Nodes.Own(h) {
		if sh.Class == class {
			n += sh.N
		}
	}
	for _, sh := range c.s.Nodes.Added(h) {
		if sh.Class == class {
			n += sh.N
		}
	}
	return n
}
