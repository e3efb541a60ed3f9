package model

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// countLimits works out what existing nodes leave of the limits. An in-flight NodeClaim counts as
// the largest instance type that it may become.
func (p *Pool) countLimits(snap *cluster.Snapshot) {
	used, nodes := make(quantity.Vector, len(p.Space)), int64(0)
	var limited []int
	for r, name := range p.Space {
		if _, ok := p.NodePool.Limits[name]; ok {
			limited = append(limited, r)
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if len(p.NodePool.Limits) == 0 || n.Pool != p.NodePool.Name || n.Deleting {
			continue
		}
		nodes++
		if n.InFlight == nil {
			for _, r := range limited {
				used[r] = quantity.Add(used[r], n.Capacity[p.Space[r]])
			}
			continue
		}
		largest := make(quantity.Vector, len(p.Space))
		for _, t := range p.TypesNamed(n.InFlight.Types) {
			Raise(largest, p.Types[t].Amounts)
		}
		used.AddN(largest, 1)
	}
	if at := slices.Index(p.Space, quantity.Nodes); at >= 0 {
		used[at] = nodes
	}
	p.Left = make(quantity.Vector, len(p.Space))
	for i, name := range p.Space {
		p.Left[i] = math.MaxInt64
		if limit, ok := p.NodePool.Limits[name]; ok {
			p.Left[i] = quantity.Sub(limit, used[i])
		}
	}
	p.NodesLeft = math.MaxInt64
	if limit, ok := p.NodePool.Limits[quantity.Nodes]; ok {
		p.NodesLeft = quantity.Sub(limit, nodes)
	}
}

// LiftLimits ignores the limits if even so many of the largest nodes stay within them.
func (p *Pool) LiftLimits(nodes int) {
	n := int64(nodes)
	if p.ample = p.NodesLeft >= n; !p.ample {
		return
	}
	most := make(quantity.Vector, len(p.Space))
	for t := range p.Types {
		Raise(most, p.Types[t].Amounts)
	}
	for i, left := range p.Left {
		if left < 0 || most[i] > 0 && left/most[i] < n {
			p.ample = false
			return
		}
	}
	p.NodesLeft = math.MaxInt64
	for i := range p.Left {
		p.Left[i] = math.MaxInt64
	}
}

// ReturnLimits gives the amounts of a node back to the pool's limits; a sign of -1 takes them.
func (p *Pool) ReturnLimits(v quantity.Vector, sign int64) {
	if _, limited := p.NodePool.Limits[quantity.Nodes]; limited {
		p.NodesLeft += sign
	}
	for i := range p.Left {
		if _, limited := p.NodePool.Limits[p.Space[i]]; limited {
			p.Left[i] = quantity.Add(p.Left[i], quantity.Mul(sign, v[i]))
		}
	}
}

// TakeLimits takes from the pool's limits what a planned node may need of them.
func (p *Pool) TakeLimits(b *PlannedNode) {
	if !p.IsLimited() {
		return
	}
	p.NodesLeft--
	b.HoldLimits(b.largest())
}

// ShrinkToCheapest narrows the pool's planned nodes to types no larger than the cheapest one that
// holds their pods, and gives back to the limits what the larger types took. It reports whether
// anything was given back.
func (p *Pool) ShrinkToCheapest(launches []*PlannedNode) bool {
	if !p.IsLimited() {
		return false
	}
	gained := false
	for _, b := range launches[min(p.ShrunkTo, len(launches)):] {
		if b.Pool != p {
			continue
		}
		cheapest := &p.Types[b.Cheapest()]
		kept := make([]int32, 0, len(b.Types))
		for _, t := range b.Types {
			if p.WithinLimits(p.Types[t].Amounts, cheapest.Amounts) {
				kept = append(kept, t)
			}
		}
		if len(kept) == len(b.Types) || !b.MeetsMinValues(kept) {
			continue
		}
		before := b.LimitsHeld
		b.Types, b.RoomUnknown = kept, true
		after := b.largest()
		b.HoldLimits(after)
		gained = gained || !before.Fits(after)
	}
	p.ShrunkTo = len(launches)
	return gained
}

// WithinLimits reports whether v is no more than o of each resource that the pool limits.
func (p *Pool) WithinLimits(v, o quantity.Vector) bool {
	for i := range v {
		if p.Left[i] != math.MaxInt64 && v[i] > o[i] {
			return false
		}
	}
	return true
}
