package view

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Pools is the NodePools.
type Pools struct {
	Head
	Pools []Pool `json:"pools"`
}

// Pool is one NodePool.
type Pool struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
	// Unready says why nothing is launched from it; empty: nodes may be.
	Unready string `json:"unready,omitempty"`
	// Paused says why no node of it is disrupted by choice; empty: nodes may be.
	Paused string `json:"paused,omitempty"`
	// Replicas is set for static pools.
	Replicas *int       `json:"replicas,omitempty"`
	Nodes    NodeCounts `json:"nodes"`
	// Drifted are nodes that differ from what the pool would launch now.
	Drifted int     `json:"drifted"`
	Price   Price   `json:"price"`
	Usage   Usage   `json:"usage"`
	Limits  []Limit `json:"limits"`
	// Budgets are how many nodes may be disrupted now, by reason.
	Budgets []Budget `json:"budgets"`
	// ConsolidateAfter is in seconds; below 0: never. Policy is the consolidationPolicy.
	ConsolidateAfter float64 `json:"consolidateAfterSeconds"`
	Policy           string  `json:"consolidationPolicy"`
	// InvalidBudgets says which budgets can't be read, and so allow nothing.
	InvalidBudgets []string `json:"invalidBudgets,omitempty"`
}

// NodeCounts is how many nodes there are, and how many of them are on their way.
type NodeCounts struct {
	Total    int `json:"total"`
	Ready    int `json:"ready"`
	Starting int `json:"starting"`
	NotReady int `json:"notReady"`
	// Terminating are those that are drained or are to be.
	Terminating int `json:"terminating"`
}

// add takes in a node.
func (c *NodeCounts) add(n *cluster.Node) {
	c.Total++
	switch {
	case n.Deleting || n.DisruptionReason != "":
		c.Terminating++
	case !n.Initialized:
		c.Starting++
	case n.Ready:
		c.Ready++
	default:
		c.NotReady++
	}
}

// Limit is one of spec.limits, and how much of it the pool's nodes take: in millicores, bytes or as a
// count.
type Limit struct {
	Resource string `json:"resource"`
	Used     int64  `json:"used"`
	Limit    int64  `json:"limit"`
}

// Budget is how many of a pool's nodes may be disrupted for a reason.
type Budget struct {
	Reason string `json:"reason"`
	// Allowed is how many at once; -1: any number. Used are being disrupted, or are not ready.
	Allowed int `json:"allowed"`
	Used    int `json:"used"`
	// Opens is when more are allowed, if none is now and a schedule says so.
	Opens time.Time `json:"opens,omitzero"`
}

// unlimited is Budget.Allowed of pools without budgets.
const unlimited = -1

// PoolsOf returns the NodePools, by name.
func PoolsOf(s *State) Pools {
	r, v := newReader(s), Pools{Head: s.head("Pools"), Pools: []Pool{}}
	room, at := disrupt.Room(s.Snapshot), map[string]int{}
	for i := range s.Snapshot.Pools {
		at[s.Snapshot.Pools[i].Name] = i
		v.Pools = append(v.Pools, r.pool(&s.Snapshot.Pools[i], room))
	}
	for i := range s.Snapshot.Nodes {
		n := &s.Snapshot.Nodes[i]
		k, ok := at[n.Pool]
		if !ok || n.Claim == "" {
			continue
		}
		p := &v.Pools[k]
		p.Nodes.add(n)
		p.Price.add(r, n)
		p.Usage.add(n)
		if n.Drifted != "" {
			p.Drifted++
		}
	}
	return v
}

// pool returns what a NodePool says of itself.
func (r *reader) pool(p *cluster.Pool, room map[string]quantity.List) Pool {
	v := Pool{
		Name: p.Name, Weight: p.Weight, Unready: p.Unready, Paused: p.Paused, Limits: []Limit{}, Budgets: []Budget{},
		ConsolidateAfter: p.ConsolidateAfter.Seconds(), Policy: p.Policy,
	}
	if p.ConsolidateAfter < 0 {
		v.ConsolidateAfter = -1
	}
	if v.Policy == "" {
		v.Policy = cluster.PolicyUnderutilized
	}
	if p.Static {
		v.Replicas = &p.Replicas
	}
	for _, name := range p.Limits.Names() {
		v.Limits = append(v.Limits, Limit{name, quantity.Sub(p.Limits[name], room[p.Name][name]), p.Limits[name]})
	}
	for _, reason := range budgetReasons() {
		b := Budget{Reason: reason, Allowed: allowedBy(r.ledger, p.Name, reason), Used: r.ledger.Used(p.Name, reason)}
		if r.ledger.Left(p.Name, reason) == 0 {
			b.Opens = r.budgetOpens(p.Name, reason)
		}
		v.Budgets = append(v.Budgets, b)
	}
	for i := range p.Budgets {
		if why := p.Budgets[i].Invalid; why != "" {
			v.InvalidBudgets = append(v.InvalidBudgets, why)
		}
	}
	return v
}

// allowedBy returns how many nodes of a pool may be disrupted at once for a reason.
func allowedBy(ledger *budget.Ledger, pool, reason string) int {
	if n := ledger.Allowed(pool, reason); n != math.MaxInt32 {
		return n
	}
	return unlimited
}

// budgetReasons are the reasons that are shown.
func budgetReasons() []string { return []string{plan.Empty, plan.Drifted, plan.Underutilized} }

// poolReason is a NodePool and a disruption reason.
type poolReason struct{ pool, reason string }

// budgetOpens returns when the schedules of a pool's budgets allow another node to be disrupted for the
// reason, as many being disrupted as now; zero: no schedule does within a week.
func (r *reader) budgetOpens(pool, reason string) time.Time {
	key := poolReason{pool, reason}
	if at, known := r.opens[key]; known {
		return at
	}
	at := r.findOpening(pool, reason)
	r.opens[key] = at
	return at
}

func (r *reader) findOpening(pool, reason string) time.Time {
	k := slices.IndexFunc(r.Snapshot.Pools, func(p cluster.Pool) bool { return p.Name == pool })
	changes := r.BudgetChanges[pool]
	if k < 0 || len(changes) != len(r.Snapshot.Pools[k].Budgets) {
		return time.Time{}
	}
	times := map[time.Time]bool{}
	for _, at := range changes {
		if !at.IsZero() {
			times[at] = true
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(times), time.Time.Compare) {
		later := *r.Snapshot
		later.Pools = slices.Clone(later.Pools)
		budgets := slices.Clone(later.Pools[k].Budgets)
		for i := range budgets {
			if !changes[i].IsZero() && !changes[i].After(at) {
				budgets[i].Active = !budgets[i].Active
			}
		}
		later.Pools[k].Budgets = budgets
		if budget.Open(&later).Left(pool, reason) > 0 {
			return at
		}
	}
	return time.Time{}
}
