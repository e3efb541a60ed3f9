package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Launch returns the launch for a node of the session, and how many offerings it leaves open, a
// type in a zone being one. Each of them costs at most priceMax, in dollars an hour. If typesMin
// is above 0, the launch names that many instance types, the cheapest ones, and more only if
// minValues needs them. ok is false if there are fewer, or if the pods do not fit after all.
func (s *Session) Launch(h int, priceMax float64, typesMin int) (l plan.Launch, offerings int, ok bool) {
	host := &s.Nodes.hosts[h]
	bin := &s.Inventory.offerings[host.bin]
	s.Nodes.release(h, 1)
	b := bin.pool.NewNode(bin.at)
	s.Nodes.release(h, -1)
	if b == nil {
		return l, 0, false
	}
	// The limits were counted with the offering's own type, so larger types are left out.
	most := bin.pool.Types[bin.typ].Amounts
	b.Types = slices.DeleteFunc(b.Types, func(t int32) bool { return !bin.pool.WithinLimits(bin.pool.Types[t].Amounts, most) })
	s.Inventory.topo.LocatePlanned(b)
	if !s.carry(b, host.added, bin.index) {
		return l, 0, false
	}
	keyed := slices.ContainsFunc(host.added, func(sh Share) bool { return len(s.Inventory.classes[sh.Class].Keys) > 0 })
	if !slices.Contains(b.Types, bin.typ) {
		return l, 0, false
	}
	offerings = s.narrow(b, bin, priceMax, keyed)
	b.TypesMin = typesMin
	l, refusal := s.Inventory.model.Describe(b, &model.Described{})
	return l, offerings, refusal.IsYes() && len(l.Types) >= typesMin
}

// carry puts pods on a planned node that must keep the offering. It returns false if it cannot.
func (s *Session) carry(b *model.PlannedNode, pods []Share, offering int) bool {
	for _, sh := range pods {
		c := &s.Inventory.classes[sh.Class]
		terms := c.Last().Admitted[b.PoolIndex].Terms
		k := slices.IndexFunc(terms, func(t model.AdmittedTerm) bool { return t.Offerings.Has(offering) })
		if k < 0 {
			return false
		}
		t := &terms[k]
		if _, conflict := b.Open.Conflict(t.Open); conflict {
			return false
		}
		b.Scratch.Intersection(b.Offerings, t.Offerings)
		if b.IsEmpty && len(b.Minimum) > 0 && b.WithMinValues(c, t, 1) == 0 {
			return false
		}
		b.Offerings, b.Scratch, b.IsEmpty = b.Scratch, b.Offerings, false
		b.Used.AddN(c.Need, int64(sh.N))
		b.Ports = append(b.Ports, c.Constraints.Ports...)
		b.Require(t)
	}
	b.Types = slices.DeleteFunc(b.Types, func(ty int32) bool {
		tm := &b.Pool.Types[ty]
		return !model.RoomFor(tm.Free, b.Used) || !b.Offerings.AnyIn(tm.First, tm.End) || len(b.Ports) > 0 && !model.PortsFree(s.Inventory.model.Meter, b.Ports, tm.Ports)
	})
	b.RoomUnknown = true
	return b.MeetsMinValues(b.Types)
}

// narrow limits a planned node to offerings of the chosen capacity type that cost at most priceMax,
// and to zones in which each type that is left can be launched for that. It returns how many
// offerings are left. keyed: rules between pods concern the node's pods.
func (s *Session) narrow(b *model.PlannedNode, bin *offering, priceMax float64, keyed bool) int {
	m := b.Pool.Market()
	chosen := b.Pool.Offerings[bin.index]
	pins := label.Requirements{label.CapacityType: label.In(chosen.CapacityType)}
	b.Keep(m.Sold[chosen.CapacityType])
	m.Split(b, priceMax)
	zones := zonesWithin(b, m, bin, keyed)
	if chosen.CapacityType == label.Spot && openIn(b, zones, priceMax) < s.Inventory.spotOfferingsMin {
		zones = mostOpen(b, zones, priceMax)
	}
	if len(zones) > 0 {
		pins[label.Zone] = label.In(zones...)
		clear(m.Narrowed)
		for _, z := range zones {
			m.Narrowed.Or(m.In[slices.Index(m.Zones, z)])
		}
		b.Keep(m.Narrowed)
	}
	if keyed {
		s.pinDomains(b, bin, pins)
	}
	b.Requirements = append(b.Requirements, pins)
	m.Dear.And(b.Offerings)
	dropDear(b, m, bin.typ)
	left := 0
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if b.Offerings.Has(a) && !math.IsInf(m.Prices[a], 1) {
				left++
			}
		}
	}
	return left
}

// dropDear drops the types with an offering above the price among those that are left, but not the
// type at the given index.
func dropDear(b *model.PlannedNode, m *model.Market, but int32) {
	types, kept := b.Pool.Types, b.Types[:0]
	for i, end := 0, 0; i < len(b.Types); i = end {
		dear := false
		for end = i; end < len(b.Types) && types[b.Types[end]].Type == types[b.Types[i]].Type; end++ {
			dear = dear || m.Dear.AnyIn(types[b.Types[end]].First, types[b.Types[end]].End)
		}
		for _, t := range b.Types[i:end] {
			if !dear || t == but {
				kept = append(kept, t)
			}
		}
	}
	b.Types = kept
}

// zonesWithin returns the zones in which a type can be launched within the price, and the type of
// the offering costs no more than that. keyed: only the zone of the offering.
func zonesWithin(b *model.PlannedNode, m *model.Market, bin *offering, keyed bool) []string {
	if chosen := b.Pool.Offerings[bin.index]; keyed && chosen.Zone != "" {
		return []string{chosen.Zone}
	}
	own := &b.Pool.Types[bin.typ]
	var zones []string
	for i, z := range m.Zones {
		dear := false
		for a := own.First; a < own.End; a++ {
			dear = dear || m.Dear.Has(a) && m.In[i].Has(a)
		}
		if !dear && m.Cheap.Meets(m.In[i]) {
			zones = append(zones, z)
		}
	}
	return zones
}

// mostOpen leaves out one zone after another, as long as that leaves more spot offerings open: a
// type that is too dear in one of the zones cannot be named at all.
func mostOpen(b *model.PlannedNode, zones []string, priceMax float64) []string {
	for most := openIn(b, zones, priceMax); ; {
		var best []string
		for i := range zones {
			without := slices.Delete(slices.Clone(zones), i, i+1)
			if n := openIn(b, without, priceMax); n > most {
				most, best = n, without
			}
		}
		if best == nil {
			return zones
		}
		zones = best
	}
}

// openIn returns how many spot offerings the zones have, of types that are within the price in all
// of the zones.
func openIn(b *model.PlannedNode, zones []string, priceMax float64) (open int) {
	for _, t := range b.Types {
		n := 0
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			o := b.Pool.Offerings[a]
			if !b.Offerings.Has(a) || o.CapacityType != label.Spot || o.Reservation != "" || !slices.Contains(zones, o.Zone) {
				continue
			}
			if o.Price() > priceMax {
				n = 0
				break
			}
			n++
		}
		open += n
	}
	return open
}

// pinDomains limits the planned node to the domains for which its pods' rules were checked.
func (s *Session) pinDomains(b *model.PlannedNode, bin *offering, pins label.Requirements) {
	for _, key := range s.Inventory.ledger.Keys() {
		if key == label.Hostname || key == label.Zone || key == label.CapacityType {
			continue
		}
		v, ok := bin.labelled(key)
		k, indexed := b.Pool.Label(key)
		if !ok || !indexed {
			continue
		}
		pins[key] = label.In(v)
		if i, has := k.At[v]; has {
			b.Keep(k.Offerings[i])
		}
	}
}
