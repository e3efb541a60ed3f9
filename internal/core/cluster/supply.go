package cluster

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Supplies is what is left of the supplies that the offerings of NodePools draw on.
type Supplies struct {
	// Left is nil if no offering draws on any.
	Left catalog.Supplies
	last claimed
}

// claimed is what a NodeClaim asks for, and what it may become, the cheapest first.
type claimed struct {
	pool    *Pool
	want    label.Requirements
	types   []string
	choices []catalog.Choice
}

// SuppliesLeft returns what is left of the supplies beside the in-flight NodeClaims that the cloud
// has not been asked for.
func SuppliesLeft(snap *Snapshot) Supplies {
	var s Supplies
	for i := range snap.Pools {
		for _, t := range snap.Pools[i].Types {
			for k := range t.Offerings {
				s.Left.Add(&t.Offerings[k])
			}
		}
	}
	if s.Left == nil {
		return s
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.InFlight == nil || n.InFlight.Accepted || n.Deleting {
			continue
		}
		if p, ok := snap.PoolByName(n.Pool); ok {
			s.Take(p, n.InFlight.Requirements, n.InFlight.Types)
		}
	}
	return s
}

// Take takes what a NodeClaim of the pool would: that of the cheapest offering that is covered. It
// takes nothing and reports false if none is.
func (s *Supplies) Take(p *Pool, want label.Requirements, types []string) bool {
	o, ok := s.first(p, want, types)
	if ok {
		s.Left.Take(o)
	}
	return ok
}

// first returns the cheapest offering that is covered.
func (s *Supplies) first(p *Pool, want label.Requirements, types []string) (o *catalog.Offering, ok bool) {
	if s.last.pool != p || !slices.Equal(s.last.types, types) || !s.last.want.Equal(want) { // most are like the one before
		s.last = claimed{p, want, types, catalog.Choices(p.Types, want, nil)}
	}
	for _, c := range s.last.choices {
		if _, ok := s.Left.Short(c.Offering); ok && slices.Contains(types, c.Type.Name) {
			return c.Offering, true
		}
	}
	return nil, false
}

// HoldSupplies takes from the supplies what a NodeClaim of the pool would, for what the snapshot's Nodes
// do not show. The snapshot's pools must be its own.
func HoldSupplies(snap *Snapshot, p *Pool, want label.Requirements, types []string) {
	s := SuppliesLeft(snap)
	if s.Left == nil {
		return
	}
	if o, ok := s.first(p, want, types); ok {
		Draw(snap, o)
	}
}

// Draw takes from the supplies of a snapshot what a node of an offering takes. The snapshot's pools must
// be its own.
func Draw(snap *Snapshot, of *catalog.Offering) {
	if len(of.Draws) == 0 {
		return
	}
	shares := func(o *catalog.Offering) bool {
		return slices.ContainsFunc(o.Draws, func(d catalog.Draw) bool { return of.Units(d.Supply) > 0 })
	}
	for i := range snap.Pools {
		pool := &snap.Pools[i]
		pool.Types = slices.Clone(pool.Types)
		for k, t := range pool.Types {
			if !slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return shares(&o) }) {
				continue
			}
			less := *t
			less.Offerings = slices.Clone(t.Offerings)
			for n := range less.Offerings {
				o := &less.Offerings[n]
				o.Draws = slices.Clone(o.Draws)
				for d := range o.Draws {
					o.Draws[d].Left -= of.Units(o.Draws[d].Supply)
				}
			}
			pool.Types[k] = &less
		}
	}
}
