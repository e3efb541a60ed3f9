package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// This file is for daemons that run on some offerings of a type and not on others: those
// of one zone, or of one capacity type. Such a type is taken apart, so that each part has
// the same daemons, and so the same room, wherever it is bought.

// part is a type, or those of its offerings that have the same daemons.
type part struct {
	*catalog.Type
	offerings []*catalog.Offering
}

// whole returns the types as they are.
func whole(types []*catalog.Type) []part {
	parts := make([]part, len(types))
	for i, t := range types {
		parts[i].Type = t
		for o := range t.Offerings {
			parts[i].offerings = append(parts[i].offerings, &t.Offerings[o])
		}
	}
	return parts
}

// lay makes the parts the pool's types and works out what they decide.
func (p *poolModel) lay(parts []part) {
	p.types, p.atoms, p.typeOf, p.keys = nil, nil, nil, map[string]*keyModel{}
	for i := range parts {
		tm := typeModel{Type: parts[i].Type, first: len(p.atoms), capacity: p.space.Vector(parts[i].Capacity)}
		p.atoms = append(p.atoms, parts[i].offerings...)
		tm.end = len(p.atoms)
		for range parts[i].offerings {
			p.typeOf = append(p.typeOf, int32(i))
		}
		p.types = append(p.types, tm)
	}
	p.allowed, _, _ = p.match(p.pool.Requirements, true)
}

// apart returns the types taken apart where a daemon runs on some of their offerings
// only; none if there is no such type.
func (p *poolModel) apart(daemons []cluster.Daemon) []part {
	if len(daemons) == 0 {
		return nil
	}
	runs := make([]bitset, len(daemons))
	for i := range daemons {
		runs[i] = newBitset(len(p.atoms))
		for _, term := range p.admit(daemons[i].Shape, nil).terms {
			runs[i].or(term.atoms)
		}
	}
	var parts []part
	split := false
	for t := range p.types {
		tm := &p.types[t]
		var own []part
		var has [][]bool // by own: which daemons
		for a := tm.first; a < tm.end; a++ {
			with := make([]bool, len(daemons))
			for i := range runs {
				with[i] = runs[i].has(a)
			}
			at := slices.IndexFunc(has, func(h []bool) bool { return slices.Equal(h, with) })
			if at < 0 {
				at = len(own)
				own, has = append(own, part{Type: tm.Type}), append(has, with)
			}
			own[at].offerings = append(own[at].offerings, p.atoms[a])
		}
		if len(own) == 0 {
			own = []part{{Type: tm.Type}}
		}
		split = split || len(own) > 1
		parts = append(parts, own...)
	}
	if !split {
		return nil
	}
	return parts
}

// close settles a launch on one zone and capacity type, its cheapest, where what it names
// would also allow a part of a type that does not hold its pods: a claim can say types,
// zones and capacity types, but not which of them go together.
func (b *launchBin) close() {
	if !b.pool.parted || !b.lost() {
		return
	}
	best := b.best(b.cheapest())
	pins := label.Requirements{label.CapacityType: label.In(best.CapacityType)}
	if best.Zone != "" {
		pins[label.Zone] = label.In(best.Zone)
	}
	b.terms = append(b.terms, pins)
	b.keepAtoms(func(a int) bool {
		return b.pool.atoms[a].Zone == best.Zone && b.pool.atoms[a].CapacityType == best.CapacityType
	})
}

// lost tells whether a part of a type that the bin names is none of its own any more,
// though the atoms that are left would allow it. Parts of a type follow each other.
func (b *launchBin) lost() bool {
	types := b.pool.types
	for at := 0; at < len(b.types); {
		of, o := types[b.types[at]].Type, int(b.types[at])
		for o > 0 && types[o-1].Type == of {
			o--
		}
		for ; o < len(types) && types[o].Type == of; o++ {
			switch {
			case at < len(b.types) && b.types[at] == int32(o):
				at++
			case b.atoms.anyIn(types[o].first, types[o].end):
				return true
			}
		}
	}
	return false
}
