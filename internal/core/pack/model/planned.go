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

// PlannedNode is a node to be launched, while it is still many: it may become any of its
// types that has an offering left.
type PlannedNode struct {
	Pool          *Pool
	PoolIndex     int // the pool's index in the model
	Used          quantity.Vector
	room          quantity.Vector // no type that may still grow has more; wrong while stale
	Offerings     Bitset
	Types         []int32
	Open          label.Requirements
	Ports         []cluster.HostPort
	Requirements  []label.Requirements // what its pods ask for, and the domains it was settled on
	Domains       topology.Place
	DaemonSetPods CountedDaemons
	IsCounted     bool            // the ledger knows that a node is there
	Minimum       []int           // by minValues rule, what must be offered; lowered when relaxed
	LimitsHeld    quantity.Vector // of the pool's limits
	relaxed       bool
	IsEmpty       bool
	RoomUnknown   bool
	PriceMax      float64 // the price that further pods must leave it at; 0: any
	TypesMin      int     // how many types it names, minValues aside; 0: those within the price cap
	Scratch       Bitset
	Refusal       verdict.Verdict
}

// IsFull reports whether no type that is left can have room for a pod of the class.
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

// addUnder is add with one term of the class.
func (b *PlannedNode) addUnder(c *PodClass, t *AdmittedTerm, most int) int {
	if !b.Scratch.Intersection(b.Offerings, t.Offerings) {
		return 0
	}
	return b.AddWithin(c, t, most)
}

// AddWithin is addUnder for the offerings that are in scratch.
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
		n = b.WithMinValues(c, n)
	}
	if n > 0 {
		b.commit(c, t, n)
	}
	return int(n)
}

// typesUnit is how many instance types are held against a class for a unit of effort.
const typesUnit = 4

// hosts reports whether a type still has an offering in scratch, and its daemons leave the class's ports free.
func (b *PlannedNode) hosts(ty int32, c *PodClass) bool {
	tm := &b.Pool.Types[ty]
	return b.Scratch.AnyIn(tm.First, tm.End) && (len(c.Constraints.Ports) == 0 || PortsFree(b.Pool.meter, c.Constraints.Ports, tm.Ports))
}

// affords reports whether a type can be had with these offerings at the price the bin is sealed at.
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

// KeepPrice keeps pods that come later from making the launch dearer.
func (b *PlannedNode) KeepPrice() {
	b.PriceMax, b.RoomUnknown = b.Price(b.Cheapest()), true
}

// FreePrice lets it grow again.
func (b *PlannedNode) FreePrice() {
	b.PriceMax, b.RoomUnknown = 0, true
}

// measure notes the most that any of the types has for pods, in each dimension.
func (b *PlannedNode) measure() {
	b.RoomUnknown = false
	clear(b.room)
	for _, t := range b.Types {
		if b.affords(t, b.Offerings) {
			Raise(b.room, b.Pool.Types[t].Free)
		}
	}
}

// survivors returns the types that would be left with n more pods of the class.
func (b *PlannedNode) survivors(c *PodClass, n int64) []int32 {
	var types []int32
	for _, ty := range b.Types {
		if b.survives(ty, c, n) {
			types = append(types, ty)
		}
	}
	return types
}

// survives reports whether a type would be left with n more pods of the class.
func (b *PlannedNode) survives(ty int32, c *PodClass, n int64) bool {
	return b.hosts(ty, c) && quantity.Times(b.Pool.Types[ty].Free, b.Used, c.Need, n) >= n
}

// WithMinValues returns the largest count up to n with which the types left still offer
// enough values. Fewer pods leave more types, so the search halves.
func (b *PlannedNode) WithMinValues(c *PodClass, n int64) int64 {
	enough := func(n int64) bool {
		types := b.survivors(c, n)
		for i := range b.Pool.MinValues {
			if b.Pool.MinValues[i].offered(types) < b.Minimum[i] {
				return false
			}
		}
		return true
	}
	if b.IsEmpty && b.Pool.relax && n > 0 && !enough(1) {
		types := b.survivors(c, 1)
		for i := range b.Minimum {
			b.Minimum[i] = min(b.Minimum[i], b.Pool.MinValues[i].offered(types))
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

// commit puts n pods of the class into the bin under the term that scratch was made with.
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

// Require adds a term to what the bin must be.
func (b *PlannedNode) Require(t *AdmittedTerm) {
	if len(t.Open) > 0 {
		b.Open = b.Open.Intersect(t.Open)
	}
	if !slices.ContainsFunc(b.Requirements, func(r label.Requirements) bool { return SameRequirements(r, t.term) }) {
		b.Requirements = append(b.Requirements, t.term)
	}
}

// SameRequirements reports whether two requirements are one and the same value.
func SameRequirements(a, b label.Requirements) bool {
	return len(a) == len(b) && (len(a) == 0 || a.Equal(b))
}

// nodeMemory is memory for launches of a pool.
type nodeMemory struct {
	bins    Slab[PlannedNode]
	amounts Slab[int64]
	words   Slab[uint64]
	types   Slab[int32]
	terms   Slab[label.Requirements]
}

// NewNode returns an empty bin of the pool, or none if its limits allow no more.
func (p *Pool) NewNode(at int) *PlannedNode {
	if p.NodesLeft <= 0 {
		return nil
	}
	b := &p.memory.bins.Take(1)[0]
	*b = PlannedNode{
		Pool: p, PoolIndex: at, Used: p.memory.amounts.Take(len(p.Space)), room: p.memory.amounts.Take(len(p.Space)),
		Offerings: p.memory.words.Take(len(p.Buyable)), Scratch: p.memory.words.Take(len(p.Buyable)), Open: p.openRules(), IsEmpty: true,
		Requirements: p.memory.terms.Take(1)[:0],
	}
	copy(b.Offerings, p.Buyable)
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

// openRules returns the pool's own requirements on keys that offerings do not settle.
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

// Cheapest returns the type of the cheapest offering left; of equals the first.
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

// Price returns the least cost at which a type of the bin can be had.
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

// CountedDaemons are the DaemonSet pods of a planned node that rules between pods count. Types may differ in them: then
// it is open until a pod for which it matters comes.
type CountedDaemons struct {
	Determined bool
	Daemons    []int // indexes into solver.visible
}

// UsableOfferings returns the offerings of the types that are left.
func (b *PlannedNode) UsableOfferings() Bitset {
	return b.UsableOfferingsIn(NewBitset(len(b.Pool.Offerings)))
}

// UsableOfferingsIn is alive that writes to a set.
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

// EnoughWith reports whether minValues still holds with these offerings alone; nil: all.
func (b *PlannedNode) EnoughWith(offerings Bitset) bool {
	if offerings == nil || len(b.Minimum) == 0 {
		return true
	}
	var left []int32
	for _, t := range b.Types {
		if b.Scratch.Intersection(b.Offerings, offerings) && b.Scratch.AnyIn(b.Pool.Types[t].First, b.Pool.Types[t].End) {
			left = append(left, t)
		}
	}
	for i := range b.Minimum {
		if b.Pool.MinValues[i].offered(left) < b.Minimum[i] {
			return false
		}
	}
	return true
}

// AnyTypeOf reports whether the bin may become the type of the offering.
func (b *PlannedNode) AnyTypeOf(offering int) bool {
	_, is := slices.BinarySearch(b.Types, b.Pool.TypeOf[offering])
	return is
}

// IsUndetermined reports whether the bin's domain is open under any of the keys.
func (b *PlannedNode) IsUndetermined(keys []int) bool {
	return slices.ContainsFunc(keys, func(k int) bool { return b.Domains.Domain[k] == topology.Open })
}

// AddOn is add by a term that leaves the bin the offering.
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

// FixDomains settles a launch on one zone and capacity type, its cheapest, where what it names
// would also allow a part of a type that does not hold its pods: a claim can say types,
// zones and capacity types, but not which of them go together.
func (b *PlannedNode) FixDomains() {
	if !b.Pool.parted || !b.lost() {
		return
	}
	best := b.best(b.Cheapest())
	pins := label.Requirements{label.CapacityType: label.In(best.CapacityType)}
	if best.Zone != "" {
		pins[label.Zone] = label.In(best.Zone)
	}
	b.Requirements = append(b.Requirements, pins)
	b.KeepOfferings(func(a int) bool {
		return b.Pool.Offerings[a].Zone == best.Zone && b.Pool.Offerings[a].CapacityType == best.CapacityType
	})
}

// lost reports whether a part of a type that the bin names is none of its own any more,
// though the offerings that are left would allow it. Parts of a type follow each other.
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

// KeepOfferings drops the offerings that keep says no to, and the types that then have none.
func (b *PlannedNode) KeepOfferings(keep func(a int) bool) {
	for a := range b.Pool.Offerings {
		if b.Offerings.Has(a) && !keep(a) {
			b.Offerings.Clear(a)
		}
	}
	b.Keep(b.Offerings)
}

// Keep drops the offerings that are not among these, and the types that then have none.
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

// best returns a type's offering of least cost.
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

// MeetsMinValues reports whether the types have the values that minValues asks for.
func (b *PlannedNode) MeetsMinValues(types []int32) bool {
	for i := range b.Minimum {
		if b.Pool.MinValues[i].offered(types) < b.Minimum[i] {
			return false
		}
	}
	return true
}

// ShortOfValues returns the minValues rule that the types do not satisfy.
func (b *PlannedNode) ShortOfValues(types []int32) verdict.Verdict {
	for i := range b.Minimum {
		rule := &b.Pool.MinValues[i]
		if n := rule.offered(types); n < b.Minimum[i] {
			return verdict.Of(verdict.MinValuesUnmet, "pool "+b.Pool.NodePool.Name,
				"%s needs %d values, the %d cheapest types have %d", rule.Key, b.Minimum[i], len(types), n)
		}
	}
	return verdict.Verdict{}
}

// largest returns the most that the bin's types can count against each limit.
func (b *PlannedNode) largest() quantity.Vector {
	v := make(quantity.Vector, len(b.Pool.Space))
	for _, t := range b.Types {
		Raise(v, b.Pool.Types[t].Amounts)
	}
	return v
}

// HoldLimits takes v from the pool's limits for the bin, in place of what it held.
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
