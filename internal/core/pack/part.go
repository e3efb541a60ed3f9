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

// within returns the pool's types with those of their offerings that its requirements allow.
// A type that an open claim of the pool names is left whole: the claim may be older than the
// requirements.
func (p *poolModel) within(snap *cluster.Snapshot) []part {
	claimed := map[string]bool{}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Open != nil && n.Pool == p.pool.Name {
			for _, name := range n.Open.Types {
				claimed[name] = true
			}
		}
	}
	var rules []rule
	for key, q := range p.pool.Requirements {
		if key != label.Hostname {
			rules = append(rules, rule{key: key, allowed: q})
		}
	}
	count := 0
	for _, t := range p.pool.Types {
		count += len(t.Offerings)
	}
	parts := make([]part, 0, len(p.pool.Types))
	offerings := make([]*catalog.Offering, 0, count)
	for _, t := range p.pool.Types {
		if !claimed[t.Name] && !ask(rules, t) {
			continue
		}
		first := len(offerings)
		for i := range t.Offerings {
			if o := &t.Offerings[i]; claimed[t.Name] || allow(rules, o) {
				offerings = append(offerings, o)
			}
		}
		if claimed[t.Name] || len(offerings) > first {
			parts = append(parts, part{t, offerings[first:len(offerings):len(offerings)]})
		}
	}
	return parts
}

// rule is a requirement of a pool, and what a type says to it.
type rule struct {
	key     string
	allowed label.Requirement
	typed   bool // the type is right, unless an offering says something else
	settled bool // no offering of the type says something else
}

// ask notes what the type says to the rules. It is false where no offering can be right.
func ask(rules []rule, t *catalog.Type) bool {
	labelled := slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return len(o.Labels) > 0 })
	for i := range rules {
		r := &rules[i]
		r.typed = true
		switch said, has := t.Requirements[r.key]; {
		case has && said.Operator() == label.OpIn:
			r.typed = slices.ContainsFunc(said.Values(), r.allowed.Allows)
		case has && said.Operator() == label.OpDoesNotExist:
			r.typed = r.allowed.AllowsAbsence()
		}
		if r.settled = !labelled && r.key != label.Zone && r.key != label.CapacityType; r.settled && !r.typed {
			return false
		}
	}
	return true
}

// allow tells whether an offering of the type that was asked keeps the rules.
func allow(rules []rule, o *catalog.Offering) bool {
	for i := range rules {
		r := &rules[i]
		if r.settled {
			continue
		}
		if v, own := o.Value(r.key); own && !r.allowed.Allows(v) || !own && !r.typed {
			return false
		}
	}
	return true
}

// lay makes the parts the pool's types and works out what they decide.
func (p *poolModel) lay(parts []part) {
	atoms := 0
	for i := range parts {
		atoms += len(parts[i].offerings)
	}
	p.types, p.keys = make([]typeModel, 0, len(parts)), map[string]*keyModel{}
	p.atoms, p.typeOf = make([]*catalog.Offering, 0, atoms), make([]int32, 0, atoms)
	var memory slab[int64]
	for i := range parts {
		tm := typeModel{Type: parts[i].Type, first: len(p.atoms), capacity: memory.take(len(p.space))}
		p.space.Fill(tm.capacity, parts[i].Capacity)
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
	if !slices.ContainsFunc(p.types, func(tm typeModel) bool {
		return slices.ContainsFunc(runs, func(r bitset) bool { return r.anyIn(tm.first, tm.end) && !r.allIn(tm.first, tm.end) })
	}) {
		return nil
	}
	var parts []part
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
		parts = append(parts, own...)
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
