package model

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// This file is about DaemonSets that run on some offerings of an instance type and not on others:
// those of one zone, or of one capacity type. Such a type is taken apart, so that each part has
// the same DaemonSet pods, and so the same room, wherever it is launched.

// part is an instance type, or those of its offerings that have the same DaemonSet pods.
type part struct {
	*catalog.Type
	offerings []*catalog.Offering
}

// offeringsWithin returns the pool's types with those of their offerings that its requirements allow.
// A type that an in-flight NodeClaim of the pool names is left whole: the claim may be older than the
// requirements.
func (p *Pool) offeringsWithin(snap *cluster.Snapshot) []part {
	claimed := map[string]bool{}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.InFlight != nil && n.Pool == p.NodePool.Name {
			for _, name := range n.InFlight.Types {
				claimed[name] = true
			}
		}
	}
	var rules []rule
	for key, q := range p.NodePool.Requirements {
		if key != label.Hostname {
			rules = append(rules, rule{key: key, allowed: q})
		}
	}
	count := 0
	for _, t := range p.NodePool.Types {
		count += len(t.Offerings)
	}
	parts := make([]part, 0, len(p.NodePool.Types))
	offerings := make([]*catalog.Offering, 0, count)
	for _, t := range p.NodePool.Types {
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

// rule is a requirement of a pool, and whether an instance type satisfies it.
type rule struct {
	key     string
	allowed label.Requirement
	typed   bool // the type satisfies it, unless an offering has its own value
	settled bool // no offering of the type has its own value
}

// ask notes whether the type satisfies the rules. It returns false if no offering can.
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

// allow reports whether an offering of the type that was asked satisfies the rules.
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

// addTypes makes the parts the pool's types, and works out which offerings the pool allows.
func (p *Pool) addTypes(parts []part) {
	offerings := 0
	for i := range parts {
		offerings += len(parts[i].offerings)
	}
	p.Types, p.keys = make([]InstanceType, 0, len(parts)), map[string]*Label{}
	p.Offerings, p.TypeOf = make([]*catalog.Offering, 0, offerings), make([]int32, 0, offerings)
	var memory Slab[int64]
	for i := range parts {
		tm := InstanceType{Type: parts[i].Type, First: len(p.Offerings), Amounts: memory.Take(len(p.Space))}
		p.Space.Fill(tm.Amounts, parts[i].Capacity)
		p.Offerings = append(p.Offerings, parts[i].offerings...)
		tm.End = len(p.Offerings)
		for range parts[i].offerings {
			p.TypeOf = append(p.TypeOf, int32(i))
		}
		p.Types = append(p.Types, tm)
	}
	p.Allowed, _, _ = p.Match(p.NodePool.Requirements, true)
}

// splitByDaemons returns the types, taken apart where a DaemonSet runs on some of their offerings
// only; nil if there is no such type.
func (p *Pool) splitByDaemons(daemons []cluster.Daemon) []part {
	if len(daemons) == 0 {
		return nil
	}
	runs := make([]Bitset, len(daemons))
	for i := range daemons {
		runs[i] = NewBitset(len(p.Offerings))
		for _, term := range p.Admit(daemons[i].Constraints, nil).Terms {
			runs[i].Or(term.Offerings)
		}
	}
	if !slices.ContainsFunc(p.Types, func(tm InstanceType) bool {
		return slices.ContainsFunc(runs, func(r Bitset) bool { return r.AnyIn(tm.First, tm.End) && !r.allIn(tm.First, tm.End) })
	}) {
		return nil
	}
	var parts []part
	for t := range p.Types {
		tm := &p.Types[t]
		var own []part
		var has [][]bool // by own: which daemons
		for a := tm.First; a < tm.End; a++ {
			with := make([]bool, len(daemons))
			for i := range runs {
				with[i] = runs[i].Has(a)
			}
			at := slices.IndexFunc(has, func(h []bool) bool { return slices.Equal(h, with) })
			if at < 0 {
				at = len(own)
				own, has = append(own, part{Type: tm.Type}), append(has, with)
			}
			own[at].offerings = append(own[at].offerings, p.Offerings[a])
		}
		if len(own) == 0 {
			own = []part{{Type: tm.Type}}
		}
		parts = append(parts, own...)
	}
	return parts
}
