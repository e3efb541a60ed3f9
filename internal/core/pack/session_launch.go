package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Open buys an empty machine and lets Put use it until Close. It is false where a limit
// does not allow it.
func (s *Session) Open(bin int32) (h int, ok bool) {
	if !s.stock(int(bin)) {
		return 0, false
	}
	h = s.place(int(bin), nil)
	s.hosts[h].taken = true
	return h, true
}

// Close ends what Open or Welcome began.
func (s *Session) Close(h int) {
	s.hosts[h].taken = false
	s.slots.drop(h)
}

// Forgo takes back what Open has just bought, and was given nothing.
func (s *Session) Forgo() {
	s.unbuy()
	s.log = s.log[:len(s.log)-1]
}

// Bought returns the machines that were bought since the mark, and are still there.
func (s *Session) Bought(mark int) []int {
	var hosts []int
	for _, e := range s.log[mark:] {
		if e.kind == changeBuy && !s.hosts[e.host].gone {
			hosts = append(hosts, int(e.host))
		}
	}
	return hosts
}

// Stocked returns the machines to be bought that were given pods since the mark.
func (s *Session) Stocked(mark int) []int {
	var hosts []int
	for _, e := range s.log[mark:] {
		if h := int(e.host); e.kind == changeAdd && s.hosts[h].node == nil && (len(hosts) == 0 || hosts[len(hosts)-1] != h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Moved returns the pods that were put since the mark on machines that come before first.
func (s *Session) Moved(mark, first int) []Move {
	var moves []Move
	for _, e := range s.log[mark:] {
		if e.kind == changeAdd && int(e.host) < first {
			moves = append(moves, Move{e.class, e.host, e.n})
		}
	}
	return moves
}

// Move is N pods of a class that a machine is given.
type Move struct {
	Class, Host, N int32
}

// Launch returns what is to be bought for a machine of the session. Every offering that
// it leaves open costs at most priceMax per hour. pools is how many of them there are: a
// type in a zone is one. typesMin above 0 is how many instance types it must name, and it names
// no more than these, cheapest first, and what minValues wants. It is false when there are fewer,
// or the pods do not fit after all.
func (s *Session) Launch(h int, priceMax float64, typesMin int) (l plan.Launch, pools int, ok bool) {
	host := &s.hosts[h]
	bin := &s.bins[host.bin]
	s.release(h, 1)
	b := bin.pool.fresh(bin.at)
	s.release(h, -1)
	if b == nil {
		return l, 0, false
	}
	// No type that counts for more against the limits than what was counted.
	most := bin.pool.types[bin.typ].capacity
	b.types = slices.DeleteFunc(b.types, func(t int32) bool { return !bin.pool.withinLimits(bin.pool.types[t].capacity, most) })
	s.locateLaunch(b)
	if !s.carry(b, host.added, bin.atom) {
		return l, 0, false
	}
	keyed := slices.ContainsFunc(host.added, func(sh Share) bool { return len(s.classes[sh.Class].keys) > 0 })
	if !slices.Contains(b.types, bin.typ) {
		return l, 0, false
	}
	pools = s.narrow(b, bin, priceMax, keyed)
	b.named = typesMin
	l, refusal := s.launch(b, &written{})
	return l, pools, refusal.IsYes() && len(l.Types) >= typesMin
}

// carry puts pods on a launch that must be able to become the atom.
func (s *Session) carry(b *launchBin, pods []Share, atom int) bool {
	for _, sh := range pods {
		c := &s.classes[sh.Class]
		terms := c.last().in[b.at].terms
		k := slices.IndexFunc(terms, func(t termIn) bool { return t.atoms.has(atom) })
		if k < 0 {
			return false
		}
		t := &terms[k]
		if _, conflict := b.open.Conflict(t.open); conflict {
			return false
		}
		b.scratch.intersection(b.atoms, t.atoms)
		if b.fresh && len(b.minimum) > 0 && b.withMinValues(c, 1) == 0 {
			return false
		}
		b.atoms, b.scratch, b.fresh = b.scratch, b.atoms, false
		b.used.AddN(c.need, int64(sh.N))
		b.ports = append(b.ports, c.shape.Ports...)
		b.ask(t)
	}
	b.types = slices.DeleteFunc(b.types, func(ty int32) bool {
		tm := &b.pool.types[ty]
		return !fitsAsked(b.used, tm.free) || !b.atoms.anyIn(tm.first, tm.end) || len(b.ports) > 0 && !portsFree(s.model.meter, b.ports, tm.ports)
	})
	b.stale = true
	return b.offersMinimum(b.types)
}

// market is what launches of a pool are narrowed by.
type market struct {
	prices []float64         // by atom
	sold   map[string]bitset // by capacity type: atoms that no reservation is for
	zones  []string          // in order
	in     []bitset          // by zone: its atoms
	// narrowed, cheap and dear are memory.
	narrowed, cheap, dear bitset
}

// market returns what launches of the pool are narrowed by, which is made when asked for.
func (p *poolModel) market() *market {
	if p.sale != nil {
		return p.sale
	}
	n := len(p.atoms)
	m := &market{prices: make([]float64, n), sold: map[string]bitset{}, narrowed: newBitset(n), cheap: newBitset(n), dear: newBitset(n)}
	for _, o := range p.atoms {
		if o.Zone != "" && !slices.Contains(m.zones, o.Zone) {
			m.zones, m.in = append(m.zones, o.Zone), append(m.in, newBitset(n))
		}
	}
	slices.Sort(m.zones)
	for a, o := range p.atoms {
		m.prices[a] = o.Price()
		if o.Zone != "" {
			m.in[slices.Index(m.zones, o.Zone)].set(a)
		}
		if o.Reservation != "" {
			continue
		}
		if m.sold[o.CapacityType] == nil {
			m.sold[o.CapacityType] = newBitset(n)
		}
		m.sold[o.CapacityType].set(a)
	}
	p.sale = m
	return m
}

// split sorts the atoms of the types that are left into cheap and dear.
func (m *market) split(b *launchBin, priceMax float64) {
	clear(m.cheap)
	clear(m.dear)
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			switch {
			case !b.atoms.has(a):
			case m.prices[a] <= priceMax:
				m.cheap.set(a)
			default:
				m.dear.set(a)
			}
		}
	}
}

// narrow keeps a launch to offerings within the price, of one capacity type and of zones
// in which each type that is left can be bought. It returns how many offerings are left.
func (s *Session) narrow(b *launchBin, bin *freshBin, priceMax float64, keyed bool) int {
	m := b.pool.market()
	chosen := b.pool.atoms[bin.atom]
	pins := label.Requirements{label.CapacityType: label.In(chosen.CapacityType)}
	b.keep(m.sold[chosen.CapacityType])
	m.split(b, priceMax)
	zones := b.zonesWithin(m, bin, keyed)
	if chosen.CapacityType == label.Spot && b.openIn(zones, priceMax) < s.spotPools {
		zones = b.mostOpen(zones, priceMax)
	}
	if len(zones) > 0 {
		pins[label.Zone] = label.In(zones...)
		clear(m.narrowed)
		for _, z := range zones {
			m.narrowed.or(m.in[slices.Index(m.zones, z)])
		}
		b.keep(m.narrowed)
	}
	if keyed {
		s.pinDomains(b, bin, pins)
	}
	b.terms = append(b.terms, pins)
	m.dear.and(b.atoms)
	b.dropDear(m, bin.typ)
	left := 0
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			if b.atoms.has(a) && !math.IsInf(m.prices[a], 1) {
				left++
			}
		}
	}
	return left
}

// dropDear leaves types out of which some part that is left is dear, but for one.
func (b *launchBin) dropDear(m *market, but int32) {
	types, kept := b.pool.types, b.types[:0]
	for i, end := 0, 0; i < len(b.types); i = end {
		dear := false
		for end = i; end < len(b.types) && types[b.types[end]].Type == types[b.types[i]].Type; end++ {
			dear = dear || m.dear.anyIn(types[b.types[end]].first, types[b.types[end]].end)
		}
		for _, t := range b.types[i:end] {
			if !dear || t == but {
				kept = append(kept, t)
			}
		}
	}
	b.types = kept
}

// zonesWithin returns the zones in which a type can be had for the price, and the bin's
// type is not dearer. keyed: the bin's own zone only.
func (b *launchBin) zonesWithin(m *market, bin *freshBin, keyed bool) []string {
	if chosen := b.pool.atoms[bin.atom]; keyed && chosen.Zone != "" {
		return []string{chosen.Zone}
	}
	own := &b.pool.types[bin.typ]
	var zones []string
	for i, z := range m.zones {
		dear := false
		for a := own.first; a < own.end; a++ {
			dear = dear || m.dear.has(a) && m.in[i].has(a)
		}
		if !dear && m.cheap.meets(m.in[i]) {
			zones = append(zones, z)
		}
	}
	return zones
}

// mostOpen leaves zones out, one after the other, as long as more spot offerings are left without:
// a type that is too dear in one of the zones is none that may be launched.
func (b *launchBin) mostOpen(zones []string, priceMax float64) []string {
	for most := b.openIn(zones, priceMax); ; {
		var best []string
		for i := range zones {
			without := slices.Delete(slices.Clone(zones), i, i+1)
			if n := b.openIn(without, priceMax); n > most {
				most, best = n, without
			}
		}
		if best == nil {
			return zones
		}
		zones = best
	}
}

// openIn returns how many spot offerings the zones have of types that are within the price in
// all of them.
func (b *launchBin) openIn(zones []string, priceMax float64) (open int) {
	for _, t := range b.types {
		n := 0
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			o := b.pool.atoms[a]
			if !b.atoms.has(a) || o.CapacityType != label.Spot || o.Reservation != "" || !slices.Contains(zones, o.Zone) {
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

// pinDomains keeps the launch to the domains that its pods' rules were judged by.
func (s *Session) pinDomains(b *launchBin, bin *freshBin, pins label.Requirements) {
	for _, key := range s.ledger.Keys() {
		if key == label.Hostname || key == label.Zone || key == label.CapacityType {
			continue
		}
		v, ok := bin.labelled(key)
		k, indexed := b.pool.decided(key)
		if !ok || !indexed {
			continue
		}
		pins[key] = label.In(v)
		if i, has := k.at[v]; has {
			b.keep(k.with[i])
		}
	}
}
