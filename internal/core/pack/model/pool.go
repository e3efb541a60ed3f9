package model

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Pool is a NodePool in the solver's terms: its instance types with their offerings, and what is
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
	// Allowed are the offerings within the pool's requirements, and Launchable those of them that can
	// be launched now.
	Allowed, Launchable Bitset
	keys                map[string]*Label // those asked for; nil: no offering decides the key
	MinValues           []minValuesRule
	memory              nodeMemory
	sale                *Market            // see Market; made when asked for
	ownOpen             label.Requirements // see openRules; made when asked for
	// all is all types, and LargestFree the most that any has for pods.
	all         []int32
	LargestFree quantity.Vector
	some        Bitset    // of types, see setOf
	prices      []float64 // by type, of the planned node that is being described
	// byName and byPrice are the types in the order of their names, and of their prices.
	byName, byPrice []int32
	daemonsAlike    bool // every type within the requirements has the same daemons
	parted          bool // some types are several parts, see parts.go

	// Left is what the limits still allow; MaxInt64 where there is none.
	Left      quantity.Vector
	NodesLeft int64
	ShrunkTo  int  // planned nodes below this index hold no more of the limits than they need
	ample     bool // one solve cannot reach the limits
}

// InstanceType is one instance type of a pool, or a part of one.
type InstanceType struct {
	*catalog.Type
	First, End    int             // its offerings
	Free, Amounts quantity.Vector // what is free beside DaemonSet pods, and the capacity
	daemons       quantity.List
	Ports         []cluster.HostPort // of the DaemonSet pods
	priceMin      float64            // of the offerings that can be launched
}

// minValuesRule is a minValues of the pool: the types of a launch must have so many values of the
// key between them. Only values count that the requirement allows.
type minValuesRule struct {
	Key    string
	Need   int
	values []string // that the pool allows
	has    []Bitset // by type: which values
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

// setOf returns the types as a set, which is valid until the next call.
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

// Label returns which offerings have which value of a key; false if none decides it. It is made
// when it is first asked for, because few of the keys of instance types matter in one solve.
func (p *Pool) Label(key string) (*Label, bool) {
	k, asked := p.keys[key]
	if !asked {
		k = p.index(key)
		p.keys[key] = k
	}
	return k, k != nil
}

// index works out which offerings have which value of a key; nil: none decides it.
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

// offered returns how many values the types have between them that all of the requirements allow.
func (r *minValuesRule) offered(types []int32, within ...label.Requirements) int {
	all := NewBitset(len(r.values))
	for _, t := range types {
		all.Or(r.has[t])
	}
	for _, want := range within {
		q, narrows := want[r.Key]
		for i := 0; narrows && i < len(r.values); i++ {
			if !q.Allows(r.values[i]) {
				all.Clear(i)
			}
		}
	}
	return all.count()
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

// Raise lifts v to at least o in every dimension.
func Raise(v, o quantity.Vector) {
	for i := range v {
		v[i] = max(v[i], o[i])
	}
}

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

// Choices returns the values of a key that nodes with these offerings could have. Where
// no offering decides the key, they are the pool's, or those given.
func (p *Pool) Choices(key string, offerings Bitset, open []string) []DomainChoice {
	var out []DomainChoice
	k, indexed := p.Label(key)
	if !indexed {
		if q, ruled := p.NodePool.Requirements[key]; ruled && q.Operator() == label.OpIn && len(open) == 0 {
			open = q.Values()
		}
		for _, v := range open {
			out = append(out, DomainChoice{Value: v})
		}
		return out
	}
	both := NewBitset(len(p.Offerings))
	for i, v := range k.Values {
		if !both.Intersection(offerings, k.Offerings[i]) || !both.Intersection(both, p.Launchable) {
			continue
		}
		ch := DomainChoice{Value: v, Offerings: k.Offerings[i], Price: math.Inf(1)}
		for a := range both.All() {
			ch.Price = min(ch.Price, p.Offerings[a].Cost())
		}
		out = append(out, ch)
	}
	return out
}

// IsLimited reports whether the pool has any limits that matter.
func (p *Pool) IsLimited() bool { return len(p.NodePool.Limits) > 0 && !p.ample }

// fork returns the pool with limits and memory of its own.
func (p *Pool) fork() *Pool {
	own := *p
	own.Left, own.memory = slices.Clone(p.Left), nodeMemory{}
	return &own
}
