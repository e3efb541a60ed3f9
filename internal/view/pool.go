package view

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// poolTypesMost is how many instance types of a NodePool are listed, and poolDriftMost how many of its drifted nodes.
const poolTypesMost, poolDriftMost = 40, 100

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
	return v, true
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
