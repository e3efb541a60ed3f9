package disperse

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

const (
	// choicePasses is how often all nodes are looked at, each time at a higher price for one pod less in a
	// domain that has too many.
	choicePasses = 8
	// choicesMax is how many instance types, the cheapest ones, a node may choose from in a zone.
	choicesMax = 4
	// failuresMax is with how many nodes a node tries to exchange pods of a class without success.
	failuresMax = 50
	// visitsSearch is how many nodes that are only asked for their domains count as one that is searched.
	visitsSearch = 16
	// countsMax bounds the memory for what domains have, in counts.
	countsMax = 4 << 20
)

// choosing chooses the domains of planned nodes.
type choosing struct {
	*domains
	board   *Board
	choices [][]choice // by node
	over    int32      // how many pods are in domains that have too many
	differ  bool       // not all nodes and choices are in the same domains
	// last is the last node whose choices were worked out, and lastIndex its index.
	last      *node
	lastIndex int
}

// choice is an offering that a node may have as its cheapest one.
type choice struct {
	offering int
	price    float64
	at       where
}

// ChooseOfferings chooses the zones of planned nodes, and of spot nodes the instance types, so that no zone and no spot
// offering has more pods of a workload than it should, as far as the nodes do not cost more than budget in addition.
func (x *Board) ChooseOfferings(budget float64) {
	z := x.newChoosing()
	if z.over == 0 || !z.differ {
		return
	}
	z.chooseOnce(0, 0)
	z.exchange()
	z = x.newChoosing()
	for pass := 1; pass < choicePasses && z.over > 0; pass++ {
		budget -= z.chooseOnce(budget/float64(z.over)*math.Exp2(float64(pass-choicePasses/2)), budget)
	}
	for ; z.percent <= domainPercentMax && z.excessOfAll() > 0; z.percent += domainPercentStep {
		if z.exchange() {
			z.exchange() // pods that went leave room for others
		}
	}
	for i := range x.nodes {
		if !z.fixed[i] && z.spreads(i) {
			x.pin(i)
		}
	}
}

// chooseOnce has each node choose once. A pod less in a domain that has too many may cost so many dollars, and all together the
// budget. It returns what they cost.
func (z *choosing) chooseOnce(most, budget float64) (cost float64) {
	for i := range z.board.nodes {
		cost += z.better(i, most, budget-cost)
	}
	return cost
}

// better gives a node the offering with which the fewest pods are too many, if that costs no more than most
// for each and budget in all. It returns what it costs.
func (z *choosing) better(i int, most, budget float64) float64 {
	if z.fixed[i] || len(z.choices[i]) == 0 {
		return 0
	}
	n, from := &z.board.nodes[i], z.at[i]
	now := n.plan.Pool.Offerings[n.offering].Cost()
	best, gain := -1, int32(0)
	z.board.state.Model.Meter.Spend(1 + len(n.held)*len(z.choices[i])/8)
	for k := range z.choices[i] {
		c := &z.choices[i][k]
		extra := c.price - now
		if c.at == from || extra > budget+priceSlack {
			continue
		}
		less := int32(0)
		for _, h := range n.held {
			less += z.relief(h.class, from, c.at, h.n)
		}
		if less > gain && extra <= most*float64(less)+priceSlack {
			best, gain = k, less
		}
	}
	if best < 0 {
		return 0
	}
	c := &z.choices[i][best]
	for _, h := range n.held {
		if z.row[h.class] != none {
			z.add(h.class, from, -h.n)
			z.add(h.class, c.at, h.n)
		}
	}
	z.over -= gain
	z.at[i], n.offering, n.typ = c.at, c.offering, n.plan.Pool.TypeOf[c.offering]
	return c.price - now
}

// priceSlack is the difference of prices, in dollars an hour, that counts as rounding.
const priceSlack = 1e-9

// exchange moves pods of workloads from domains that have too many to others, and other pods back, as far as
// that costs nothing. It reports whether it moved any.
func (z *choosing) exchange() (moved bool) {
	x := z.board
	x.domains = z.domains
	for c := range x.size {
		if x.size[c] < 2 || !x.movable[c] {
			continue
		}
		x.class = int32(c)
		for i := range x.nodes {
			x.here[i] = x.nodes[i].count(int32(c))
		}
		for i := range x.nodes {
			moved = z.leave(int32(c), i) || moved
		}
	}
	x.domains = nil
	x.finish()
	return moved
}

// leave moves pods of the class at hand from a node to others in other domains. It reports whether it moved any.
func (z *choosing) leave(c int32, i int) (moved bool) {
	x, limit, failures := z.board, Limit(z.size[c]), 0
	leaves, d := x.searches > 0 && z.leaves(c, i), 1
	for ; d < len(x.nodes) && failures < failuresMax && leaves; d++ {
		j := (i + d) % len(x.nodes)
		for leaves && z.at[j] != z.at[i] && x.here[j] < limit && x.searches > 0 && z.relief(c, z.at[i], z.at[j], 1) > 0 && z.room(c, j, i) > 0 {
			if !x.pass(c, i, j, min(x.here[i]-limit, limit-x.here[j])) {
				failures++
				break
			}
			moved, leaves = true, z.leaves(c, i)
		}
	}
	x.searches -= d / visitsSearch
	return moved
}

// leaves reports whether a pod of the class should leave the node for another domain.
func (z *choosing) leaves(c int32, i int) bool {
	return !z.fixed[i] && z.board.here[i] > 0 && (z.excess(c, z.at[i].zone, 0) > 0 || z.excess(c, z.at[i].spot, 0) > 0)
}

func (x *Board) newChoosing() *choosing {
	z := &choosing{domains: &domains{size: x.size, percent: domainPercent, row: make([]int32, len(x.size)), at: make([]where, len(x.nodes)), fixed: make([]bool, len(x.nodes))}, board: x, choices: make([][]choice, len(x.nodes))}
	m := newNumbering(x.state.Model.Pools)
	workloads := 0
	for c := range x.size {
		if z.row[c] = none; x.size[c] > 1 {
			z.row[c] = int32(workloads)
			workloads++
		}
	}
	for i := range x.nodes {
		z.locate(i, m)
		for _, c := range z.choices[i] {
			z.differ = z.differ || c.at != z.at[i]
		}
		z.differ = z.differ || z.at[i] != z.at[0]
	}
	if workloads == 0 || len(m.of) > countsMax/workloads {
		for c := range z.row {
			z.row[c] = none
		}
		return z
	}
	z.n = len(m.of)
	z.counts = make([]int32, workloads*z.n)
	for i := range x.nodes {
		for _, h := range x.nodes[i].held {
			if z.row[h.class] != none {
				z.add(h.class, z.at[i], h.n)
			}
		}
	}
	z.countRunning(m)
	z.over = z.excessOfAll()
	return z
}

// locate notes the domains of a node, and what it may choose.
func (z *choosing) locate(i int, m *numbering) {
	n := &z.board.nodes[i]
	z.at[i], z.fixed[i] = where{none, none}, true
	if n.offering < 0 || n.plan.Pool.Offerings[n.offering].Zone == "" {
		return
	}
	b := n.plan
	z.at[i] = m.place(b.Pool, b.PoolIndex, n.offering)
	z.fixed[i] = n.isFixed || b.Pool.Offerings[n.offering].Reservation != ""
	if z.fixed[i] || !z.spreads(i) {
		return
	}
	if last := z.last; last != nil && last.offering == n.offering && last.plan.Pool == b.Pool && slices.Equal(last.plan.Types, b.Types) && slices.Equal(last.plan.Offerings, b.Offerings) {
		z.choices[i] = z.choices[z.lastIndex]
		return
	}
	z.last, z.lastIndex = n, i
	z.choices[i] = m.choices(n)
}

// choices returns the offerings that a node may have as its cheapest one: in each zone those of the cheapest instance types.
func (m *numbering) choices(n *node) (out []choice) {
	var kept []choice // choicesMax for each zone, the cheapest first
	var counts []int
	b := n.plan
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if !b.Offerings.Has(a) || !n.mayHave(a) {
				continue
			}
			d := m.zone(b.Pool.Offerings[a].Zone)
			for len(counts) <= d {
				counts, kept = append(counts, 0), append(kept, make([]choice, choicesMax)...)
			}
			insert(kept[d*choicesMax:][:choicesMax], &counts[d], choice{offering: a, price: b.Pool.Offerings[a].Cost()})
		}
	}
	for d, n := range counts {
		for _, c := range kept[d*choicesMax:][:n] {
			if _, ok := zoneOf(b, c.offering); ok {
				c.at = m.place(b.Pool, b.PoolIndex, c.offering)
				out = append(out, c)
			}
		}
	}
	return out
}

// mayHave reports whether an offering is the cheapest one that its instance type has left in its zone, and draws the same
// on supplies as the one that the node has: what is left for other nodes was worked out with that.
func (n *node) mayHave(a int) bool {
	b, types := n.plan, n.plan.Pool.Types
	o := b.Pool.Offerings[a]
	if o.Zone == "" || o.Reservation != "" || !slices.Equal(o.Draws, b.Pool.Offerings[n.offering].Draws) {
		return false
	}
	first, last := b.Pool.TypeOf[a], b.Pool.TypeOf[a] // the parts of the type
	for first > 0 && types[first-1].Type == types[first].Type {
		first--
	}
	for int(last) < len(types)-1 && types[last+1].Type == types[last].Type {
		last++
	}
	for k := types[first].First; k < types[last].End; k++ {
		other := b.Pool.Offerings[k]
		if k == a || other.Zone != o.Zone || other.Cost() > o.Cost() || !b.Offerings.Has(k) || !b.AnyTypeOf(k) {
			continue
		}
		if k < a || other.Cost() < o.Cost() || !slices.Equal(other.Draws, o.Draws) {
			return false
		}
	}
	return true
}

// insert puts a choice in its place among at most len(kept), of which there are n.
func insert(kept []choice, n *int, c choice) {
	at := *n
	for at > 0 && kept[at-1].price > c.price {
		at--
	}
	if at == len(kept) {
		return
	}
	*n = min(*n+1, len(kept))
	copy(kept[at+1:*n], kept[at:*n-1])
	kept[at] = c
}

// countRunning counts the pods of workloads on running nodes.
func (z *choosing) countRunning(m *numbering) {
	x := z.board
	of := x.state.ClassOf()
	nodes := x.state.Model.Snapshot.Nodes
	for i := range nodes {
		at := where{none, none}
		name := nodes[i].Labels[label.Zone]
		if d, ok := m.of[domain{zone: name}]; ok {
			at.zone = d
		}
		if d, ok := m.of[domain{name, nodes[i].Labels[label.InstanceType]}]; ok && nodes[i].Labels[label.CapacityType] == label.Spot {
			at.spot = d
		}
		for r := range nodes[i].Reschedulable {
			if c, ok := of[nodes[i].Reschedulable[r].Constraints]; ok && z.row[c] != none {
				z.add(int32(c), at, 1)
			}
		}
	}
}

// spreads reports whether the node has a pod of a workload.
func (z *choosing) spreads(i int) bool {
	for _, h := range z.board.nodes[i].held {
		if h.n > 0 && z.board.size[h.class] > 1 {
			return true
		}
	}
	return false
}

// zoneOf returns the requirement for the zone of an offering, if a node may be limited to that.
func zoneOf(b *model.PlannedNode, offering int) (label.Requirements, bool) {
	k, ok := b.Pool.Label(label.Zone)
	if !ok {
		return nil, false
	}
	v, ok := k.At[b.Pool.Offerings[offering].Zone]
	if !ok {
		return nil, false
	}
	r := k.Requirement(label.Zone, v)
	_, conflict := b.Open.Conflict(r)
	return r, !conflict
}

// pin limits a node to the zone of its offering, and drops the instance types that would be launched before it there.
func (x *Board) pin(i int) {
	n := &x.nodes[i]
	b := n.plan
	r, ok := zoneOf(b, n.offering)
	if !ok { // pods that came since ask for something else
		n.typ, n.offering = cheapest(b)
		return
	}
	b.Requirements = append(b.Requirements, r)
	zone, price := b.Pool.Offerings[n.offering].Zone, b.Pool.Offerings[n.offering].Cost()
	b.KeepOfferings(func(a int) bool { return b.Pool.Offerings[a].Zone == zone })
	own := b.Pool.Types[n.typ].Type
	var dropped []*catalog.Type
	for _, t := range b.Types {
		if other := b.Pool.Types[t].Type; other != own && b.Price(t) <= price && (b.Price(t) < price || t < n.typ) {
			dropped = append(dropped, other)
		}
	}
	if len(dropped) > 0 {
		b.KeepOfferings(func(a int) bool { return !slices.Contains(dropped, b.Pool.Types[b.Pool.TypeOf[a]].Type) })
	}
}
