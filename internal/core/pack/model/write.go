package model

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

// Described is the last planned node that was described as a launch, for others like it.
type Described struct {
	node   *PlannedNode
	launch plan.Launch
	types  []int32 // the types that the launch names
}

// describesSame reports whether the launches of two planned nodes differ only in what they hold.
func (b *PlannedNode) describesSame(o *PlannedNode) bool {
	return b.Pool == o.Pool && b.relaxed == o.relaxed && slices.Equal(b.Minimum, o.Minimum) &&
		slices.Equal(b.Types, o.Types) && slices.Equal(b.Offerings, o.Offerings) && slices.EqualFunc(b.Requirements, o.Requirements, SameRequirements)
}

// Describe returns the launch of a planned node. If the last one was alike, as most of very many
// are, it uses the same values. It returns a refusal if the list of types would break a minValues
// rule when it is cut to its maximum length.
func (m *Model) Describe(b *PlannedNode, last *Described) (plan.Launch, verdict.Verdict) {
	if last.node != nil && b.describesSame(last.node) {
		if !slices.Equal(b.Used, last.node.Used) {
			last.node, last.launch.Requests = b, b.requests(m.Space, last.types)
		}
		return last.launch, verdict.Verdict{}
	}
	types, prices := b.nameable(m.Options.PriceCap)
	slices.SortFunc(types, func(x, y int32) int {
		if prices[x] != prices[y] {
			return cmp.Compare(prices[x], prices[y])
		}
		return cmp.Compare(b.Pool.Types[x].Name, b.Pool.Types[y].Name)
	})
	types = types[:b.flexible(types, prices, m.Options)]
	if refusal := b.ShortOfValues(types); !refusal.IsYes() && !m.Options.MinValuesBestEffort {
		return plan.Launch{}, refusal
	}
	l := plan.Launch{Pool: b.Pool.NodePool.Name, MinValuesRelaxed: b.relaxed, PriceHourly: b.best(types[0]).Price()}
	if math.IsInf(l.PriceHourly, 1) {
		l.PriceHourly = 0
	}
	l.Types = make([]string, 0, len(types))
	for _, t := range types {
		if name := b.Pool.Types[t].Name; !b.Pool.parted || !slices.Contains(l.Types, name) {
			l.Types = append(l.Types, name)
		}
	}
	names := make([]string, 0, len(types))
	for _, t := range b.Pool.among(b.Pool.byName, types) {
		names = append(names, b.Pool.Types[t].Name)
	}
	l.Requirements = b.requirements(names, b.capacityTypes(types))
	l.Requests = b.requests(m.Space, types)
	*last = Described{b, l, types}
	return l, verdict.Verdict{}
}

// nameable returns the types that a launch may name, and the prices of types. It leaves out types
// that are above the price cap, where that is easy to see.
func (b *PlannedNode) nameable(priceCap float64) (types []int32, prices []float64) {
	if b.Pool.prices == nil {
		b.Pool.prices = make([]float64, len(b.Pool.Types))
	}
	alive := b.Pool.setOf(b.Types)
	best := math.Inf(1)
	exact := len(b.Minimum) == 0
	// In the order of the pool, which is nearly always that of the node's own prices.
	for _, t := range b.Pool.byPrice {
		if exact && b.TypesMin == 0 && b.Pool.Types[t].priceMin > best*priceCap {
			break
		}
		if !alive.Has(int(t)) {
			continue
		}
		price := b.Price(t)
		if b.Pool.prices[t] = price; price < best {
			best = price
			exact = exact && b.best(t).CapacityType != label.Spot
		}
		types = append(types, t)
	}
	return types, b.Pool.prices
}

// spotOfferingsMin is how many spot offerings a launch should name, as far as there are so many.
// Any one of them may be short at any moment.
const spotOfferingsMin = 15

// flexible returns how many of the types, cheapest first, a launch should name: all within the
// price cap, and as many more as spot and minValues need.
func (b *PlannedNode) flexible(types []int32, prices []float64, opts Options) int {
	ceiling := prices[types[0]] * opts.PriceCap
	offerings, spot := 0, b.best(types[0]).CapacityType == label.Spot
	n := 0
	for ; n < min(len(types), opts.TypesMax); n++ {
		if b.TypesMin > 0 && n < b.TypesMin {
			continue
		}
		if b.TypesMin > 0 && b.MeetsMinValues(types[:n]) {
			break
		}
		if prices[types[n]] > ceiling && (!spot || offerings >= spotOfferingsMin) && b.MeetsMinValues(types[:n]) {
			break
		}
		tm := &b.Pool.Types[types[n]]
		for a := tm.First; spot && a < tm.End; a++ {
			if b.Offerings.Has(a) && b.Pool.Offerings[a].CapacityType == label.Spot {
				offerings++
			}
		}
	}
	return n
}

// requirements returns the requirements of the launch: those of the pool and of the node's pods,
// and the types and capacity types that are left.
func (b *PlannedNode) requirements(types, capacityTypes []string) label.Requirements {
	r := make(label.Requirements, len(b.Pool.NodePool.Requirements)+len(b.Requirements)+2)
	maps.Copy(r, b.Pool.NodePool.Requirements)
	meet := func(key string, q label.Requirement) {
		if had, ok := r[key]; ok {
			q = had.Intersect(q)
		}
		r[key] = q
	}
	for _, t := range b.Requirements {
		for key, q := range t {
			meet(key, q)
		}
	}
	for i := range b.Minimum {
		key := b.Pool.MinValues[i].Key
		r[key] = r[key].WithMinValues(b.Minimum[i])
	}
	meet(label.InstanceType, label.In(types...))
	if r[label.CapacityType].MinValues <= len(capacityTypes) { // else the API server would refuse the NodeClaim
		meet(label.CapacityType, label.In(capacityTypes...))
	}
	delete(r, label.Hostname)
	return r
}

// capacityTypes returns the capacity types of the offerings that the types have left.
func (b *PlannedNode) capacityTypes(types []int32) []string {
	var cts []string
	for _, t := range types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if ct := b.Pool.Offerings[a].CapacityType; b.Offerings.Has(a) && !slices.Contains(cts, ct) {
				cts = append(cts, ct)
			}
		}
	}
	return cts
}

// requests returns what the node's pods ask for together, and the least that DaemonSet pods add,
// whichever of the types it becomes.
func (b *PlannedNode) requests(space quantity.Space, types []int32) quantity.List {
	least := b.Pool.Types[types[0]].daemons
	if b.Pool.daemonsAlike {
		types = types[:1]
	}
	for _, t := range types[1:] {
		other := b.Pool.Types[t].daemons
		both := quantity.List{}
		for name, amount := range least {
			if o, ok := other[name]; ok {
				both[name] = min(amount, o)
			}
		}
		least = both
	}
	sum := space.List(b.Used).Plus(least)
	// The kubelet reports volumes and devices elsewhere, so a node would never be seen to have them.
	maps.DeleteFunc(sum, func(name string, _ int64) bool {
		return strings.HasPrefix(name, quantity.AttachPrefix) || strings.HasPrefix(name, quantity.DevicePrefix)
	})
	return sum
}
