package model

import (
	"cmp"
	"maps"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// isLaunchable reports whether an offering can be launched beside the in-flight NodeClaims.
func (m *Model) isLaunchable(o *catalog.Offering) bool {
	if !o.Launchable() {
		return false
	}
	_, ok := m.Supplies.Short(o)
	return ok
}

// Supplies is what planned nodes leave of the supplies.
type Supplies struct {
	pools []*Pool
	left  catalog.Supplies
	// most is the most that a node of any offering takes of each supply.
	most map[string]int
	// covered is, by pool, the offerings that are Launchable and for which enough is left; short is those
	// that only planned nodes and in-flight NodeClaims leave too little. Nil: they are to be worked out.
	covered, short []Bitset
}

// SuppliesLeft returns what there is before anything is planned; nil: no offering draws on a supply.
func (m *Model) SuppliesLeft() *Supplies {
	if m.Supplies == nil {
		return nil
	}
	s := &Supplies{pools: m.Pools, left: maps.Clone(m.Supplies), most: map[string]int{}}
	for _, p := range m.Pools {
		for _, o := range p.Offerings {
			for _, d := range o.Draws {
				s.most[d.Supply] = max(s.most[d.Supply], d.Units)
			}
		}
	}
	return s
}

// Covered returns, by pool, the offerings that are Launchable and for which enough is left.
func (s *Supplies) Covered() []Bitset {
	if s.covered != nil {
		return s.covered
	}
	s.short = nil
	for _, p := range s.pools {
		covered, short := NewBitset(len(p.Offerings)), NewBitset(len(p.Offerings))
		for a, o := range p.Offerings {
			_, ok := s.left.Short(o)
			switch {
			case ok && p.Launchable.Has(a):
				covered.Set(a)
			case !ok && o.Launchable():
				short.Set(a)
			}
		}
		s.covered, s.short = append(s.covered, covered), append(s.short, short)
	}
	return s.covered
}

// Take drops the offerings of a planned node for which too little is left, and takes what the first
// choice of the others draws. If there are no others, it returns a refusal.
func (s *Supplies) Take(b *PlannedNode) verdict.Verdict {
	b.Pool.meter.Spend(1 + (len(b.Types)+len(b.Offerings))/typesUnit)
	cheapest := b.best(b.Cheapest())
	b.Keep(s.Covered()[b.PoolIndex])
	if len(b.Types) == 0 {
		d, _ := s.left.Short(cheapest)
		return UsedUp(d).About("pool " + b.Pool.NodePool.Name)
	}
	best := b.firstChoice()
	if b.namesAny(s.short[b.PoolIndex]) {
		b.pin(best)
	}
	for _, d := range best.Draws {
		if s.left[d.Supply] -= d.Units; s.left[d.Supply] < s.most[d.Supply] {
			s.covered = nil
		}
	}
	return verdict.Verdict{}
}

// firstChoice returns the offering that is launched if nothing has changed by then: the first of
// catalog.Choices.
func (b *PlannedNode) firstChoice() (first *catalog.Offering) {
	of := ""
	for _, t := range b.Types {
		tm := &b.Pool.Types[t]
		for a := tm.First; a < tm.End; a++ {
			o := b.Pool.Offerings[a]
			if b.Offerings.Has(a) && (first == nil || cmp.Or(cmp.Compare(o.Cost(), first.Cost()), cmp.Compare(tm.Name, of),
				cmp.Compare(o.Zone, first.Zone), cmp.Compare(o.CapacityType, first.CapacityType)) < 0) {
				first, of = o, tm.Name
			}
		}
	}
	return first
}

// namesAny reports whether one of the offerings is of a type that is left. The NodeClaim names the type, and
// cannot say at which of its offerings it must not be launched. Parts of a type follow each other.
func (b *PlannedNode) namesAny(offerings Bitset) bool {
	types := b.Pool.Types
	for _, t := range b.Types {
		first, last := int(t), int(t)
		for first > 0 && types[first-1].Type == types[t].Type {
			first--
		}
		for last < len(types)-1 && types[last+1].Type == types[t].Type {
			last++
		}
		if offerings.AnyIn(types[first].First, types[last].End) {
			return true
		}
	}
	return false
}

// UsedUp is the refusal where a supply has too little left.
func UsedUp(d catalog.Draw) verdict.Verdict {
	return verdict.Of(verdict.SupplyUsedUp, "", "%s", d)
}
