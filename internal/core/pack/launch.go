package pack

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// written is a launch that was written down, for others like it.
type written struct {
	bin    *launchBin
	launch plan.Launch
	types  []int32 // those that it names
}

// alike tells whether launches of two bins differ in nothing but what they hold.
func (b *launchBin) alike(o *launchBin) bool {
	return b.pool == o.pool && b.relaxed == o.relaxed && slices.Equal(b.minimum, o.minimum) &&
		slices.Equal(b.types, o.types) && slices.Equal(b.atoms, o.atoms) && slices.EqualFunc(b.terms, o.terms, sameMap)
}

// launch turns a filled bin into what shall be bought, in the words of the last launch if
// that was like it: of very many most are. The refusal is set when cutting the list of types
// to its maximum would break a minValues rule.
func (s *solver) launch(b *launchBin, last *written) (plan.Launch, verdict.Verdict) {
	if last.bin != nil && b.alike(last.bin) {
		if !slices.Equal(b.used, last.bin.used) {
			last.bin, last.launch.Requests = b, b.requests(s.model.space, last.types)
		}
		return last.launch, verdict.Verdict{}
	}
	types, prices := s.nameable(b)
	slices.SortFunc(types, func(x, y int32) int {
		if prices[x] != prices[y] {
			return cmp.Compare(prices[x], prices[y])
		}
		return cmp.Compare(b.pool.types[x].Name, b.pool.types[y].Name)
	})
	types = types[:b.flexible(types, prices, s.opts)]
	if refusal := b.shortOfValues(types); !refusal.IsYes() && !s.opts.MinValuesBestEffort {
		return plan.Launch{}, refusal
	}
	l := plan.Launch{Pool: b.pool.pool.Name, MinValuesRelaxed: b.relaxed, PriceHourly: b.best(types[0]).Price()}
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
	l.Requirements = b.requirements(names, b.capacityTypes(types))
	l.Requests = b.requests(s.model.space, types)
	*last = written{b, l, types}
	return l, verdict.Verdict{}
}

// nameable returns the types of a bin that it may name, and the prices of types. Of those
// that are surely above the price cap it leaves out what it can.
func (s *solver) nameable(b *launchBin) (types []int32, prices []float64) {
	if b.pool.prices == nil {
		b.pool.prices = make([]float64, len(b.pool.types))
	}
	alive := b.pool.setOf(b.types)
	best := math.Inf(1)
	exact := len(b.minimum) == 0
	// In the pool's order: nearly always it is the launch's too.
	for _, t := range b.pool.byPrice {
		if exact && b.named == 0 && b.pool.types[t].priceMin > best*s.opts.PriceCap {
			break
		}
		if !alive.has(int(t)) {
			continue
		}
		price := b.price(t)
		if b.pool.prices[t] = price; price < best {
			best = price
			exact = exact && b.best(t).CapacityType != label.Spot
		}
		types = append(types, t)
	}
	return types, b.pool.prices
}

// spotPools is in how many places, a type in a zone each, spot should be looked for: one of
// them runs short at any moment.
const spotPools = 15

// flexible returns how many of the types, cheapest first, a launch should name: all within
// the price cap, and as many more as spot and minValues want.
func (b *launchBin) flexible(types []int32, prices []float64, opts Options) int {
	ceiling := prices[types[0]] * opts.PriceCap
	places, spot := 0, b.best(types[0]).CapacityType == label.Spot
	n := 0
	for ; n < min(len(types), opts.TypesMax); n++ {
		if b.named > 0 && n < b.named {
			continue
		}
		if b.named > 0 && b.offersMinimum(types[:n]) {
			break
		}
		if prices[types[n]] > ceiling && (!spot || places >= spotPools) && b.offersMinimum(types[:n]) {
			break
		}
		tm := &b.pool.types[types[n]]
		for a := tm.first; spot && a < tm.end; a++ {
			if b.atoms.has(a) && b.pool.atoms[a].CapacityType == label.Spot {
				places++
			}
		}
	}
	return n
}

// best returns a type's offering of least cost.
func (b *launchBin) best(t int32) *catalog.Offering {
	tm := &b.pool.types[t]
	var best *catalog.Offering
	for a := tm.first; a < tm.end; a++ {
		if o := b.pool.atoms[a]; b.atoms.has(a) && (best == nil || o.Cost() < best.Cost()) {
			best = o
		}
	}
	return best
}

// shortOfValues returns the minValues rule that the types do not satisfy.
func (b *launchBin) shortOfValues(types []int32) verdict.Verdict {
	for i := range b.minimum {
		rule := &b.pool.minValues[i]
		if n := rule.offered(types); n < b.minimum[i] {
			return verdict.Of(verdict.MinValuesUnmet, "pool "+b.pool.pool.Name,
				"%s needs %d values, the %d cheapest types have %d", rule.key, b.minimum[i], len(types), n)
		}
	}
	return verdict.Verdict{}
}

// offersMinimum tells whether the types have the values that minValues asks for.
func (b *launchBin) offersMinimum(types []int32) bool {
	for i := range b.minimum {
		if b.pool.minValues[i].offered(types) < b.minimum[i] {
			return false
		}
	}
	return true
}

// requirements returns all that the machine must be: the pool's word, its pods', and the
// types and capacity types that are left.
func (b *launchBin) requirements(types, capacityTypes []string) label.Requirements {
	r := make(label.Requirements, len(b.pool.pool.Requirements)+len(b.terms)+2)
	maps.Copy(r, b.pool.pool.Requirements)
	meet := func(key string, q label.Requirement) {
		if had, ok := r[key]; ok {
			q = had.Intersect(q)
		}
		r[key] = q
	}
	for _, t := range b.terms {
		for key, q := range t {
			meet(key, q)
		}
	}
	for i := range b.minimum {
		key := b.pool.minValues[i].key
		r[key] = r[key].WithMinValues(b.minimum[i])
	}
	meet(label.InstanceType, label.In(types...))
	meet(label.CapacityType, label.In(capacityTypes...))
	delete(r, label.Hostname)
	return r
}

func (b *launchBin) capacityTypes(types []int32) []string {
	var cts []string
	for _, t := range types {
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
