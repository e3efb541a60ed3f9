package disperse

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// zonePasses is how often all nodes are looked at, each time at a higher price for one pod less in a
// zone that has too many.
const zonePasses = 8

// zoning chooses the zones of planned nodes.
type zoning struct {
	*zones
	board  *Board
	prices []float64
	over   int32 // how many pods are in zones that have too many
}

// Zones chooses the zones of planned nodes, so that no zone has more pods of a workload than it should, as
// far as the nodes do not cost more than budget in addition.
func (x *Board) Zones(budget float64) {
	z := x.newZones()
	if len(z.names) < 2 || z.over == 0 {
		return
	}
	for pass := range zonePasses {
		most := 0.0 // dollars for one pod
		if pass > 0 && z.over > 0 {
			most = budget / float64(z.over) * math.Exp2(float64(pass-zonePasses/2))
		}
		for i := range x.nodes {
			budget -= z.better(i, most, budget)
		}
	}
	for i := range x.nodes {
		if z.at[i] >= 0 && z.spreads(i) {
			z.pin(i)
		}
	}
	z.exchange()
}

// exchange moves pods of workloads from zones that have too many to others, and other pods back, as far as
// that costs nothing.
func (z *zoning) exchange() {
	x := z.board
	x.zones = z.zones
	for c := range x.size {
		if x.size[c] < 2 || !x.movable[c] {
			continue
		}
		x.class = int32(c)
		limit := Limit(x.size[c])
		for i := range x.nodes {
			x.here[i] = x.nodes[i].count(int32(c))
		}
		for i := range x.nodes {
			for d := 1; d < len(x.nodes) && z.leaves(int32(c), i); d++ {
				j := (i + d) % len(x.nodes)
				for z.leaves(int32(c), i) && x.here[j] < limit && x.searches > 0 && z.room(int32(c), j, i) > 0 && z.at[i] != z.at[j] && x.pass(int32(c), i, j, min(x.here[i]-limit, limit-x.here[j])) {
				}
			}
		}
	}
	x.zones = nil
	x.finish()
}

// leaves reports whether a pod of the class should leave the node for another zone.
func (z *zoning) leaves(c int32, i int) bool {
	return !z.board.nodes[i].isFixed && z.at[i] >= 0 && z.board.here[i] > 0 && z.excess(c, z.at[i], 0) > 0
}

func (x *Board) newZones() *zoning {
	z := &zoning{zones: &zones{size: x.size, at: make([]int, len(x.nodes))}, board: x}
	for i := range x.nodes {
		if n := &x.nodes[i]; n.offering >= 0 {
			if k, ok := n.plan.Pool.Label(label.Zone); ok {
				for _, v := range k.Values {
					z.number(v)
				}
			}
		}
	}
	z.counts, z.prices = make([]int32, len(x.size)*len(z.names)), make([]float64, len(x.nodes)*len(z.names))
	for i := range x.nodes {
		z.at[i] = -1
		z.measure(i)
	}
	z.countRunning()
	for c := range x.size {
		for d := range z.names {
			z.over += z.excess(int32(c), d, 0)
		}
	}
	return z
}

// measure notes the zone of a node and what the node costs in each.
func (z *zoning) measure(i int) {
	n := &z.board.nodes[i]
	prices := z.prices[i*len(z.names):][:len(z.names)]
	for d := range prices {
		prices[d] = math.Inf(1)
	}
	if n.offering < 0 || n.plan.Pool.Offerings[n.offering].Zone == "" {
		return
	}
	b := n.plan
	at := z.number(b.Pool.Offerings[n.offering].Zone)
	for _, h := range n.held {
		z.counts[int(h.class)*len(z.names)+at] += h.n
	}
	if n.isFixed || b.Pool.Offerings[n.offering].Reservation != "" {
		return
	}
	z.at[i] = at
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if o := b.Pool.Offerings[a]; b.Offerings.Has(a) && o.Zone != "" {
				d := z.number(o.Zone)
				prices[d] = min(prices[d], o.Cost())
			}
		}
	}
	if z.board.state.Model.Supplies != nil {
		z.keepDraws(n, prices)
	}
}

// keepDraws leaves a node the zones where it would draw the same on supplies: what is left for other nodes was worked out
// with that.
func (z *zoning) keepDraws(n *node, prices []float64) {
	b := n.plan
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if o := b.Pool.Offerings[a]; b.Offerings.Has(a) && o.Zone != "" && !slices.Equal(o.Draws, b.Pool.Offerings[n.offering].Draws) {
				if d := z.number(o.Zone); o.Cost() <= prices[d] {
					prices[d] = math.Inf(1)
				}
			}
		}
	}
}

// countRunning counts the pods of workloads on running nodes.
func (z *zoning) countRunning() {
	x := z.board
	of := x.state.ClassOf()
	nodes := x.state.Model.Snapshot.Nodes
	for i := range nodes {
		at := -1
		for d, name := range z.names {
			if nodes[i].Labels[label.Zone] == name {
				at = d
			}
		}
		for r := range nodes[i].Reschedulable {
			if c, ok := of[nodes[i].Reschedulable[r].Constraints]; ok && at >= 0 {
				z.counts[c*len(z.names)+at]++
			}
		}
	}
}

// better moves a node to the zone where it leaves the fewest pods too many, if that costs no more than most
// for each and budget in all. It returns what it costs.
func (z *zoning) better(i int, most, budget float64) (cost float64) {
	if z.at[i] < 0 {
		return 0
	}
	n, from := &z.board.nodes[i], z.at[i]
	prices := z.prices[i*len(z.names):][:len(z.names)]
	best, gain := from, int32(0)
	z.board.state.Model.Meter.Spend(1 + len(n.held)*len(z.names)/8)
	for d, price := range prices {
		if d == from || math.IsInf(price, 1) {
			continue
		}
		less := int32(0)
		for _, h := range n.held {
			less += z.excess(h.class, from, 0) - z.excess(h.class, from, -h.n) + z.excess(h.class, d, 0) - z.excess(h.class, d, h.n)
		}
		extra := price - prices[from]
		if less > gain && extra <= budget+priceSlack && extra <= most*float64(less)+priceSlack {
			best, gain, cost = d, less, extra
		}
	}
	if best == from {
		return 0
	}
	for _, h := range n.held {
		z.counts[int(h.class)*len(z.names)+from] -= h.n
		z.counts[int(h.class)*len(z.names)+best] += h.n
	}
	z.over -= gain
	z.at[i] = best
	return cost
}

// priceSlack is the difference of prices, in dollars an hour, that counts as rounding.
const priceSlack = 1e-9

// spreads reports whether the node has a pod of a workload.
func (z *zoning) spreads(i int) bool {
	for _, h := range z.board.nodes[i].held {
		if h.n > 0 && z.board.size[h.class] > 1 {
			return true
		}
	}
	return false
}

// pin narrows a node to its zone.
func (z *zoning) pin(i int) {
	n := &z.board.nodes[i]
	b := n.plan
	k, ok := b.Pool.Label(label.Zone)
	if !ok {
		return
	}
	v, ok := k.At[z.names[z.at[i]]]
	if !ok {
		return
	}
	if _, conflict := b.Open.Conflict(k.Requirement(label.Zone, v)); conflict {
		return
	}
	b.Requirements = append(b.Requirements, k.Requirement(label.Zone, v))
	b.Keep(k.Offerings[v])
	n.typ, n.offering = cheapest(b)
}
