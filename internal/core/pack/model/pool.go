package model

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

// Pool is one pool: its offerings, which are the offerings of its types, and what is
// left of its limits.
type Pool struct {
	NodePool  *cluster.Pool
	meter     *effort.Meter
	wellKnown map[string]bool
	Space     quantity.Space
	relax     bool // minValues is best effort

	Types     []InstanceType
	Offerings []*catalog.Offering
	// TypeOf is the type of each offering.
	TypeOf []int32
	// Allowed are the offerings within the pool's requirements; buyable those of them that
	// can be had now.
	Allowed, Buyable Bitset
	keys             map[string]*Label // those asked for; nil: nothing decides it
	MinValues        []minValuesRule
	memory           nodeMemory
	sale             *Market            // see market; made when asked for
	ownOpen          label.Requirements // see openRules; made when asked for
	// all is all types, and LargestFree the most that any has for pods.
	all         []int32
	LargestFree quantity.Vector
	some        Bitset    // of types, see setOf
	prices      []float64 // by type, of the launch that is being written down
	// byName and byPrice are the types in the order of their names, and of their prices.
	byName, byPrice []int32
	daemonsAlike    bool // every type within the requirements has the same daemons
	parted          bool // some types are several parts, see part.go

	// Left is what the limits still allow; MaxInt64 where there is none.
	Left      quantity.Vector
	NodesLeft int64
	ShrunkTo  int  // launches below this index hold no more of the limits than they need
	ample     bool // the limits are out of reach of one solve
}

// InstanceType is one instance type of a pool, or a part of one.
type InstanceType struct {
	*catalog.Type
	First, End    int             // its offerings
	Free, Amounts quantity.Vector // free is allocatable less the daemons' share
	daemons       quantity.List
	Ports         []cluster.HostPort // the daemons'
	priceMin      float64            // of what is buyable
}

// minValuesRule is a minValues of the pool: types between them must offer need values.
type minValuesRule struct {
	Key    string
	Need   int
	values int
	has    []Bitset // by type: which values
}

func newPool(m *Model, pool *cluster.Pool) *Pool {
	snap, space := m.Snapshot, m.Space
	p := &Pool{NodePool: pool, meter: m.Meter, wellKnown: snap.WellKnown, Space: space, relax: m.Options.MinValuesBestEffort}
	p.addTypes(p.offeringsWithin(snap))
	if parts := p.splitByDaemons(snap.Daemons); parts != nil {
		p.addTypes(parts)
		p.parted = true
	}
	p.Buyable = p.Allowed.Clone()
	for t := range p.Types {
		tm := &p.Types[t]
		tm.priceMin = math.Inf(1)
		for a := tm.First; a < tm.End; a++ {
			if !p.Offerings[a].Available {
				p.Buyable[a>>6] &^= 1 << (a & 63)
			} else if p.Buyable.Has(a) {
				tm.priceMin = min(tm.priceMin, p.Offerings[a].Cost())
			}
		}
	}
	p.reserveForDaemons(snap.Daemons)
	p.indexMinValues()
	p.countLimits(snap)
	p.order()
	p.LargestFree = make(quantity.Vector, len(space))
	for t := range p.Types {
		p.all = append(p.all, int32(t))
		Raise(p.LargestFree, p.Types[t].Free)
	}
	return p
}

// order sorts the types by name and by price, so that no launch need do it.
func (p *Pool) order() {
	for t := range p.Types {
		p.byName = append(p.byName, int32(t))
	}
	slices.SortStableFunc(p.byName, func(x, y int32) int { return cmp.Compare(p.Types[x].Name, p.Types[y].Name) })
	p.byPrice = slices.Clone(p.byName)
	slices.SortStableFunc(p.byPrice, func(x, y int32) int { return cmp.Compare(p.Types[x].priceMin, p.Types[y].priceMin) })
}

// among returns those of the ordered types that are in the list.
func (p *Pool) among(ordered, types []int32) []int32 {
	in := p.setOf(types)
	out := make([]int32, 0, len(types))
	for _, t := range ordered {
		if in.Has(int(t)) {
			out = append(out, t)
		}
	}
	return out
}

// setOf returns the types as a set, until it is asked again.
func (p *Pool) setOf(types []int32) Bitset {
	if p.some == nil {
		p.some = NewBitset(len(p.Types))
	}
	clear(p.some)
	for _, t := range types {
		p.some.Set(int(t))
	}
	return p.some
}

// Label returns the model of a key that some type or offering decides. It is made when
// it is first asked for: of all that types say of themselves little matters at a time.
func (p *Pool) Label(key string) (*Label, bool) {
	k, asked := p.keys[key]
	if !asked {
		k = p.index(key)
		p.keys[key] = k
	}
	return k, k != nil
}

// index notes which offerings carry which value of a key; nil: none decides it.
func (p *Pool) index(key string) *Label {
	k := &Label{absent: NewBitset(len(p.Offerings)), At: map[string]int{}, width: len(p.Offerings)}
	some := false
	for t := range p.Types {
		tm := &p.Types[t]
		q, typed := tm.Requirements[key]
		typed = typed && (q.Operator() == label.OpIn || q.Operator() == label.OpDoesNotExist)
		some = some || typed
		if !slices.ContainsFunc(p.Offerings[tm.First:tm.End], func(o *catalog.Offering) bool { return o.Decides(key) }) {
			if typed {
				k.note(tm.First, tm.End, q)
			}
			continue
		}
		some = true
		for a := tm.First; a < tm.End; a++ {
			if v, own := p.Offerings[a].Value(key); own {
				k.carriers(v).Set(a)
			} else if typed {
				k.note(a, a+1, q)
			}
		}
	}
	if !some {
		return nil
	}
	k.without = FullBitset(len(p.Offerings))
	k.without.remove(k.absent)
	for _, w := range k.Offerings {
		k.without.remove(w)
	}
	return k
}

// Match returns the offerings that do not conflict with the requirements, and those of the
// requirements that no offering settles. The refusal names the first key, in order, that
// leaves nothing. own: these are the pool's requirements themselves.
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
			return nil, nil, verdict.Of(verdict.RequirementUnmet, "", "%s must be %s, which no new machine is", key, q)
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

// Admit returns what pod constraints allows of the pool; preference is asked for on top of each of its
// terms.
func (p *Pool) Admit(sh *cluster.Constraints, preference label.Requirements) Admitted {
	if why := p.NodePool.NotForPods(); why != "" {
		return Admitted{Refusal: verdict.Of(verdict.PoolUnready, "", "%s", why)}
	}
	if refusal := fit.Taints(sh.Tolerations, p.NodePool.Taints); !refusal.IsYes() {
		return Admitted{Refusal: refusal}
	}
	return p.AdmitLabels(sh.Terms, preference)
}

// AdmitLabels is admit as far as labels go.
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

// reserveForDaemons takes from each type what the daemons that would run on it need.
func (p *Pool) reserveForDaemons(daemons []cluster.Daemon) {
	var memory Slab[int64]
	within := 0
	for t := range p.Types {
		tm := &p.Types[t]
		tm.Free = memory.Take(len(p.Space))
		tm.FillRoom(p.Space, tm.Free)
		if p.Allowed.AnyIn(tm.First, tm.End) {
			within++
		}
	}
	p.daemonsAlike = true
	sums := []quantity.List{{}} // of daemons that types have
	sum := make([]int, len(p.Types))
	for i := range daemons {
		sh := daemons[i].Constraints
		in := p.Admit(sh, nil)
		need := p.Space.Vector(sh.Requests)
		on := 0
		more := make([]int, len(sums)) // by sum, that with this daemon; 0: not yet
		for t := range p.Types {
			tm := &p.Types[t]
			for _, term := range in.Terms {
				if term.Offerings.AnyIn(tm.First, tm.End) {
					tm.Free.AddN(need, -1)
					on++
					if more[sum[t]] == 0 {
						more[sum[t]] = len(sums)
						sums = append(sums, sums[sum[t]].Plus(sh.Requests))
					}
					sum[t] = more[sum[t]]
					tm.Ports = append(tm.Ports, sh.Ports...)
					break
				}
			}
		}
		p.daemonsAlike = p.daemonsAlike && (on == 0 || on == within)
	}
	for t := range p.Types {
		p.Types[t].daemons = sums[sum[t]]
	}
}

func (p *Pool) indexMinValues() {
	for _, key := range p.NodePool.Requirements.Keys() {
		q := p.NodePool.Requirements[key]
		if q.MinValues == 0 {
			continue
		}
		rule := minValuesRule{Key: key, Need: q.MinValues}
		at := map[string]int{}
		for t := range p.Types {
			for _, v := range p.Types[t].Requirements[key].Values() {
				if _, ok := at[v]; !ok {
					at[v] = len(at)
				}
			}
		}
		rule.values = len(at)
		for t := range p.Types {
			has := NewBitset(len(at))
			for _, v := range p.Types[t].Requirements[key].Values() {
				has.Set(at[v])
			}
			rule.has = append(rule.has, has)
		}
		p.MinValues = append(p.MinValues, rule)
	}
}

// offered returns how many values the types have between them.
func (r *minValuesRule) offered(types []int32) int {
	all := NewBitset(r.values)
	for _, t := range types {
		all.Or(r.has[t])
	}
	return all.count()
}

// countLimits works out what is left of the limits after the nodes there are. A claim
// that is still open counts as the largest it may become.
func (p *Pool) countLimits(snap *cluster.Snapshot) {
	used, nodes := make(quantity.Vector, len(p.Space)), int64(0)
	var limited []int
	for r, name := range p.Space {
		if _, ok := p.NodePool.Limits[name]; ok {
			limited = append(limited, r)
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if len(p.NodePool.Limits) == 0 || n.Pool != p.NodePool.Name || n.Deleting {
			continue
		}
		nodes++
		if n.InFlight == nil {
			for _, r := range limited {
				used[r] = quantity.Add(used[r], n.Capacity[p.Space[r]])
			}
			continue
		}
		largest := make(quantity.Vector, len(p.Space))
		for _, t := range p.TypesNamed(n.InFlight.Types) {
			Raise(largest, p.Types[t].Amounts)
		}
		used.AddN(largest, 1)
	}
	if at := slices.Index(p.Space, quantity.Nodes); at >= 0 {
		used[at] = nodes
	}
	p.Left = make(quantity.Vector, len(p.Space))
	for i, name := range p.Space {
		p.Left[i] = math.MaxInt64
		if limit, ok := p.NodePool.Limits[name]; ok {
			p.Left[i] = quantity.Sub(limit, used[i])
		}
	}
	p.NodesLeft = math.MaxInt64
	if limit, ok := p.NodePool.Limits[quantity.Nodes]; ok {
		p.NodesLeft = quantity.Sub(limit, nodes)
	}
}

// LiftLimits takes limits for none where even so many of the largest nodes are within them.
func (p *Pool) LiftLimits(nodes int) {
	n := int64(nodes)
	if p.ample = p.NodesLeft >= n; !p.ample {
		return
	}
	most := make(quantity.Vector, len(p.Space))
	for t := range p.Types {
		Raise(most, p.Types[t].Amounts)
	}
	for i, left := range p.Left {
		if left < 0 || most[i] > 0 && left/most[i] < n {
			p.ample = false
			return
		}
	}
	p.NodesLeft = math.MaxInt64
	for i := range p.Left {
		p.Left[i] = math.MaxInt64
	}
}

// TypesNamed returns the indexes of the pool's instance types that have one of the names.
func (p *Pool) TypesNamed(names []string) []int32 {
	want := make(map[string]bool, len(names))
	for _, n := range names {
		want[n] = true
	}
	var types []int32
	for t := range p.Types {
		if want[p.Types[t].Name] {
			types = append(types, int32(t))
		}
	}
	return types
}

// promise returns what is sure of an in-flight NodeClaim: the offerings it may become, and the room
// that every one of them has.
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

// Raise lifts v to at least o in every dimension.
func Raise(v, o quantity.Vector) {
	for i := range v {
		v[i] = max(v[i], o[i])
	}
}

// IsLimited reports whether the pool has any limits that matter.
func (p *Pool) IsLimited() bool { return len(p.NodePool.Limits) > 0 && !p.ample }

// MeanPrice returns what nodes with the i-th value of a key cost on average, each by its
// cheapest offering.
func (p *Pool) MeanPrice(key string, i int, usable Bitset) float64 {
	k, _ := p.Label(key)
	for len(k.levels) < len(k.Values) {
		k.levels = append(k.levels, p.meanPriceOf(k.Offerings[len(k.levels)], usable))
	}
	return k.levels[i]
}

func (p *Pool) meanPriceOf(offerings, usable Bitset) float64 {
	sum, n := 0.0, 0
	for t := range p.Types {
		best := math.Inf(1)
		for a := p.Types[t].First; a < p.Types[t].End; a++ {
			if offerings.Has(a) && usable.Has(a) {
				best = min(best, p.Offerings[a].Cost())
			}
		}
		if !math.IsInf(best, 1) {
			sum, n = sum+best, n+1
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// HasFlatPrices reports whether each type costs the same wherever it is launched.
func (p *Pool) HasFlatPrices(usable Bitset) bool {
	for t := range p.Types {
		first := -1
		for a := p.Types[t].First; a < p.Types[t].End; a++ {
			switch o := p.Offerings[a]; {
			case !usable.Has(a):
			case o.Reservation != "" || first >= 0 && o.Cost() != p.Offerings[first].Cost():
				return false
			case first < 0:
				first = a
			}
		}
	}
	return true
}

// ReturnLimits adds to what is left of the pool's limits.
func (p *Pool) ReturnLimits(v quantity.Vector, sign int64) {
	if _, limited := p.NodePool.Limits[quantity.Nodes]; limited {
		p.NodesLeft += sign
	}
	for i := range p.Left {
		if _, limited := p.NodePool.Limits[p.Space[i]]; limited {
			p.Left[i] = quantity.Add(p.Left[i], quantity.Mul(sign, v[i]))
		}
	}
}

// AnyHolds reports whether a type with any of the offerings has room for one pod.
func (p *Pool) AnyHolds(need quantity.Vector, offerings Bitset) bool {
	for t := range p.Types {
		if tm := &p.Types[t]; RoomFor(tm.Free, need) && offerings.AnyIn(tm.First, tm.End) {
			return true
		}
	}
	return false
}

// RoomFor reports whether one pod fits. What it does not ask for may be short.
func RoomFor(free, need quantity.Vector) bool {
	for i, n := range need {
		if n > 0 && n > free[i] {
			return false
		}
	}
	return true
}
