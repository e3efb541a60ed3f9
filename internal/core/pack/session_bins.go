package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// freshBin is one offering that can be bought: a type in a zone at a capacity type.
type freshBin struct {
	pool    *poolModel
	at      int // the pool's index in the model
	typ     int32
	atom    int
	free    quantity.Vector
	price   float64
	allowed bitset // classes
	place   topology.Place
}

func (b *freshBin) isSpot() bool { return b.pool.atoms[b.atom].CapacityType == label.Spot }

// addBins lists what can be bought, cheapest first, without offerings that are never
// better than another.
func (s *Session) addBins() {
	f := &s.fills
	f.none, f.free = make(quantity.Vector, len(s.model.space)), make(quantity.Vector, len(s.model.space))
	blocks := (len(s.model.space) + 3) / 4
	f.inverse, f.have = make([][4]float64, blocks), make([][4]float64, blocks)
	f.blocks = make([][4]float64, blocks*len(s.classes))
	for c := range s.classes {
		f.needs = append(f.needs, s.classes[c].need...)
		for r, n := range s.classes[c].need {
			f.blocks[c*blocks+r/4][r%4] = float64(n)
		}
	}
	f.left, f.keyed = make([]int32, len(s.classes)), make([]bool, len(s.classes))
	f.index = map[*cluster.Shape]int{}
	for i, sh := range s.ledger.Shapes() {
		f.index[sh] = i
	}
	byZone := false
	for c := range s.classes {
		f.keyed[c] = len(s.classes[c].keys) > 0
		byZone = byZone || f.keyed[c]
	}
	var all []freshBin
	for at, p := range s.model.pools {
		if p.pool.Unready == "" {
			all = append(all, s.binsOf(p, at)...)
		}
	}
	all = byPrice(all)
	priced := byPrice(spotPriced(all, s.spotPools))
	s.bins, s.offers = best(priced, byZone), best(all, false)
	for i := range s.bins {
		s.locateBin(&s.bins[i])
	}
	f.ratio = make([]float64, len(s.bins))
}

// byPrice returns the bins, cheapest first; of equals the earlier.
func byPrice(bins []freshBin) []freshBin {
	order := make([]*freshBin, len(bins))
	for i := range bins {
		order[i] = &bins[i]
	}
	slices.SortStableFunc(order, func(a, b *freshBin) int { return cmp.Compare(a.price, b.price) })
	sorted := make([]freshBin, len(bins))
	for i, b := range order {
		sorted[i] = *b
	}
	return sorted
}

// best leaves out bins that are never better than one before them.
func best(bins []freshBin, byZone bool) (out []freshBin) {
	for i := range bins {
		if b := &bins[i]; !anyCovers(out, b, byZone) {
			out = append(out, *b)
		}
	}
	return out
}

// anyCovers tells whether b, which is not cheaper, is never better than one of the bins.
func anyCovers(bins []freshBin, b *freshBin, byZone bool) bool {
	for i := range bins {
		if bins[i].covers(b, byZone) {
			return true
		}
	}
	return false
}

// spotPriced gives each spot bin the price of the last of so many, cheapest first, that
// hold as much. Those of which there are not so many are left out.
func spotPriced(bins []freshBin, pools int) []freshBin {
	isSpot := func(b *freshBin) bool { return b.pool.atoms[b.atom].CapacityType == label.Spot }
	var out []freshBin
	for i := range bins {
		b := bins[i]
		if !isSpot(&b) {
			out = append(out, b)
			continue
		}
		found, price := 0, 0.0
		for j := range bins {
			if o := &bins[j]; o.pool == b.pool && isSpot(o) && b.free.Fits(o.free) && b.allowed.within(o.allowed) {
				if found, price = found+1, max(b.price, o.price); found >= pools {
					break
				}
			}
		}
		if b.price = price; found >= pools {
			out = append(out, b)
		}
	}
	return out
}

// covers tells whether o is never worse than b, which is not cheaper.
func (b *freshBin) covers(o *freshBin, byZone bool) bool {
	return o.free.Fits(b.free) && o.allowed.within(b.allowed) && (b.pool == o.pool || len(b.pool.pool.Limits) == 0) &&
		(len(o.pool.pool.Limits) == 0 || o.pool.types[o.typ].capacity.Fits(b.pool.types[b.typ].capacity) == b.pool.types[b.typ].capacity.Fits(o.pool.types[o.typ].capacity)) &&
		(!byZone || b.pool.atoms[b.atom].Zone == o.pool.atoms[o.atom].Zone)
}

// binsOf returns the offerings of a pool that can be bought.
func (s *Session) binsOf(p *poolModel, at int) []freshBin {
	var bins []freshBin
	first := make([]int, len(p.atoms))
	for t := range p.types {
		tm := &p.types[t]
		for a := tm.first; a < tm.end; a++ {
			if first[a] = -1; p.buyable.has(a) && p.atoms[a].HasPrice() && p.atoms[a].Reservation == "" {
				first[a] = len(bins)
				bins = append(bins, freshBin{
					pool: p, at: at, typ: int32(t), atom: a, free: tm.free, price: p.atoms[a].PriceHourly, allowed: newBitset(len(s.classes)),
				})
			}
		}
	}
	for c := range s.classes {
		in := &s.classes[c].last().in[at]
		if !in.refusal.IsYes() || s.classes[c].shape.Invalid != "" {
			continue
		}
		for i := range in.terms {
			for a := range p.atoms {
				if first[a] >= 0 && in.terms[i].atoms.has(a) {
					bins[first[a]].allowed.set(c)
				}
			}
		}
	}
	return bins
}

// locateBin finds the domains of a bin.
func (s *Session) locateBin(b *freshBin) {
	keys := s.ledger.Keys()
	if len(keys) == 0 {
		return
	}
	b.place = topology.Place{Domain: make([]int32, len(keys)), Counts: make([]bool, s.ledger.Groups())}
	for k, key := range keys {
		b.place.Domain[k] = topology.None
		if key == label.Hostname {
			if s.fills.hosts == 0 {
				s.fills.hosts = s.ledger.NewDomain(k)
			}
			b.place.Domain[k] = s.fills.hosts
			continue
		}
		if v, ok := b.labelled(key); ok {
			b.place.Domain[k] = s.ledger.Domain(k, v)
		}
	}
	for i := range s.counted[b.at] {
		o := &s.counted[b.at][i]
		some := slices.ContainsFunc(o.in.terms, func(t termIn) bool { return t.atoms.has(b.atom) })
		for _, g := range o.groups {
			b.place.Counts[g] = some
		}
	}
}

// labelled returns the value that the bin's machine has for a key; false where it has
// none, or the choice is open.
func (b *freshBin) labelled(key string) (string, bool) {
	o := b.pool.atoms[b.atom]
	if q, ok := o.Requirements()[key]; ok {
		return q.Only()
	}
	if q, ok := b.pool.pool.Requirements[key]; ok {
		if v, only := q.Only(); only {
			return v, true
		}
	}
	return b.pool.types[b.typ].Requirements[key].Only()
}

// alike tells whether rules between pods see no difference between machines of two bins.
func (b *freshBin) alike(o *freshBin) bool {
	return slices.Equal(b.place.Domain, o.place.Domain) && slices.Equal(b.place.Counts, o.place.Counts)
}
