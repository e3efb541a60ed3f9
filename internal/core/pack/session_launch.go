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
// type in a zone is one. It is false when the pods do not fit after all.
func (s *Session) Launch(h int, priceMax float64) (l plan.Launch, pools int, ok bool) {
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
	keyed := false
	for _, sh := range host.added {
		c := &s.classes[sh.Class]
		keyed = keyed || len(c.keys) > 0
		if !s.carry(b, c, sh.N, bin.atom) {
			return l, 0, false
		}
	}
	if !slices.Contains(b.types, bin.typ) {
		return l, 0, false
	}
	pools = s.narrow(b, bin, priceMax, keyed)
	l, refusal := s.launch(b, &written{})
	return l, pools, refusal.IsYes()
}

// carry puts n pods of a class on a launch that must be able to become the atom.
func (s *Session) carry(b *launchBin, c *class, n int32, atom int) bool {
	in := &c.last().in[b.at]
	for i := range in.terms {
		t := &in.terms[i]
		if !t.atoms.has(atom) || !b.scratch.intersection(b.atoms, t.atoms) {
			continue
		}
		for n > 0 {
			k := b.addWithin(c, t, int(n))
			if k == 0 {
				return false
			}
			if n -= int32(k); n > 0 && !b.scratch.intersection(b.atoms, t.atoms) {
				return false
			}
		}
		return true
	}
	return false
}

// narrow keeps a launch to offerings within the price, of one capacity type and of zones
// in which each type that is left can be bought. It returns how many offerings are left.
func (s *Session) narrow(b *launchBin, bin *freshBin, priceMax float64, keyed bool) int {
	chosen := b.pool.atoms[bin.atom]
	pins := label.Requirements{label.CapacityType: label.In(chosen.CapacityType)}
	zones := b.zonesWithin(bin, priceMax, keyed)
	if chosen.CapacityType == label.Spot && b.openIn(zones, priceMax) < s.spotPools {
		zones = b.mostOpen(zones, priceMax)
	}
	if len(zones) > 0 {
		pins[label.Zone] = label.In(zones...)
	}
	if keyed {
		s.pinDomains(b, bin, pins)
	}
	b.terms = append(b.terms, pins)
	within := func(a int) bool {
		o := b.pool.atoms[a]
		return o.CapacityType == chosen.CapacityType && o.Reservation == "" && (len(zones) == 0 || slices.Contains(zones, o.Zone))
	}
	dear := map[string]bool{}
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			if b.atoms.has(a) && within(a) && b.pool.atoms[a].Price() > priceMax {
				dear[b.pool.types[t].Name] = true
			}
		}
	}
	b.keepAtoms(within)
	b.types = slices.DeleteFunc(b.types, func(t int32) bool { return dear[b.pool.types[t].Name] && t != bin.typ })
	left := 0
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			if b.atoms.has(a) && !math.IsInf(b.pool.atoms[a].Price(), 1) {
				left++
			}
		}
	}
	return left
}

// zonesWithin returns the zones in which a type can be had for the price, and the bin's
// type is not dearer. keyed: the bin's own zone only.
func (b *launchBin) zonesWithin(bin *freshBin, priceMax float64, keyed bool) []string {
	chosen := b.pool.atoms[bin.atom]
	if keyed && chosen.Zone != "" {
		return []string{chosen.Zone}
	}
	var zones, dear []string
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			o := b.pool.atoms[a]
			switch {
			case !b.atoms.has(a) || o.CapacityType != chosen.CapacityType || o.Zone == "":
			case o.Price() <= priceMax:
				zones = append(zones, o.Zone)
			case t == bin.typ:
				dear = append(dear, o.Zone)
			}
		}
	}
	slices.Sort(zones)
	return slices.DeleteFunc(slices.Compact(zones), func(z string) bool { return slices.Contains(dear, z) })
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
			b.keepAtoms(k.with[i].has)
		}
	}
}
