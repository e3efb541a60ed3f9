package repack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// addOfferings lists the offerings that can be launched, the cheapest first, without those that are
// never better than another.
func (s *Inventory) addOfferings() {
	byZone := slices.Contains(s.keyed, true)
	var all []offering
	for at, p := range s.model.Pools {
		if p.NodePool.NotForPods() == "" {
			all = append(all, s.offeringsOf(p, at)...)
		}
	}
	all = byPrice(all)
	priced := byPrice(spotPriced(all, s.spotOfferingsMin))
	s.offerings, s.spotOfferings = best(priced, byZone), best(all, false)
	for i := range s.offerings {
		s.locateOffering(&s.offerings[i])
	}
}

// byPrice returns the offerings, the cheapest first, and those of equal price in their order.
func byPrice(bins []offering) []offering {
	order := make([]*offering, len(bins))
	for i := range bins {
		order[i] = &bins[i]
	}
	slices.SortStableFunc(order, func(a, b *offering) int { return cmp.Compare(a.price, b.price) })
	sorted := make([]offering, len(bins))
	for i, b := range order {
		sorted[i] = *b
	}
	return sorted
}

// best leaves out offerings that are never better than one before them.
func best(bins []offering, byZone bool) (out []offering) {
	for i := range bins {
		if b := &bins[i]; !anyCovers(out, b, byZone) {
			out = append(out, *b)
		}
	}
	return out
}

// anyCovers reports whether b, which is not cheaper, is never better than one of the others.
func anyCovers(bins []offering, b *offering, byZone bool) bool {
	for i := range bins {
		if bins[i].covers(b, byZone) {
			return true
		}
	}
	return false
}

// spotPriced gives each spot offering the price at which there are so many spot offerings that hold
// as much, and leaves it out if there are not so many.
func spotPriced(bins []offering, alternatives int) []offering {
	isSpot := func(b *offering) bool { return b.pool.Offerings[b.index].CapacityType == label.Spot }
	var out []offering
	for i := range bins {
		b := bins[i]
		if !isSpot(&b) {
			out = append(out, b)
			continue
		}
		found, price := 0, 0.0
		for j := range bins {
			if o := &bins[j]; o.pool == b.pool && isSpot(o) && b.free.Fits(o.free) && b.allowed.Within(o.allowed) {
				if found, price = found+1, max(b.price, o.price); found >= alternatives {
					break
				}
			}
		}
		if b.price = price; found >= alternatives {
			out = append(out, b)
		}
	}
	return out
}

// covers reports whether o is never worse than b, which is not cheaper.
func (b *offering) covers(o *offering, byZone bool) bool {
	return o.free.Fits(b.free) && o.allowed.Within(b.allowed) && (b.pool == o.pool || len(b.pool.NodePool.Limits) == 0) &&
		(len(o.pool.NodePool.Limits) == 0 || o.pool.Types[o.typ].Amounts.Fits(b.pool.Types[b.typ].Amounts) == b.pool.Types[b.typ].Amounts.Fits(o.pool.Types[o.typ].Amounts)) &&
		(!byZone || b.pool.Offerings[b.index].Zone == o.pool.Offerings[o.index].Zone)
}

// offeringsOf returns the offerings of a pool that can be launched.
func (s *Inventory) offeringsOf(p *model.Pool, at int) []offering {
	var bins []offering
	first := make([]int, len(p.Offerings))
	for t := range p.Types {
		tm := &p.Types[t]
		for a := tm.First; a < tm.End; a++ {
			if first[a] = -1; p.Launchable.Has(a) && p.Offerings[a].HasPrice() && p.Offerings[a].Reservation == "" {
				first[a] = len(bins)
				bins = append(bins, offering{
					pool: p, at: at, typ: int32(t), index: a, free: tm.Free, price: p.Offerings[a].PriceHourly, allowed: model.NewBitset(len(s.classes)),
				})
			}
		}
	}
	for c := range s.classes {
		in := &s.classes[c].Last().Admitted[at]
		if !in.Refusal.IsYes() || s.classes[c].Constraints.Invalid != "" {
			continue
		}
		for i := range in.Terms {
			for a := range p.Offerings {
				if first[a] >= 0 && in.Terms[i].Offerings.Has(a) {
					bins[first[a]].allowed.Set(c)
				}
			}
		}
	}
	return bins
}

// locateOffering works out the domains of a node of an offering.
func (s *Inventory) locateOffering(b *offering) {
	keys := s.ledger.Keys()
	if len(keys) == 0 {
		return
	}
	b.place = topology.Place{Domain: make([]int32, len(keys)), Counts: make([]bool, s.ledger.Groups())}
	for k, key := range keys {
		b.place.Domain[k] = topology.None
		if key == label.Hostname {
			if s.newHost == 0 {
				s.newHost = s.ledger.NewDomain(k)
			}
			b.place.Domain[k] = s.newHost
			continue
		}
		if v, ok := b.labelled(key); ok {
			b.place.Domain[k] = s.ledger.Domain(k, v)
		}
	}
	for i := range s.topo.SpreadOwners[b.at] {
		o := &s.topo.SpreadOwners[b.at][i]
		some := slices.ContainsFunc(o.Admitted.Terms, func(t model.AdmittedTerm) bool { return t.Offerings.Has(b.index) })
		for _, g := range o.Groups {
			b.place.Counts[g] = some
		}
	}
}

// labelled returns the value of a label that a node of the offering has; false if it has none, or
// if the value is open.
func (b *offering) labelled(key string) (string, bool) {
	o := b.pool.Offerings[b.index]
	if q, ok := o.Requirements()[key]; ok {
		return q.Only()
	}
	if q, ok := b.pool.NodePool.Requirements[key]; ok {
		if v, only := q.Only(); only {
			return v, true
		}
	}
	return b.pool.Types[b.typ].Requirements[key].Only()
}

// alike reports whether nodes of two offerings are alike to all rules between pods.
func (b *offering) alike(o *offering) bool {
	return slices.Equal(b.place.Domain, o.place.Domain) && slices.Equal(b.place.Counts, o.place.Counts)
}
