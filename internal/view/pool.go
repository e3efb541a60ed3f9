package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// poolTypesMost is how many instance types of a NodePool are listed, and poolDriftMost how many of its drifted nodes.
const poolTypesMost, poolDriftMost = 40, 100

// dayLong is how far ahead the budgets of a NodePool are shown, and dayChangesMost bounds how many of their changes are.
const dayLong, dayChangesMost = 24 * time.Hour, 60

// PoolView is one NodePool by itself.
type PoolView struct {
	Head
	Pool Pool `json:"pool"`
	// Types are instance types: those that it has nodes of, the most expensive together first, then the cheapest that it
	// may launch. MoreTypes is how many others it may launch.
	Types     []PoolType `json:"types"`
	MoreTypes int        `json:"moreTypes"`
	// Drift are nodes that differ from what it would launch now, the longest first; Pool.Drifted has the count of all.
	Drift []Node `json:"drift"`
	// Day is how many nodes may be disrupted over the coming day, or up to the last change that is shown; empty: it is
	// not known when budgets change.
	Day []BudgetSpan `json:"day,omitempty"`
}

// BudgetSpan is a span of time in which as many of a NodePool's nodes may be disrupted, if it has as many as now.
type BudgetSpan struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Allowed is how many at once for each reason of Pool.Budgets, in their order; -1: any number.
	Allowed []int `json:"allowed"`
}

// PoolType is an instance type in a NodePool.
type PoolType struct {
	InstanceType string `json:"instanceType"`
	// Nodes is how many nodes of the NodePool are of it, Price what they cost.
	Nodes int   `json:"nodes"`
	Price Price `json:"price"`
	// Offerings is in how many zones and capacity types the NodePool may launch it, Short in how many of them it
	// cannot now. LeastHourly is the price of the cheapest of the others, if HasLeast.
	Offerings   int     `json:"offerings"`
	Short       int     `json:"short"`
	LeastHourly float64 `json:"leastHourlyDollars"`
	HasLeast    bool    `json:"hasLeast"`
}

// PoolOf returns the NodePool of that name; false: there is none.
func PoolOf(s *State, name string) (PoolView, bool) {
	all := PoolsOf(s)
	at := slices.IndexFunc(all.Pools, func(p Pool) bool { return p.Name == name })
	if at < 0 {
		return PoolView{}, false
	}
	v := PoolView{Head: s.head("Pool"), Pool: all.Pools[at], Types: []PoolType{}, Drift: []Node{}}
	r, index := newReader(s), map[string]int{}
	of := func(name string) *PoolType {
		k, ok := index[name]
		if !ok {
			k = len(v.Types)
			index[name] = k
			v.Types = append(v.Types, PoolType{InstanceType: name})
		}
		return &v.Types[k]
	}
	for _, t := range s.Snapshot.Pools[at].Types {
		of(t.Name).addOfferings(t)
	}
	var drifted []*cluster.Node
	for i := range s.Snapshot.Nodes {
		n := &s.Snapshot.Nodes[i]
		if n.Pool != name || n.Claim == "" {
			continue
		}
		if kind := n.Labels[label.InstanceType]; kind != "" {
			t := of(kind)
			t.Nodes++
			t.Price.add(r, n)
		}
		if n.Drifted != "" {
			drifted = append(drifted, n)
		}
	}
	slices.SortStableFunc(drifted, func(a, b *cluster.Node) int { return a.DriftedSince.Compare(b.DriftedSince) })
	for _, n := range drifted[:min(len(drifted), poolDriftMost)] {
		v.Drift = append(v.Drift, r.node(n))
	}
	slices.SortFunc(v.Types, comparePoolTypes)
	v.MoreTypes = max(0, len(v.Types)-poolTypesMost)
	v.Types = v.Types[:len(v.Types)-v.MoreTypes]
	v.Day = r.day(at)
	return v, true
}

// day returns the spans of the coming day in which the budgets of the k-th NodePool allow as much.
func (r *reader) day(k int) (spans []BudgetSpan) {
	pool := r.Snapshot.Pools[k].Name
	var schedule BudgetSchedule
	if r.BudgetSchedule != nil {
		schedule = r.BudgetSchedule(pool)
	}
	if schedule == nil {
		return nil
	}
	later := *r.Snapshot
	later.Pools = slices.Clone(later.Pools)
	from, end := r.Snapshot.At, r.Snapshot.At.Add(dayLong)
	for range dayChangesMost {
		budgets, until := schedule(from)
		if until.IsZero() || until.After(end) {
			until = end
		}
		later.Pools[k].Budgets = budgets
		span, ledger := BudgetSpan{From: from, Until: until}, budget.Open(&later)
		for _, reason := range budgetReasons() {
			span.Allowed = append(span.Allowed, allowedBy(ledger, pool, reason))
		}
		if last := len(spans) - 1; last >= 0 && slices.Equal(spans[last].Allowed, span.Allowed) {
			spans[last].Until = until
		} else {
			spans = append(spans, span)
		}
		if from = until; !from.Before(end) {
			break
		}
	}
	return spans
}

// addOfferings takes in what there is of an instance type.
func (p *PoolType) addOfferings(t *catalog.Type) {
	for i := range t.Offerings {
		o := &t.Offerings[i]
		p.Offerings++
		switch {
		case !o.Launchable():
			p.Short++
		case o.HasPrice() && (!p.HasLeast || o.PriceHourly < p.LeastHourly):
			p.LeastHourly, p.HasLeast = o.PriceHourly, true
		}
	}
}

// comparePoolTypes orders types with nodes by their price, then others that can be launched by theirs, then the rest.
func comparePoolTypes(a, b PoolType) int {
	return cmp.Or(cmp.Compare(b.Price.Hourly, a.Price.Hourly), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(rank(!a.HasLeast), rank(!b.HasLeast)),
		cmp.Compare(a.LeastHourly, b.LeastHourly), cmp.Compare(a.InstanceType, b.InstanceType))
}
