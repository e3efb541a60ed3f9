package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// poolModel is one pool: its atoms, which are the offerings of its types, and what is
// left of its limits.
type poolModel struct {
	pool      *cluster.Pool
	meter     *effort.Meter
	wellKnown map[string]bool
	space     quantity.Space
	relax     bool // minValues is best effort

	types []typeModel
	atoms []*catalog.Offering
	// typeOf is the type of each atom.
	typeOf []int32
	// allowed are the atoms within the pool's requirements; buyable those of them that
	// can be had now.
	allowed, buyable bitset
	keys             map[string]*keyModel // those asked for; nil: nothing decides it
	minValues        []minValuesRule
	memory           launchMemory
	sale             *market            // see market; made when asked for
	ownOpen          label.Requirements // see openRules; made when asked for
	// every is all types, and roomMost the most that any has for pods.
	every    []int32
	roomMost quantity.Vector
	some     bitset    // of types, see setOf
	prices   []float64 // by type, of the launch that is being written down
	// byName and byPrice are the types in the order of their names, and of their prices.
	byName, byPrice []int32
	daemonsAlike    bool // every type within the requirements has the same daemons
	parted          bool // some types are several parts, see part.go

	// left is what the limits still allow; MaxInt64 where there is none.
	left      quantity.Vector
	nodesLeft int64
	settled   int  // launches below this index hold no more of the limits than they need
	ample     bool // the limits are out of reach of one solve
}

// typeModel is one instance type of a pool, or a part of one.
type typeModel struct {
	*catalog.Type
	first, end     int             // its atoms
	free, capacity quantity.Vector // free is allocatable less the daemons' share
	daemons        quantity.List
	ports          []cluster.HostPort // the daemons'
	priceMin       float64            // of what is buyable
}

// keyModel tells which atoms carry which value of one label key. Those in absent surely
// have none; those in without leave it open.
type keyModel struct {
	width   int // how many atoms there are
	values  []string
	at      map[string]int // value → index into values
	with    []bitset
	absent  bitset
	without bitset
	// several: some atom leaves the choice among values open.
	several bool
	pins    []label.Requirements // by value: that it be this one; made when asked for
	levels  []float64            // by value: how dear machines with it are; made when asked for
}

// minValuesRule is a minValues of the pool: types between them must offer need values.
type minValuesRule struct {
	key    string
	need   int
	values int
	has    []bitset // by type: which values
}

func newPoolModel(space quantity.Space, snap *cluster.Snapshot, pool *cluster.Pool, opts Options, meter *effort.Meter) *poolModel {
	p := &poolModel{pool: pool, meter: meter, wellKnown: snap.WellKnown, space: space, relax: opts.MinValuesBestEffort}
	p.lay(p.within(snap))
	if parts := p.apart(snap.Daemons); parts != nil {
		p.lay(parts)
		p.parted = true
	}
	p.buyable = p.allowed.clone()
	for t := range p.types {
		tm := &p.types[t]
		tm.priceMin = math.Inf(1)
		for a := tm.first; a < tm.end; a++ {
			if !p.atoms[a].Available {
				p.buyable[a>>6] &^= 1 << (a & 63)
			} else if p.buyable.has(a) {
				tm.priceMin = min(tm.priceMin, p.atoms[a].Cost())
			}
		}
	}
	p.reserveForDaemons(snap.Daemons)
	p.indexMinValues()
	p.countLimits(snap)
	p.order()
	p.roomMost = make(quantity.Vector, len(space))
	for t := range p.types {
		p.every = append(p.every, int32(t))
		raise(p.roomMost, p.types[t].free)
	}
	return p
}

// order sorts the types by name and by price, so that no launch need do it.
func (p *poolModel) order() {
	for t := range p.types {
		p.byName = append(p.byName, int32(t))
	}
	slices.SortStableFunc(p.byName, func(x, y int32) int { return cmp.Compare(p.types[x].Name, p.types[y].Name) })
	p.byPrice = slices.Clone(p.byName)
	slices.SortStableFunc(p.byPrice, func(x, y int32) int { return cmp.Compare(p.types[x].priceMin, p.types[y].priceMin) })
}

// among returns those of the ordered types that are in the list.
func (p *poolModel) among(ordered, types []int32) []int32 {
	in := p.setOf(types)
	out := make([]int32, 0, len(types))
	for _, t := range ordered {
		if in.has(int(t)) {
			out = append(out, t)
		}
	}
	return out
}

// setOf returns the types as a set, until it is asked again.
func (p *poolModel) setOf(types []int32) bitset {
	if p.some == nil {
		p.some = newBitset(len(p.types))
	}
	clear(p.some)
	for _, t := range types {
		p.some.set(int(t))
	}
	return p.some
}

// decided returns the model of a key that some type or offering decides. It is made when
// it is first asked for: of all that types say of themselves little matters at a time.
func (p *poolModel) decided(key string) (*keyModel, bool) {
	k, asked := p.keys[key]
	if !asked {
		k = p.index(key)
		p.keys[key] = k
	}
	return k, k != nil
}

// index notes which atoms carry which value of a key; nil: none decides it.
func (p *poolModel) index(key string) *keyModel {
	k := &keyModel{absent: newBitset(len(p.atoms)), at: map[string]int{}, width: len(p.atoms)}
	some := false
	for t := range p.types {
		tm := &p.types[t]
		q, typed := tm.Requirements[key]
		typed = typed && (q.Operator() == label.OpIn || q.Operator() == label.OpDoesNotExist)
		some = some || typed
		if !slices.ContainsFunc(p.atoms[tm.first:tm.end], func(o *catalog.Offering) bool { return o.Decides(key) }) {
			if typed {
				k.note(tm.first, tm.end, q)
			}
			continue
		}
		some = true
		for a := tm.first; a < tm.end; a++ {
			if v, own := p.atoms[a].Value(key); own {
				k.carriers(v).set(a)
			} else if typed {
				k.note(a, a+1, q)
			}
		}
	}
	if !some {
		return nil
	}
	k.without = fullBitset(len(p.atoms))
	k.without.remove(k.absent)
	for _, w := range k.with {
		k.without.remove(w)
	}
	return k
}

// note records that the atoms from a to before end carry what their type's word on the
// key allows, or that they have no such label.
func (k *keyModel) note(a, end int, q label.Requirement) {
	if q.Operator() == label.OpDoesNotExist {
		k.absent.setRange(a, end)
		return
	}
	values := q.Values()
	k.several = k.several || len(values) > 1
	for _, v := range values {
		k.carriers(v).setRange(a, end)
	}
}

// carriers returns the atoms noted so far that have a value.
func (k *keyModel) carriers(value string) bitset {
	for i, v := range k.values[:min(len(k.values), 4)] { // mostly there are few
		if v == value {
			return k.with[i]
		}
	}
	i, ok := k.at[value]
	if !ok {
		i = len(k.values)
		k.at[value] = i
		k.values = append(k.values, value)
		k.with = append(k.with, newBitset(k.width))
	}
	return k.with[i]
}

// match returns the atoms that do not conflict with the requirements, and those of the
// requirements that no atom settles. The refusal names the first key, in order, that
// leaves nothing. own: these are the pool's requirements themselves.
func (p *poolModel) match(want label.Requirements, own bool) (atoms bitset, open label.Requirements, refusal verdict.Verdict) {
	switch {
	case own:
		atoms = fullBitset(len(p.atoms))
	case len(want) == 0:
		return p.allowed, nil, verdict.Verdict{}
	default:
		atoms = p.allowed.clone()
	}
	var mask bitset
	for _, key := range want.Keys() {
		q := want[key]
		ours, ruled := p.pool.Requirements[key]
		k, indexed := p.decided(key)
		switch {
		case !own && !ruled && key == label.Hostname && !q.AllowsAbsence():
			return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, which no new machine is", key, q)
		case !own && !ruled && !p.wellKnown[key] && !q.AllowsAbsence():
			return nil, nil, verdict.Of(verdict.RequirementUndefined, "", "%s is not defined", key)
		case !own && ruled && !ours.Overlaps(q):
			return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, is %s", key, q, ours)
		case key == label.Hostname:
			continue
		}
		if indexed {
			p.meter.Spend(1 + len(k.values) + len(atoms))
			if mask == nil {
				mask = newBitset(len(p.atoms))
			}
			k.allow(q, mask)
			atoms.and(mask)
			if atoms.empty() && !own {
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
	return atoms, open, verdict.Verdict{}
}

// pin returns the requirement that the key be its i-th value.
func (k *keyModel) pin(key string, i int) label.Requirements {
	for len(k.pins) < len(k.values) {
		k.pins = append(k.pins, label.Requirements{key: label.In(k.values[len(k.pins)])})
	}
	return k.pins[i]
}

// allow writes to mask the atoms whose value of the key q allows, those that leave it
// open, and those without one if q is content with that.
func (k *keyModel) allow(q label.Requirement, mask bitset) {
	copy(mask, k.without)
	if q.AllowsAbsence() {
		mask.or(k.absent)
	}
	for i, v := range k.values {
		if q.Allows(v) {
			mask.or(k.with[i])
		}
	}
}

// admit returns what a shape allows of the pool; wish is asked for on top of each of its
// terms.
func (p *poolModel) admit(sh *cluster.Shape, wish label.Requirements) classIn {
	if p.pool.Unready != "" {
		return classIn{refusal: verdict.Of(verdict.PoolUnready, "", "%s", p.pool.Unready)}
	}
	if refusal := fit.Taints(sh.Tolerations, p.pool.Taints); !refusal.IsYes() {
		return classIn{refusal: refusal}
	}
	return p.admitLabels(sh.Terms, wish)
}

// admitLabels is admit as far as labels go.
func (p *poolModel) admitLabels(terms []label.Requirements, wish label.Requirements) classIn {
	var in classIn
	var first verdict.Verdict
	for _, term := range terms {
		p.meter.Spend(1 + term.Weight() + wish.Weight())
		if len(wish) > 0 {
			term = term.Intersect(wish)
		}
		atoms, open, refusal := p.match(term, false)
		if refusal.IsYes() && atoms.empty() {
			refusal = verdict.Of(verdict.NoCompatibleType, "", "no instance type is within its requirements")
		}
		if !refusal.IsYes() {
			if first.IsYes() {
				first = refusal
			}
			continue
		}
		in.terms = append(in.terms, termIn{term: term, atoms: atoms, open: open})
	}
	if len(in.terms) == 0 {
		in.refusal = first
	}
	return in
}

// reserveForDaemons takes from each type what the daemons that would run on it need.
func (p *poolModel) reserveForDaemons(daemons []cluster.Daemon) {
	var memory slab[int64]
	within := 0
	for t := range p.types {
		tm := &p.types[t]
		tm.free = memory.take(len(p.space))
		tm.FillRoom(p.space, tm.free)
		if p.allowed.anyIn(tm.first, tm.end) {
			within++
		}
	}
	p.daemonsAlike = true
	sums := []quantity.List{{}} // of daemons that types have
	sum := make([]int, len(p.types))
	for i := range daemons {
		sh := daemons[i].Shape
		in := p.admit(sh, nil)
		need := p.space.Vector(sh.Requests)
		on := 0
		more := make([]int, len(sums)) // by sum, that with this daemon; 0: not yet
		for t := range p.types {
			tm := &p.types[t]
			for _, term := range in.terms {
				if term.atoms.anyIn(tm.first, tm.end) {
					tm.free.AddN(need, -1)
					on++
					if more[sum[t]] == 0 {
						more[sum[t]] = len(sums)
						sums = append(sums, sums[sum[t]].Plus(sh.Requests))
					}
					sum[t] = more[sum[t]]
					tm.ports = append(tm.ports, sh.Ports...)
					break
				}
			}
		}
		p.daemonsAlike = p.daemonsAlike && (on == 0 || on == within)
	}
	for t := range p.types {
		p.types[t].daemons = sums[sum[t]]
	}
}

func (p *poolModel) indexMinValues() {
	for _, key := range p.pool.Requirements.Keys() {
		q := p.pool.Requirements[key]
		if q.MinValues == 0 {
			continue
		}
		rule := minValuesRule{key: key, need: q.MinValues}
		at := map[string]int{}
		for t := range p.types {
			for _, v := range p.types[t].Requirements[key].Values() {
				if _, ok := at[v]; !ok {
					at[v] = len(at)
				}
			}
		}
		rule.values = len(at)
		for t := range p.types {
			has := newBitset(len(at))
			for _, v := range p.types[t].Requirements[key].Values() {
				has.set(at[v])
			}
			rule.has = append(rule.has, has)
		}
		p.minValues = append(p.minValues, rule)
	}
}

// offered returns how many values the types have between them.
func (r *minValuesRule) offered(types []int32) int {
	all := newBitset(r.values)
	for _, t := range types {
		all.or(r.has[t])
	}
	return all.count()
}

// countLimits works out what is left of the limits after the machines there are. A claim
// that is still open counts as the largest it may become.
func (p *poolModel) countLimits(snap *cluster.Snapshot) {
	used, nodes := make(quantity.Vector, len(p.space)), int64(0)
	var limited []int
	for r, name := range p.space {
		if _, ok := p.pool.Limits[name]; ok {
			limited = append(limited, r)
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if len(p.pool.Limits) == 0 || n.Pool != p.pool.Name || n.Leaving {
			continue
		}
		nodes++
		if n.Open == nil {
			for _, r := range limited {
				used[r] = quantity.Add(used[r], n.Capacity[p.space[r]])
			}
			continue
		}
		largest := make(quantity.Vector, len(p.space))
		for _, t := range p.typesNamed(n.Open.Types) {
			raise(largest, p.types[t].capacity)
		}
		used.AddN(largest, 1)
	}
	if at := slices.Index(p.space, quantity.Nodes); at >= 0 {
		used[at] = nodes
	}
	p.left = make(quantity.Vector, len(p.space))
	for i, name := range p.space {
		p.left[i] = math.MaxInt64
		if limit, ok := p.pool.Limits[name]; ok {
			p.left[i] = quantity.Sub(limit, used[i])
		}
	}
	p.nodesLeft = math.MaxInt64
	if limit, ok := p.pool.Limits[quantity.Nodes]; ok {
		p.nodesLeft = quantity.Sub(limit, nodes)
	}
}

// lift takes limits for none where even so many of the largest machines are within them.
func (p *poolModel) lift(machines int) {
	n := int64(machines)
	if p.ample = p.nodesLeft >= n; !p.ample {
		return
	}
	most := make(quantity.Vector, len(p.space))
	for t := range p.types {
		raise(most, p.types[t].capacity)
	}
	for i, left := range p.left {
		if left < 0 || most[i] > 0 && left/most[i] < n {
			p.ample = false
			return
		}
	}
	p.nodesLeft = math.MaxInt64
	for i := range p.left {
		p.left[i] = math.MaxInt64
	}
}

func (p *poolModel) typesNamed(names []string) []int32 {
	want := make(map[string]bool, len(names))
	for _, n := range names {
		want[n] = true
	}
	var types []int32
	for t := range p.types {
		if want[p.types[t].Name] {
			types = append(types, int32(t))
		}
	}
	return types
}

// promise returns what is sure of an open claim: the atoms it may become, and the room
// that every one of them has.
func (p *poolModel) promise(claim *cluster.OpenClaim) (atoms bitset, free quantity.Vector) {
	atoms, _, refusal := p.match(claim.Requirements, true)
	if !refusal.IsYes() {
		return newBitset(len(p.atoms)), nil
	}
	for _, t := range p.typesNamed(claim.Types) {
		tm := &p.types[t]
		if !atoms.anyIn(tm.first, tm.end) {
			continue
		}
		if free == nil {
			free = append(quantity.Vector(nil), tm.free...)
		}
		for i := range free {
			free[i] = min(free[i], tm.free[i])
		}
	}
	if free == nil {
		return newBitset(len(p.atoms)), nil
	}
	return atoms, free
}

// raise lifts v to at least o in every dimension.
func raise(v, o quantity.Vector) {
	for i := range v {
		v[i] = max(v[i], o[i])
	}
}
