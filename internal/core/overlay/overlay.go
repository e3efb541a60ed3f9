// Package overlay decides which NodeOverlays are in force, and what they make of the instance
// types of each NodePool: other prices, and more resources.
//
// An overlay of higher weight goes before one of lower weight, for each offering's price and each
// resource by itself. Two overlays of one weight that correct the same thing contradict each
// other; the one that comes later in the order of names, backwards, is not in force at all.
//
// Read Evaluate, then Effects.Types. The package imports the core only.
package overlay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Overlay is a NodeOverlay.
type Overlay struct {
	Name   string
	Weight int32
	// Requirements select types and offerings.
	Requirements label.Requirements
	Price        Price
	// Capacity are resources that the types have besides, or instead of what the provider says.
	Capacity quantity.List
	// Invalid says why it cannot be in force; empty: it can be read.
	Invalid string
}

// Price says how a price is corrected.
type Price struct {
	Kind   Kind
	Amount float64
}

// Kind is a way to correct a price.
type Kind int

// The kinds. Absolute replaces the price, Plus adds to it, Times multiplies it.
const (
	Unchanged Kind = iota
	Absolute
	Plus
	Times
)

// of returns the corrected price of an offering and whether it has one. It is never below zero. A
// price that is not known can only be replaced.
func (p Price) of(o *catalog.Offering) (price float64, known bool) {
	switch {
	case p.Kind == Absolute:
		return p.Amount, true
	case !o.HasPrice():
		return o.PriceHourly, o.Priced
	case p.Kind == Plus:
		return max(0, o.PriceHourly+p.Amount), true
	case p.Kind == Times:
		return max(0, o.PriceHourly*p.Amount), true
	default:
		return o.PriceHourly, true
	}
}

// Pool is what selects a NodePool's types: its name and the labels of its template.
type Pool struct {
	Name   string
	Labels map[string]string
	// Class names the node class: pools of one class have the same Types.
	Class string
	Types []*catalog.Type
}

// Effects are what overlays make of the types of pools, by the name of the pool and of the type.
type Effects map[string]map[string]*effect

// effect is what overlays make of one type.
type effect struct {
	prices   map[offering]priced
	capacity map[string]resource
}

// offering names an offering of a type.
type offering struct{ zone, capacityType, reservation, id string }

func nameOf(o *catalog.Offering) offering {
	return offering{o.Zone, o.CapacityType, o.Reservation, o.ID}
}

// priced is how an offering is priced, and by an overlay of which weight.
type priced struct {
	price  Price
	weight int32
}

// resource is how much a type has of a resource, and by an overlay of which weight.
type resource struct {
	amount int64
	weight int32
}

// overlaysMax bounds how many overlays are in force: each is compared with every offering.
const overlaysMax = 500

// Evaluate returns the effects of overlays on the types of pools, and of each overlay that is not
// in force because it contradicts another, with what.
func Evaluate(overlays []Overlay, pools []Pool) (Effects, map[string]string) {
	ordered := slices.Clone(overlays)
	slices.SortFunc(ordered, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(b.Name, a.Name))
	})
	e := &evaluation{effects: Effects{}, matches: map[matchKey][]match{}}
	conflicts := map[string]string{}
	for i := range ordered {
		o := &ordered[i]
		if o.Invalid != "" {
			continue
		}
		if i >= overlaysMax {
			conflicts[o.Name] = fmt.Sprintf("there are more than %d overlays, and those of the highest weight are in force", overlaysMax)
			continue
		}
		selected := e.selects(o, pools)
		if why := e.conflict(o, selected); why != "" {
			conflicts[o.Name] = why
			continue
		}
		e.add(o, selected)
	}
	return e.effects, conflicts
}

// evaluation is one call of Evaluate.
type evaluation struct {
	effects Effects
	matches map[matchKey][]match
}

// matchKey names a selection among the types of a class. Overlays that leave the same requirements
// when those that a pool's labels decide are taken away select the same.
type matchKey struct{ overlay, class, left string }

// match is a type with the offerings that are selected.
type match struct {
	typ       *catalog.Type
	offerings []int
}

// selection is what an overlay selects in a pool.
type selection struct {
	pool    string
	matches []match
}

// selects returns what an overlay selects in each pool.
func (e *evaluation) selects(o *Overlay, pools []Pool) (all []selection) {
	for i := range pools {
		p := &pools[i]
		left, ok := withoutLabels(o.Requirements, p)
		if !ok {
			continue
		}
		key := matchKey{o.Name, p.Class, left.String()}
		matches, had := e.matches[key]
		if !had {
			matches = among(p.Types, left)
			e.matches[key] = matches
		}
		if len(matches) > 0 {
			all = append(all, selection{p.Name, matches})
		}
	}
	return all
}

// withoutLabels returns the requirements that a pool's name and labels do not decide; false: they
// contradict one.
func withoutLabels(want label.Requirements, p *Pool) (label.Requirements, bool) {
	left := label.Requirements{}
	for key, r := range want {
		value, decided := p.Labels[key]
		switch {
		case !decided:
			left[key] = r
		case !r.Allows(value):
			return nil, false
		}
	}
	return left, true
}

// among returns the types that satisfy requirements, with the offerings that do.
func among(types []*catalog.Type, want label.Requirements) (all []match) {
	for _, t := range types {
		m := match{typ: t}
		for i := range t.Offerings {
			if isSelected(t, &t.Offerings[i], want) {
				m.offerings = append(m.offerings, i)
			}
		}
		if len(m.offerings) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// isSelected reports whether a type, as one of its offerings has it, satisfies requirements. What
// demands a label that neither of them has is not satisfied.
func isSelected(t *catalog.Type, o *catalog.Offering, want label.Requirements) bool {
	for key, wanted := range want {
		if value, own := o.Value(key); own {
			if !wanted.Allows(value) {
				return false
			}
		} else if said, has := t.Requirements[key]; has && !said.Overlaps(wanted) || !has && !wanted.AllowsAbsence() {
			return false
		}
	}
	return true
}

// conflict returns which overlay of the same weight corrects what this one corrects; empty: none.
func (e *evaluation) conflict(o *Overlay, selected []selection) string {
	for _, s := range selected {
		for _, m := range s.matches {
			had := e.effects[s.pool][m.typ.Name]
			if had == nil {
				continue
			}
			for _, i := range m.offerings {
				at := &m.typ.Offerings[i]
				if was, ok := had.prices[nameOf(at)]; ok && o.Price.Kind != Unchanged && was.weight == o.Weight {
					return fmt.Sprintf("another overlay of weight %d sets the price of %s in NodePool %s", o.Weight, m.typ.Name, s.pool)
				}
			}
			for name := range o.Capacity {
				if was, ok := had.capacity[name]; ok && was.weight == o.Weight {
					return fmt.Sprintf("another overlay of weight %d sets %s of %s in NodePool %s", o.Weight, name, m.typ.Name, s.pool)
				}
			}
		}
	}
	return ""
}

// add has an overlay in force, as far as none of a higher weight corrects the same.
func (e *evaluation) add(o *Overlay, selected []selection) {
	for _, s := range selected {
		if e.effects[s.pool] == nil {
			e.effects[s.pool] = map[string]*effect{}
		}
		for _, m := range s.matches {
			x := e.effects[s.pool][m.typ.Name]
			if x == nil {
				x = &effect{map[offering]priced{}, map[string]resource{}}
				e.effects[s.pool][m.typ.Name] = x
			}
			for _, i := range m.offerings {
				at := nameOf(&m.typ.Offerings[i])
				if _, had := x.prices[at]; !had && o.Price.Kind != Unchanged {
					x.prices[at] = priced{o.Price, o.Weight}
				}
			}
			for name, amount := range o.Capacity {
				if _, had := x.capacity[name]; !had {
					x.capacity[name] = resource{amount, o.Weight}
				}
			}
		}
	}
}

// Types returns the types of a pool as overlays have them. Types without an effect are returned as
// they are, and all of them if there is none.
func (e Effects) Types(pool string, types []*catalog.Type) []*catalog.Type {
	of := e[pool]
	if len(of) == 0 {
		return types
	}
	out := slices.Clone(types)
	for i, t := range types {
		if x := of[t.Name]; x != nil {
			out[i] = x.on(t)
		}
	}
	return out
}

// on returns a copy of a type with the effect.
func (x *effect) on(t *catalog.Type) *catalog.Type {
	own := *t
	own.Offerings = slices.Clone(t.Offerings)
	for i := range own.Offerings {
		o := &own.Offerings[i]
		if p, ok := x.prices[nameOf(o)]; ok {
			o.PriceHourly, o.Priced = p.price.of(o)
		}
	}
	if len(x.capacity) > 0 {
		own.Capacity = t.Capacity.Plus(nil)
		for name, r := range x.capacity {
			own.Capacity[name] = r.amount
		}
	}
	return &own
}

// Capacity returns the resources that overlays set for a type of a pool.
func (e Effects) Capacity(pool, typeName string) quantity.List {
	x := e[pool][typeName]
	if x == nil {
		return nil
	}
	out := quantity.List{}
	for name, r := range x.capacity {
		out[name] = r.amount
	}
	return out
}

// Reprice reports whether overlays set prices in a pool.
func (e Effects) Reprice(pool string) bool {
	for _, x := range e[pool] {
		if len(x.prices) > 0 {
			return true
		}
	}
	return false
}
