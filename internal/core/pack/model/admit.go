package model

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Match returns the offerings that do not conflict with the requirements, and those of the
// requirements that no offering decides. The refusal names the first key, in order, that leaves
// no offering. own: these are the NodePool's own requirements.
func (p *Pool) Match(want label.Requirements, own bool) (offerings Bitset, open label.Requirements, refusal verdict.Verdict) {
	switch {
	case own:
		offerings = FullBitset(len(p.Offerings))
	case len(want) == 0:
		return p.Allowed, nil, verdict.Verdict{}
	default:
		offerings = p.Allowed.Clone()
	}
	var mask Bitset
	for _, key := range want.Keys() {
		q := want[key]
		ours, ruled := p.NodePool.Requirements[key]
		k, indexed := p.Label(key)
		switch {
		case !own && !ruled && key == label.Hostname && !q.AllowsAbsence():
			return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, which no new node is", key, q)
		case !own && !ruled && !p.wellKnown[key] && !q.AllowsAbsence():
			return nil, nil, verdict.Of(verdict.RequirementUndefined, "", "%s is not defined", key)
		case !own && ruled && !ours.Overlaps(q):
			return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, is %s", key, q, ours)
		case key == label.Hostname:
			continue
		}
		if indexed {
			p.meter.Spend(1 + len(k.Values) + len(offerings))
			if mask == nil {
				mask = NewBitset(len(p.Offerings))
			}
			k.allow(q, mask)
			offerings.And(mask)
			if offerings.Empty() && !own {
				return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "no instance type has %s %s", key, q)
			}
		}
		if _, settled := ours.Only(); !indexed && (!ruled || !settled) || indexed && k.several {
			if open == nil {
				open = label.Requirements{}
			}
			open[key] = q
		}
	}
	return offerings, open, verdict.Verdict{}
}

// Admit returns what a pod's constraints, and the preference besides, allow of the NodePool.
func (p *Pool) Admit(sh *cluster.Constraints, preference label.Requirements) Admitted {
	if why := p.NodePool.NotForPods(); why != "" {
		return Admitted{Refusal: verdict.Of(verdict.PoolUnready, "", "%s", why)}
	}
	if refusal := fit.Taints(sh.Tolerations, p.NodePool.Taints); !refusal.IsYes() {
		return Admitted{Refusal: refusal}
	}
	return p.AdmitLabels(sh.Terms, preference)
}

// AdmitLabels is Admit for the labels alone.
func (p *Pool) AdmitLabels(terms []label.Requirements, preference label.Requirements) Admitted {
	var in Admitted
	var first verdict.Verdict
	for _, term := range terms {
		p.meter.Spend(1 + term.Weight() + preference.Weight())
		if len(preference) > 0 {
			term = term.Intersect(preference)
		}
		offerings, open, refusal := p.Match(term, false)
		if refusal.IsYes() && offerings.Empty() {
			refusal = verdict.Of(verdict.NoCompatibleType, "", "no instance type is within its requirements")
		}
		if !refusal.IsYes() {
			if first.IsYes() {
				first = refusal
			}
			continue
		}
		in.Terms = append(in.Terms, AdmittedTerm{term: term, Offerings: offerings, Open: open})
	}
	if len(in.Terms) == 0 {
		in.Refusal = first
	}
	return in
}

// promise returns what is certain about an in-flight NodeClaim: the offerings that it may become,
// and the room that each of them has.
func (p *Pool) promise(claim *cluster.InFlightClaim) (offerings Bitset, free quantity.Vector) {
	offerings, _, refusal := p.Match(claim.Requirements, true)
	if !refusal.IsYes() {
		return NewBitset(len(p.Offerings)), nil
	}
	for _, t := range p.TypesNamed(claim.Types) {
		tm := &p.Types[t]
		if !offerings.AnyIn(tm.First, tm.End) {
			continue
		}
		if free == nil {
			free = append(quantity.Vector(nil), tm.Free...)
		}
		for i := range free {
			free[i] = min(free[i], tm.Free[i])
		}
	}
	if free == nil {
		return NewBitset(len(p.Offerings)), nil
	}
	return offerings, free
}

// AnyEmpty reports whether one of the terms is right for every node.
func AnyEmpty(terms []label.Requirements) bool {
	return slices.ContainsFunc(terms, func(t label.Requirements) bool { return len(t) == 0 })
}

// Allows reports, about a node that may become any of the offerings under the requirements, whether
// some of these nodes are allowed, and whether some are not.
func (in *Admitted) Allows(offerings Bitset, has label.Requirements) (some, notAll bool) {
	for _, t := range in.Terms {
		if _, conflict := has.Conflict(t.Open); conflict || !offerings.Meets(t.Offerings) {
			continue
		}
		if offerings.Within(t.Offerings) && assured(has, t.Open) {
			return true, false
		}
		some = true
	}
	return some, some
}

// Admitted is what a class allows of one NodePool.
type Admitted struct {
	Refusal verdict.Verdict // why it allows nothing; yes: it allows the terms
	Terms   []AdmittedTerm
}

// AdmittedTerm is one of a class's alternative requirements, compared with a NodePool: the
// offerings that it allows, and what it asks of labels that no offering decides.
type AdmittedTerm struct {
	term      label.Requirements
	Offerings Bitset
	Open      label.Requirements
}

// assured reports whether every label that satisfies have also satisfies want.
func assured(have, want label.Requirements) bool {
	for key, q := range want {
		h, ok := have[key]
		if !ok || !h.Within(q) {
			return false
		}
	}
	return true
}
