package pack

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// launch turns a filled bin into what shall be bought. The refusal is set when cutting
// the list of types to its maximum would break a minValues rule.
func (s *solver) launch(b *launchBin) (plan.Launch, verdict.Verdict) {
	// In the pool's order first: nearly always it is the launch's too.
	types := b.pool.among(b.pool.byPrice, b.types)
	prices := make([]float64, len(b.pool.types))
	for _, t := range types {
		prices[t] = b.price(t)
	}
	slices.SortFunc(types, func(x, y int32) int {
		if prices[x] != prices[y] {
			return cmp.Compare(prices[x], prices[y])
		}
		return cmp.Compare(b.pool.types[x].Name, b.pool.types[y].Name)
	})
	if len(types) > s.opts.TypesMax {
		types = types[:s.opts.TypesMax]
		for i := range b.minimum {
			rule := &b.pool.minValues[i]
			if n := rule.offered(types); n < b.minimum[i] && !s.opts.MinValuesBestEffort {
				return plan.Launch{}, verdict.Of(verdict.MinValuesUnmet, "pool "+b.pool.pool.Name,
					"%s needs %d values, the %d cheapest types have %d", rule.key, b.minimum[i], len(types), n)
			}
		}
	}
	l := plan.Launch{Pool: b.pool.pool.Name, MinValuesRelaxed: b.relaxed, PriceHourly: b.price(types[0])}
	if math.IsInf(l.PriceHourly, 1) {
		l.PriceHourly = 0
	}
	l.Types = make([]string, 0, len(types))
	for _, t := range types {
		if name := b.pool.types[t].Name; !b.pool.parted || !slices.Contains(l.Types, name) {
			l.Types = append(l.Types, name)
		}
	}
	names := make([]string, 0, len(types))
	for _, t := range b.pool.among(b.pool.byName, types) {
		names = append(names, b.pool.types[t].Name)
	}
	l.Requirements = b.requirements(names)
	l.Requests = b.requests(s.model.space, types)
	return l, verdict.Verdict{}
}

// requirements returns all that the machine must be: the pool's word, its pods', and the
// types and capacity types that are left.
func (b *launchBin) requirements(types []string) label.Requirements {
	r := b.pool.pool.Requirements
	for _, t := range b.terms {
		r = r.Intersect(t)
	}
	for i := range b.minimum {
		key := b.pool.minValues[i].key
		q := r[key]
		q.MinValues = b.minimum[i]
		r = r.With(key, q)
		r[key] = q
	}
	r = r.With(label.InstanceType, label.In(types...))
	r = r.With(label.CapacityType, label.In(b.capacityTypes()...))
	delete(r, label.Hostname)
	return r
}

func (b *launchBin) capacityTypes() []string {
	var cts []string
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			if ct := b.pool.atoms[a].CapacityType; b.atoms.has(a) && !slices.Contains(cts, ct) {
				cts = append(cts, ct)
			}
		}
	}
	return cts
}

// requests returns what the pods ask for, and the least that daemons will add whichever
// type it becomes.
func (b *launchBin) requests(space quantity.Space, types []int32) quantity.List {
	least := b.pool.types[types[0]].daemons
	if b.pool.daemonsAlike {
		types = types[:1]
	}
	for _, t := range types[1:] {
		other := b.pool.types[t].daemons
		both := quantity.List{}
		for name, amount := range least {
			if o, ok := other[name]; ok {
				both[name] = min(amount, o)
			}
		}
		least = both
	}
	sum := space.List(b.used).Plus(least)
	// The kubelet tells of volumes elsewhere, so a node would never be seen to have them.
	maps.DeleteFunc(sum, func(name string, _ int64) bool { return strings.HasPrefix(name, quantity.AttachPrefix) })
	return sum
}
