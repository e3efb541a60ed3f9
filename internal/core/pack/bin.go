package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// fixedBin is a machine of the snapshot.
type fixedBin struct {
	node       *cluster.Node
	index      int             // among the snapshot's
	free, used quantity.Vector // used is by pods of this plan
	ports      []cluster.HostPort
	// pool and atoms are of an open claim: the pods must be right on all that it may become.
	pool  int
	atoms bitset
	place topology.Place
	meter *effort.Meter
}

// portsUnit is how many pairs of host ports are compared for a unit of effort.
const portsUnit = 4

// portsFree reports whether a pod that wants these host ports may be beside those that took
// the others.
func portsFree(meter *effort.Meter, want, taken []cluster.HostPort) bool {
	meter.Spend(len(want) * len(taken) / portsUnit)
	return fit.Ports(want, taken).IsYes()
}

// add places up to most pods of the class and returns how many.
func (b *fixedBin) add(c *class, st *stage, most int) int {
	if most == 0 || c.shape.Invalid != "" {
		return 0
	}
	n := quantity.Times(b.free, b.used, c.need, int64(most))
	if n == 0 || !b.accepts(c, st) {
		return 0
	}
	if len(c.shape.Ports) > 0 {
		if !portsFree(b.meter, c.shape.Ports, b.ports) {
			return 0
		}
		n = 1
		b.ports = append(slices.Clip(b.ports), c.shape.Ports...)
	}
	b.used.AddN(c.need, n)
	return int(n)
}

// accepts tells whether labels and taints are right for the class.
func (b *fixedBin) accepts(c *class, st *stage) bool {
	if st.tidy && fit.Undesired(c.shape.Tolerations, b.node.Taints) || !fit.Tolerated(c.shape.Tolerations, b.node.Taints) {
		return false
	}
	if b.node.Open == nil {
		if _, granted := st.wish.Matches(b.node.Labels); !granted {
			return false
		}
		return fit.Matches(c.shape.Terms, b.node.Labels)
	}
	in := &st.in[b.pool]
	if !in.refusal.IsYes() {
		return false
	}
	for i := range in.terms {
		if b.atoms.within(in.terms[i].atoms) && assured(b.node.Open.Requirements, in.terms[i].open) {
			return true
		}
	}
	return false
}

// assured tells whether whatever satisfies have also satisfies want.
func assured(have, want label.Requirements) bool {
	for key, q := range want {
		h, ok := have[key]
		if !ok || !h.Within(q) {
			return false
		}
	}
	return true
}

// launchBin is a machine to be bought, while it is still many: it may become any of its
// types that has an atom left.
type launchBin struct {
	pool    *poolModel
	at      int // the pool's index in the model
	used    quantity.Vector
	room    quantity.Vector // no type that may still grow has more; wrong while stale
	atoms   bitset
	types   []int32
	open    label.Requirements
	ports   []cluster.HostPort
	terms   []label.Requirements // what its pods ask for, and the domains it was settled on
	place   topology.Place
	company company
	present bool            // the ledger knows that a machine is there
	minimum []int           // by minValues rule, what must be offered; lowered when relaxed
	holds   quantity.Vector // of the pool's limits
	relaxed bool
	fresh   bool
	stale   bool
	sealed  float64 // the price that further pods must leave it at; 0: any
	named   int     // how many types it names, minValues aside; 0: those within the price cap
	scratch bitset
	refusal verdict.Verdict
}

// full tells whether no type that is left can have room for a pod of the class.
func (b *launchBin) full(c *class) bool {
	if b.stale {
		b.measure()
	}
	return quantity.Times(b.room, b.used, c.need, 1) == 0
}

// add places up to most pods of the class and returns how many.
func (b *launchBin) add(c *class, st *stage, most int) int {
	in := &st.in[b.at]
	if most == 0 || b.full(c) || !in.refusal.IsYes() || st.tidy && fit.Undesired(c.shape.Tolerations, b.pool.pool.Taints) {
		return 0
	}
	if len(c.shape.Ports) > 0 {
		if !portsFree(b.pool.meter, c.shape.Ports, b.ports) {
			return 0
		}
		most = 1
	}
	for i := range in.terms {
		if n := b.addUnder(c, &in.terms[i], most); n > 0 {
			return n
		}
	}
	return 0
}

// addUnder is add with one term of the class.
func (b *launchBin) addUnder(c *class, t *termIn, most int) int {
	if !b.scratch.intersection(b.atoms, t.atoms) {
		return 0
	}
	return b.addWithin(c, t, most)
}

// addWithin is addUnder for the atoms that are in scratch.
func (b *launchBin) addWithin(c *class, t *termIn, most int) int {
	b.pool.meter.Spend(1 + (len(b.types)+len(b.atoms))/typesUnit)
	if _, conflict := b.open.Conflict(t.open); conflict {
		return 0
	}
	n := int64(0)
	for _, ty := range b.types {
		if b.hosts(ty, c) && b.affords(ty, b.scratch) {
			n = max(n, quantity.Times(b.pool.types[ty].free, b.used, c.need, int64(most)))
		}
	}
	if len(b.minimum) > 0 {
		n = b.withMinValues(c, n)
	}
	if n > 0 {
		b.commit(c, t, n)
	}
	return int(n)
}

// typesUnit is how many instance types are held against a class for a unit of effort.
const typesUnit = 4

// hosts tells whether a type still has an atom in scratch, and its daemons leave the class's ports free.
func (b *launchBin) hosts(ty int32, c *class) bool {
	tm := &b.pool.types[ty]
	return b.scratch.anyIn(tm.first, tm.end) && (len(c.shape.Ports) == 0 || portsFree(b.pool.meter, c.shape.Ports, tm.ports))
}

// affords tells whether a type can be had with these atoms at the price the bin is sealed at.
func (b *launchBin) affords(ty int32, atoms bitset) bool {
	if b.sealed == 0 {
		return true
	}
	tm := &b.pool.types[ty]
	if tm.priceMin > b.sealed {
		return false
	}
	for a := tm.first; a < tm.end; a++ {
		if atoms.has(a) && b.pool.atoms[a].Cost() <= b.sealed {
			return true
		}
	}
	return false
}

// seal keeps pods that come later from making the launch dearer.
func (b *launchBin) seal() {
	b.sealed, b.stale = b.price(b.cheapest()), true
}

// unseal lets it grow again.
func (b *launchBin) unseal() {
	b.sealed, b.stale = 0, true
}

// measure notes the most that any of the types has for pods, in each dimension.
func (b *launchBin) measure() {
	b.stale = false
	clear(b.room)
	for _, t := range b.types {
		if b.affords(t, b.atoms) {
			raise(b.room, b.pool.types[t].free)
		}
	}
}

// survivors returns the types that would be left with n more pods of the class.
func (b *launchBin) survivors(c *class, n int64) []int32 {
	var types []int32
	for _, ty := range b.types {
		if b.survives(ty, c, n) {
			types = append(types, ty)
		}
	}
	return types
}

// survives tells whether a type would be left with n more pods of the class.
func (b *launchBin) survives(ty int32, c *class, n int64) bool {
	return b.hosts(ty, c) && quantity.Times(b.pool.types[ty].free, b.used, c.need, n) >= n
}

// withMinValues returns the largest count up to n with which the types left still offer
// enough values. Fewer pods leave more types, so the search halves.
func (b *launchBin) withMinValues(c *class, n int64) int64 {
	enough := func(n int64) bool {
		types := b.survivors(c, n)
		for i := range b.pool.minValues {
			if b.pool.minValues[i].offered(types) < b.minimum[i] {
				return false
			}
		}
		return true
	}
	if b.fresh && b.pool.relax && n > 0 && !enough(1) {
		types := b.survivors(c, 1)
		for i := range b.minimum {
			b.minimum[i] = min(b.minimum[i], b.pool.minValues[i].offered(types))
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
func (b *launchBin) commit(c *class, t *termIn, n int64) {
	b.types = slices.DeleteFunc(b.types, func(ty int32) bool { return !b.survives(ty, c, n) })
	b.atoms, b.scratch = b.scratch, b.atoms
	b.stale = true
	b.used.AddN(c.need, n)
	b.ports = append(b.ports, c.shape.Ports...)
	b.ask(t)
	b.fresh = false
	if b.holds != nil {
		b.hold(b.largest())
	}
}

// ask adds a term to what the bin must be.
func (b *launchBin) ask(t *termIn) {
	if len(t.open) > 0 {
		b.open = b.open.Intersect(t.open)
	}
	if !slices.ContainsFunc(b.terms, func(r label.Requirements) bool { return sameMap(r, t.term) }) {
		b.terms = append(b.terms, t.term)
	}
}

// sameMap tells whether two requirements are one and the same value.
func sameMap(a, b label.Requirements) bool {
	return len(a) == len(b) && (len(a) == 0 || a.Equal(b))
}

// launchMemory is memory for launches of a pool.
type launchMemory struct {
	bins    slab[launchBin]
	amounts slab[int64]
	words   slab[uint64]
	types   slab[int32]
	terms   slab[label.Requirements]
}

// fresh returns an empty bin of the pool, or none if its limits allow no more.
func (p *poolModel) fresh(at int) *launchBin {
	if p.nodesLeft <= 0 {
		return nil
	}
	b := &p.memory.bins.take(1)[0]
	*b = launchBin{
		pool: p, at: at, used: p.memory.amounts.take(len(p.space)), room: p.memory.amounts.take(len(p.space)),
		atoms: p.memory.words.take(len(p.buyable)), scratch: p.memory.words.take(len(p.buyable)), open: p.openRules(), fresh: true,
		terms: p.memory.terms.take(1)[:0],
	}
	copy(b.atoms, p.buyable)
	for i := range p.minValues {
		b.minimum = append(b.minimum, p.minValues[i].need)
	}
	if !p.limited() {
		b.types = p.memory.types.take(len(p.every))
		copy(b.types, p.every)
		copy(b.room, p.roomMost)
		return b
	}
	for t := range p.types {
		if p.types[t].capacity.Fits(p.left) {
			b.types = append(b.types, int32(t))
		}
	}
	b.stale = true
	return b
}

// take takes from the pool's limits what a new bin may need of them.
func (p *poolModel) take(b *launchBin) {
	if !p.limited() {
		return
	}
	p.nodesLeft--
	b.hold(b.largest())
}

// openRules returns the pool's own requirements on keys that atoms do not settle.
func (p *poolModel) openRules() label.Requirements {
	if p.ownOpen != nil {
		return p.ownOpen
	}
	open := label.Requirements{}
	for key, q := range p.pool.Requirements {
		k, indexed := p.decided(key)
		if _, settled := q.Only(); !settled && !indexed || indexed && k.several {
			open[key] = q
		}
	}
	p.ownOpen = open
	return open
}

// largest returns the most that the bin's types can count against each limit.
func (b *launchBin) largest() quantity.Vector {
	v := make(quantity.Vector, len(b.pool.space))
	for _, t := range b.types {
		raise(v, b.pool.types[t].capacity)
	}
	return v
}

// hold takes v from the pool's limits for the bin, in place of what it held.
func (b *launchBin) hold(v quantity.Vector) {
	for i := range b.pool.left {
		if b.pool.left[i] == math.MaxInt64 {
			continue
		}
		if b.holds != nil {
			b.pool.left[i] = quantity.Add(b.pool.left[i], b.holds[i])
		}
		b.pool.left[i] = quantity.Sub(b.pool.left[i], v[i])
	}
	b.holds = v
}

// settle makes the pool's launches content with types no larger than the cheapest one
// that holds their pods, and gives back to the limits what they held for more. It tells
// whether anything was given back.
func (p *poolModel) settle(launches []*launchBin) bool {
	if !p.limited() {
		return false
	}
	gained := false
	for _, b := range launches[min(p.settled, len(launches)):] {
		if b.pool != p {
			continue
		}
		cheapest := &p.types[b.cheapest()]
		kept := make([]int32, 0, len(b.types))
		for _, t := range b.types {
			if p.withinLimits(p.types[t].capacity, cheapest.capacity) {
				kept = append(kept, t)
			}
		}
		if len(kept) == len(b.types) || !b.offersMinimum(kept) {
			continue
		}
		before := b.holds
		b.types, b.stale = kept, true
		after := b.largest()
		b.hold(after)
		gained = gained || !before.Fits(after)
	}
	p.settled = len(launches)
	return gained
}

// withinLimits tells whether v is no more than o of anything that the pool limits.
func (p *poolModel) withinLimits(v, o quantity.Vector) bool {
	for i := range v {
		if p.left[i] != math.MaxInt64 && v[i] > o[i] {
			return false
		}
	}
	return true
}

// cheapest returns the type of the cheapest atom left; of equals the first.
func (b *launchBin) cheapest() int32 {
	best, price := b.types[0], math.Inf(1)
	for _, t := range b.types {
		if b.pool.types[t].priceMin >= price {
			continue
		}
		if p := b.price(t); p < price {
			best, price = t, p
		}
	}
	return best
}

// price returns the least cost at which a type of the bin can be had.
func (b *launchBin) price(t int32) float64 {
	tm := &b.pool.types[t]
	price := math.Inf(1)
	for a := tm.first; a < tm.end; a++ {
		if b.atoms.has(a) {
			price = min(price, b.pool.atoms[a].Cost())
		}
	}
	return price
}
