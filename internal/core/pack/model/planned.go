package model

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// PlannedNode is a node to be launched. What it will be is open: any of its types, at any of its
// offerings. Each pod that is put on it may leave fewer.
type PlannedNode struct {
	Pool          *Pool
	PoolIndex     int // the pool's index in the model
	Used          quantity.Vector
	room          quantity.Vector // no type has more for pods; wrong if RoomUnknown
	Offerings     Bitset
	Types         []int32
	Open          label.Requirements // what is asked of labels that no offering decides
	Ports         []cluster.HostPort
	Requirements  []label.Requirements // what its pods ask for, and the domains that were decided
	Domains       topology.Place
	DaemonSetPods CountedDaemons
	IsCounted     bool            // it is in the topology counts
	Minimum       []int           // by minValues rule, how many values its types must have
	LimitsHeld    quantity.Vector // what it takes of the pool's limits; nil: nothing yet
	relaxed       bool            // Minimum was lowered
	IsEmpty       bool
	RoomUnknown   bool
	PriceMax      float64 // the price that more pods must not exceed; 0: any
	TypesMin      int     // how many types it names, minValues aside; 0: those within the price cap
	Scratch       Bitset
	Refusal       verdict.Verdict // why it is not launched after all; yes: it is
}

// IsFull reports whether none of the types has room for a pod of the class. It may miss that.
func (b *PlannedNode) IsFull(c *PodClass) bool {
	if b.RoomUnknown {
		b.measure()
	}
	return quantity.Times(b.room, b.Used, c.Need, 1) == 0
}

// Add places up to most pods of the class and returns how many.
func (b *PlannedNode) Add(c *PodClass, st *Stage, most int) int {
	in := &st.Admitted[b.PoolIndex]
	if most == 0 || b.IsFull(c) || !in.Refusal.IsYes() || st.AvoidPreferNoSchedule && fit.Undesired(c.Constraints.Tolerations, b.Pool.NodePool.Taints) {
		return 0
	}
	if len(c.Constraints.Ports) > 0 {
		if !PortsFree(b.Pool.meter, c.Constraints.Ports, b.Ports) {
			return 0
		}
		most = 1
	}
	for i := range in.Terms {
		if n := b.addUnder(c, &in.Terms[i], most); n > 0 {
			return n
		}
	}
	return 0
}

// addUnder is Add under one term of the class.
func (b *PlannedNode) addUnder(c *PodClass, t *AdmittedTerm, most int) int {
	if !b.Scratch.Intersection(b.Offerings, t.Offerings) {
		return 0
	}
	return b.AddWithin(c, t, most)
}

// AddWithin is Add under one term of the class, for the offerings in Scratch.
func (b *PlannedNode) AddWithin(c *PodClass, t *AdmittedTerm, most int) int {
	b.Pool.meter.Spend(1 + (len(b.Types)+len(b.Offerings))/typesUnit)
	if _, conflict := b.Open.Conflict(t.Open); conflict {
		return 0
	}
	n := int64(0)
	for _, ty := range b.Types {
		if b.hosts(ty, c) && b.affords(ty, b.Scratch) {
			n = max(n, quantity.Times(b.Pool.Types[ty].Free, b.Used, c.Need, int64(most)))
		}
	}
	if len(b.Minimum) > 0 {
		n = b.WithMinValues(c, t, n)
	}
	if n > 0 {
		b.commit(c, t, n)
	}
	return int(n)
}

// typesUnit is how many instance types are compared with a class for a unit of effort.
const typesUnit = 4

// hosts reports whether a type has an offering in Scratch, and its DaemonSet pods leave the host
// ports of the class free.
func (b *PlannedNode) hosts(ty int32, c *PodClass) bool {
	tm := &b.Pool.Types[ty]
	return b.Scratch.AnyIn(tm.First, tm.End) && (len(c.Constraints.Ports) == 0 || PortsFree(b.Pool.meter, c.Constraints.Ports, tm.Ports))
}

// affords reports whether a type has one of these offerings at PriceMax or less.
func (b *PlannedNode) affords(ty int32, offerings Bitset) bool {
	if b.PriceMax == 0 {
		return true
	}
	tm := &b.Pool.Types[ty]
	if tm.priceMin > b.PriceMax {
		return false
	}
	for a := tm.First; a < tm.End; a++ {
		if offerings.Has(a) && b.Pool.Offerings[a].Cost() <= b.PriceMax {
			return true
		}
	}
	return false
}

// KeepPrice keeps pods that come later from making the node dearer.
func (b *PlannedNode) KeepPrice() {
	b.PriceMax, b.RoomUnknown = b.Price(b.Cheapest()), true
}

// FreePrice ends what KeepPrice began.
func (b *PlannedNode) FreePrice() {
	b.PriceMax, b.RoomUnknown = 0, true
}

// measure works out room: of each resource the most that any of the types has for pods.
func (b *PlannedNode) measure() {
	b.RoomUnknown = false
	clear(b.room)
	for _, t := range b.Types {
		if b.affords(t, b.Offerings) {
			Raise(b.room, b.Pool.Types[t].Free)
		}
	}
}

// survivors returns the types that would hold n more pods of the class.
func (b *PlannedNode) survivors(c *PodClass, n int64) []int32 {
	var types []int32
	for _, ty := range b.Types {
		if b.survives(ty, c, n) {
			types = append(types, ty)
		}
	}
	return types
}

// survives reports whether a type would hold n more pods of the class.
func (b *PlannedNode) survives(ty int32, c *PodClass, n int64) bool {
	return b.hosts(ty, c) && quantity.Times(b.Pool.Types[ty].Free, b.Used, c.Need, n) >= n
}

// WithMinValues returns the largest number of pods, up to n, with which the types that are left
// under a term of the class still satisfy minValues. Fewer pods leave more types, so this is a
// binary search.
func (b *PlannedNode) WithMinValues(c *PodClass, t *AdmittedTerm, n int64) int64 {
	enough := func(n int64) bool { return b.meets(b.survivors(c, n), t.term) }
	if b.IsEmpty && b.Pool.relax && n > 0 && !enough(1) {
		types := b.survivors(c, 1)
		for i := range b.Minimum {
			b.Minimum[i] = min(b.Minimum[i], b.values(i, types, t.term))
		}
		b.relaxed = true
	}
	low, high := int64(0), n
	for low < high {
		mid := (low + high + 1) / 2
		if enough(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// commit puts n pods of the class on the node, under the term that Scratch was made with.
func (b *PlannedNode) commit(c *PodClass, t *AdmittedTerm, n int64) {
	b.Types = slices.DeleteFunc(b.Types, func(ty int32) bool { return !b.survives(ty, c, n) })
	b.Offerings, b.Scratch = b.Scratch, b.Offerings
	b.RoomUnknown = true
	b.Used.AddN(c.Need, n)
	b.Ports = append(b.Ports, c.Constraints.Ports...)
	b.Require(t)
	b.IsEmpty = false
	if b.LimitsHeld != nil {
		b.HoldLimits(b.largest())
	}
}

// Require adds a term to the requirements of the node.
func (b *PlannedNode) Require(t *AdmittedTerm) {
	if len(t.Open) > 0 {
		b.Open = b.Open.Intersect(t.Open)
	}
	if !slices.ContainsFunc(b.Requirements, func(r label.Requirements) bool { return SameRequirements(r, t.term) }) {
		b.Requirements = append(b.Requirements, t.term)
	}
}

// SameRequirements reports whether two sets of requirements are equal.
func SameRequirements(a, b label.Requirements) bool {
	return len(a) == len(b) && (len(a) == 0 || a.Equal(b))
}

// nodeMemory is memory for planned nodes of a pool.
type nodeMemory struct {
	bins    Slab[PlannedNode]
	amounts Slab[int64]
	words   Slab[uint64]
	types   Slab[int32]
	terms   Slab[label.Requirements]
}

// NewNode returns an empty planned node of the pool, or nil if its limits allow no more. at is
// the index of the pool in the model.
func (p *Pool) NewNode(at int) *PlannedNode {
	if p.NodesLeft <= 0 {
		return nil
	}
	b := &p.memory.bins.Take(1)[0]
	*b = PlannedNode{
		Pool: p, PoolIndex: at, Used: p.memory.amounts.Take(len(p.Space)), room: p.memory.amounts.Take(len(p.Space)),
		Offerings: p.memory.words.Take(len(p.Launchable)), Scratch: p.memory.words.Take(len(p.Launchable)), Open: p.openRules(), IsEmpty: true,
		Requirements: p.memory.terms.Take(1)[:0],
	}
	copy(b.Offerings, p.Launchable)
	for i := range p.MinValues {
		b.Minimum = append(b.Minimum, p.MinValues[i].Need)
	}
	if !p.IsLimited() {
		b.Types = p.memory.types.Take(len(p.all))
		copy(b.Types, p.all)
		copy(b.room, p.LargestFree)
		return b
	}
	for t := range p.Types {
		if p.Types[t].Amounts.Fits(p.Left) {
			b.Types = append(b.Types, int32(t))
		}
	}
	b.RoomUnknown = true
	return b
}

// openRules returns the pool's own requirements on labels that offerings do not decide.
func (p *Pool) openRules() label.Requirements {
	if p.ownOpen != nil {
		return p.ownOpen
	}
	open := label.Requirements{}
	for key, q := range p.NodePool.Requirements {
		k, indexed := p.Label(key)
		if _, settled := q.Only(); !settled && !indexed || indexed && k.several {
			open[key] = q
		}
	}
	p.ownOpen = open
	return open
}

// Cheapest returns the type of the cheapest offering that is left; of equals the first.
func (b *PlannedNode) Cheapest() int32 {
	best, price := b.Types[0], math.Inf(1)
	for _, t := range b.Types {
		if b.Pool.Types[t].priceMin >= price {
			continue
		}
		if p := b.Price(t); p < price {
			best, price = t, p
		}
	}
	return best
}

// Price returns the cost of the cheapest offering that a type of the node has left.
func (b *PlannedNode) Price(t int32) float64 {
	tm := &b.Pool.Types[t]
	price := math.Inf(1)
	for a := tm.First; a < tm.End; a++ {
		if b.Offerings.Has(a) {
			price = min(price, b.Pool.Offerings[a].Cost())
		}
	}
	return price
}

// CountedDaemons are the DaemonSet pods of a planned node that are counted by topology. Instance
// types may differ in them. Then they are undetermined until a pod comes for which they matter.
type CountedDaemons struct {
	Determined bool
	Daemons    []int // indexes into place.Topology.DaemonSets
}

// UsableOfferings returns the offerings of the types that are left.
func (b *PlannedNode) UsableOfferings() Bitset {
	return b.UsableOfferingsIn(NewBitset(len(b.Pool.Offerings)))
}

// UsableOfferingsIn is UsableOfferings that writes to a set, which it returns.
func (b *PlannedNode) UsableOfferingsIn(alive Bitset) Bitset {
	clear(alive)
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if b.Offerings.Has(a) {
				alive.Set(a)
			}
		}
	}
	return alive
}

// EnoughWith reports whether minValues is satisfied with these offerings alone, which are those
// of a requirement; nil: all.
func (b *PlannedNode) EnoughWith(offerings Bitset, want label.Requirements) bool {
	if len(b.Minimum) == 0 {
		return true
	}
	var left []int32
	for _, t := range b.Types {
		if offerings == nil || b.Scratch.Intersection(b.Offerings, offerings) && b.Scratch.AnyIn(b.Pool.Types[t].First, b.Pool.Types[t].End) {
			left = append(left, t)
		}
	}
	return b.meets(left, want)
}

// AnyTypeOf reports whether the node may become the type of the offering.
func (b *PlannedNode) AnyTypeOf(offering int) bool {
	_, is := slices.BinarySearch(b.Types, b.Pool.TypeOf[offering])
	return is
}

// IsUndetermined reports whether the node's domain is open for any of the topology keys.
func (b *PlannedNode) IsUndetermined(keys []int) bool {
	return slices.ContainsFunc(keys, func(k int) bool { return b.Domains.Domain[k] == topology.Open })
}

// AddOn is Add under a term that leaves the node the offering.
func (b *PlannedNode) AddOn(c *PodClass, st *Stage, most, offering int) int {
	in := &st.Admitted[b.PoolIndex]
	for i := range in.Terms {
		t := &in.Terms[i]
		if t.Offerings.Has(offering) {
			if len(c.Constraints.Ports) > 0 {
				return b.Add(c, st, most)
			}
			return b.addUnder(c, t, most)
		}
	}
	return 0
}

// FixDomains limits the node to the zone and capacity type of its cheapest offering, where its
// NodeClaim would else allow a part of a type that does not hold its pods: a NodeClaim can say
// types, zones and capacity types, but not which of them go together.
func (b *PlannedNode) FixDomains() {
	if !b.Pool.parted || !b.lost() {
		return
	}
	b.PinCheapest()
}

// PinCheapest limits the node to the zone and capacity type of its cheapest offering.
func (b *PlannedNode) PinCheapest() { b.pin(b.best(b.Cheapest())) }

// pin limits the node to the zone and capacity type of an offering.
func (b *PlannedNode) pin(best *catalog.Offering) {
	pins := label.Requirements{label.CapacityType: label.In(best.CapacityType)}
	if best.Zone != "" {
		pins[label.Zone] = label.In(best.Zone)
	}
	b.Requirements = append(b.Requirements, pins)
	b.KeepOfferings(func(a int) bool {
		return b.Pool.Offerings[a].Zone == best.Zone && b.Pool.Offerings[a].CapacityType == best.CapacityType
	})
}

// lost reports whether a part of a type is not among the node's types any more, though another
// part of the type is and the offerings that are left would allow it. Parts of a type follow
// each other.
func (b *PlannedNode) lost() bool {
	types := b.Pool.Types
	for at := 0; at < len(b.Types); {
		of, o := types[b.Types[at]].Type, int(b.Types[at])
		for o > 0 && types[o-1].Type == of {
			o--
		}
		for ; o < len(types) && types[o].Type == of; o++ {
			switch {
			case at < len(b.Types) && b.Types[at] == int32(o):
				at++
			case b.Offerings.AnyIn(types[o].First, types[o].End):
				return true
			}
		}
	}
	return false
}

// KeepOfferings drops the offerings for which keep is false, and the types that have none left.
func (b *PlannedNode) KeepOfferings(keep func(a int) bool) {
	for a := range b.Pool.Offerings {
		if b.Offerings.Has(a) && !keep(a) {
			b.Offerings.Clear(a)
		}
	}
	b.Keep(b.Offerings)
}

// Keep drops the offerings that are not among these, and the types that have none left.
func (b *PlannedNode) Keep(offerings Bitset) {
	b.Offerings.And(offerings)
	b.Types = slices.DeleteFunc(b.Types, func(t int32) bool {
		return !b.Offerings.AnyIn(b.Pool.Types[t].First, b.Pool.Types[t].End)
	})
	b.RoomUnknown = true
	if b.LimitsHeld != nil {
		b.HoldLimits(b.largest())
	}
}

// best returns the cheapest offering that a type of the node has left.
func (b *PlannedNode) best(t int32) *catalog.Offering {
	tm := &b.Pool.Types[t]
	var best *catalog.Offering
	for a := tm.First; a < tm.End; a++ {
		if o := b.Pool.Offerings[a]; b.Offerings.Has(a) && (best == nil || o.Cost() < best.Cost()) {
			best = o
		}
	}
	return best
}

// MeetsMinValues reports whether the types satisfy minValues.
func (b *PlannedNode) MeetsMinValues(types []int32) bool { return b.meets(types, nil) }

// meets reports whether the types satisfy minValues under one more requirement.
func (b *PlannedNode) meets(types []int32, want label.Requirements) bool {
	for i := range b.Minimum {
		if b.values(i, types, want) < b.Minimum[i] {
			return false
		}
	}
	return true
}

// values returns how many values of a minValues rule the types have under what is required of the
// node, and one more requirement.
func (b *PlannedNode) values(rule int, types []int32, want label.Requirements) int {
	r := &b.Pool.MinValues[rule]
	return r.offered(types, append(slices.Clip(b.Requirements), want)...)
}

// ShortOfValues returns which minValues rule the types do not satisfy; yes: they satisfy all.
func (b *PlannedNode) ShortOfValues(types []int32) verdict.Verdict {
	for i := range b.Minimum {
		rule := &b.Pool.MinValues[i]
		if n := b.values(i, types, nil); n < b.Minimum[i] {
			return verdict.Of(verdict.MinValuesUnmet, "pool "+b.Pool.NodePool.Name,
				"%s needs %d values, the %d cheapest types have %d", rule.Key, b.Minimum[i], len(types), n)
		}
	}
	return verdict.Verdict{}
}

// largest returns, for each limit, the most that one of the node's types counts against it.
func (b *PlannedNode) largest() quantity.Vector {
	v := make(quantity.Vector, len(b.Pool.Space))
	for _, t := range b.Types {
		Raise(v, b.Pool.Types[t].Amounts)
	}
	return v
}

// HoldLimits takes v from the pool's limits for the node, in place of what it took before.
func (b *PlannedNode) HoldLimits(v quantity.Vector) {
	for i := range b.Pool.Left {
		if b.Pool.Left[i] == math.MaxInt64 {
			continue
		}
		if b.LimitsHeld != nil {
			b.Pool.Left[i] = quantity.Add(b.Pool.Left[i], b.LimitsHeld[i])
		}
		b.Pool.Left[i] = quantity.Sub(b.Pool.Left[i], v[i])
	}
	b.LimitsHeld = v
}
