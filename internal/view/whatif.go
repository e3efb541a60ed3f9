package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// WhatIf is what a change would do: the cluster now, what becomes of it if nothing is changed, and what with
// the change.
type WhatIf struct {
	Head
	// Changes say what is to be different.
	Changes []string `json:"changes"`
	Now     Outlook  `json:"now"`
	Left    Outlook  `json:"leftAlone"`
	Then    Outlook  `json:"then"`
	// Drift are the nodes that drift because of the change, NoDrift those that do not any more.
	Drift   []Drift `json:"drift"`
	NoDrift []Drift `json:"noLongerDrifted"`
	// Steps are what would be done with the change, in order.
	Steps     []WhatIfStep `json:"steps"`
	Pools     []Change     `json:"pools"`
	Workloads []Change     `json:"workloads"`
	// NoPlace are pods that no node could take with the change and that one can take, or has, without it.
	NoPlace []NoPlace `json:"noPlace"`
	// Stay are drifted nodes that are there at the end.
	Stay []Drift `json:"driftedNodesThatStay"`
	// Presumes say what the figures rest on.
	Presumes []string `json:"presumes"`
}

// Outlook is the cluster at an instant of a forecast.
type Outlook struct {
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
	Price Price     `json:"price"`
	// LeastHourly is what nodes for these pods must cost at least, if every pod could move; 0: it is not
	// known. Proven: it was worked out as far as it can be.
	LeastHourly float64 `json:"leastHourlyDollars"`
	Proven      bool    `json:"leastIsProven"`
	// Refused is how many pods nothing can take.
	Refused int `json:"podsRefused"`
	// Replaced is how many nodes are removed until then by disruption reason, Evictions how many pods go
	// elsewhere. PeakHourly is what all nodes cost together at most meanwhile.
	Replaced   map[string]int `json:"nodesRemovedByReason,omitempty"`
	Evictions  int            `json:"evictions"`
	PeakHourly float64        `json:"peakHourlyDollars"`
	// DriftDoneAt is when the last drifted node was gone; zero: none was, or not within the forecast.
	DriftDoneAt time.Time `json:"driftDoneAt,omitzero"`
	// End says how the forecast ended.
	End string `json:"end,omitempty"`
}

// Drift is a node that is not what its NodePool would launch.
type Drift struct {
	Node   string `json:"node"`
	Pool   string `json:"pool"`
	Reason string `json:"reason"`
	// Why says why it stays, where it does.
	Why string `json:"why,omitempty"`
}

// WhatIfStep is nodes that are removed and launched together.
type WhatIfStep struct {
	At     time.Time `json:"at"`
	DoneAt time.Time `json:"doneAt,omitzero"`
	// Reason is the disruption reason; empty: nodes are launched for pending pods.
	Reason    string     `json:"reason,omitempty"`
	Remove    []StepNode `json:"remove"`
	Launch    []StepNode `json:"launch"`
	Evictions int        `json:"evictions"`
	// SavingHourly is what it saves; negative: it costs that much more.
	SavingHourly float64 `json:"savingHourlyDollars"`
	// Undone says why it is taken back; empty: it is not.
	Undone string `json:"undone,omitempty"`
}

// StepNode is a node of a step.
type StepNode struct {
	Name         string  `json:"name"`
	Pool         string  `json:"pool"`
	InstanceType string  `json:"instanceType"`
	Zone         string  `json:"zone,omitempty"`
	CapacityType string  `json:"capacityType"`
	PriceHourly  float64 `json:"hourlyDollars"`
	HasPrice     bool    `json:"hasPrice"`
}

// Change is what something costs now, left alone, and with the change. Nodes and Pods are counts.
type Change struct {
	Name       string  `json:"name"`
	NowHourly  float64 `json:"nowHourlyDollars"`
	LeftHourly float64 `json:"leftAloneHourlyDollars"`
	ThenHourly float64 `json:"thenHourlyDollars"`
	NowNodes   int     `json:"nowNodes,omitempty"`
	LeftNodes  int     `json:"leftAloneNodes,omitempty"`
	ThenNodes  int     `json:"thenNodes,omitempty"`
}

// NoPlace is pods of a workload that no node could take, and why.
type NoPlace struct {
	Workload Workload `json:"workload"`
	Pods     int      `json:"pods"`
	// Running is how many of them have a node that need not go.
	Running int    `json:"running"`
	Why     string `json:"why"`
}

// Least is a lower bound.
type Least struct {
	Hourly float64
	Proven bool
}

// Variant is a cluster, what becomes of it, and what its pods would need on new nodes alone.
type Variant struct {
	Snapshot *cluster.Snapshot
	Forecast *forecast.Result
	Least    Least
	// Unplaced are refusals of a plan in which every pod asks for a node.
	Unplaced []plan.Refusal
}

// WhatIfOf compares a cluster left alone with the same after a change. evicted are pods that the change itself
// takes from their nodes.
func WhatIfOf(left, then *Variant, changes, presumes []string, evicted int) WhatIf {
	s := &State{Snapshot: left.Snapshot}
	v := WhatIf{
		Head: s.head("WhatIf"), Changes: changes, Presumes: presumes,
		Now: outlookOf(left.Snapshot), Left: left.outlook(), Then: then.outlook(), Steps: stepsOf(then.Forecast),
	}
	v.Now.LeastHourly, v.Now.Proven = v.Left.LeastHourly, v.Left.Proven // it is about the same pods
	v.Now.Refused = len(left.Snapshot.Pending)
	v.Then.Evictions += evicted
	v.Drift, v.NoDrift = driftBetween(left.Snapshot, then.Snapshot), driftBetween(then.Snapshot, left.Snapshot)
	v.Pools = changesOf([]*cluster.Snapshot{left.Snapshot, left.Forecast.Rest, then.Forecast.Rest}, poolsCost)
	v.Workloads = changesOf([]*cluster.Snapshot{left.Snapshot, left.Forecast.Rest, then.Forecast.Rest}, workloadsCost)
	v.NoPlace = noPlaceOf(left, then)
	v.Stay = stayOf(then.Forecast)
	return v
}

func outlookOf(snap *cluster.Snapshot) Outlook {
	r, o := newReader(&State{Snapshot: snap}), Outlook{At: snap.At}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Claim != "" {
			o.Nodes++
			o.Price.add(r, n)
		}
	}
	o.PeakHourly = o.Price.Hourly
	return o
}

func (x *Variant) outlook() Outlook {
	o := outlookOf(x.Forecast.Rest)
	o.LeastHourly, o.Proven, o.PeakHourly, o.End = min(x.Least.Hourly, o.Price.Hourly), x.Least.Proven, x.Forecast.PeakHourly, x.Forecast.End
	o.Refused, o.Replaced = len(x.Forecast.Refusals), map[string]int{}
	for i := range x.Forecast.Steps {
		s := &x.Forecast.Steps[i]
		if s.Undone != "" {
			continue
		}
		o.Evictions += s.Evictions
		if len(s.Remove) > 0 {
			o.Replaced[s.Reason] += len(s.Remove)
		}
		if s.Reason == plan.Drifted && s.DoneAt.After(o.DriftDoneAt) {
			o.DriftDoneAt = s.DoneAt
		}
	}
	return o
}

func stepsOf(f *forecast.Result) []WhatIfStep {
	out := make([]WhatIfStep, len(f.Steps))
	for i := range f.Steps {
		s := &f.Steps[i]
		to := WhatIfStep{At: s.At, DoneAt: s.DoneAt, Reason: s.Reason, Evictions: s.Evictions, Undone: s.Undone, Remove: []StepNode{}, Launch: []StepNode{}}
		for _, n := range s.Remove {
			to.Remove, to.SavingHourly = append(to.Remove, stepNode(n)), to.SavingHourly+n.PriceHourly
		}
		for _, n := range s.Launch {
			to.Launch, to.SavingHourly = append(to.Launch, stepNode(n)), to.SavingHourly-n.PriceHourly
		}
		out[i] = to
	}
	return out
}

func stepNode(n forecast.Node) StepNode {
	return StepNode{n.Name, n.Pool, n.Type, n.Zone, n.CapacityType, n.PriceHourly, n.HasPrice}
}

// driftBetween returns the nodes that are drifted in the second snapshot only, or for another reason.
func driftBetween(before, after *cluster.Snapshot) []Drift {
	had, out := map[string]string{}, []Drift{}
	for i := range before.Nodes {
		had[before.Nodes[i].Name] = before.Nodes[i].Drifted
	}
	for i := range after.Nodes {
		if n := &after.Nodes[i]; n.Drifted != "" && had[n.Name] == "" {
			out = append(out, Drift{Node: n.Name, Pool: n.Pool, Reason: n.Drifted})
		}
	}
	return out
}

// stayOf returns the drifted nodes at the end of a forecast, and why they are there.
func stayOf(f *forecast.Result) []Drift {
	why, out := map[string]string{}, []Drift{}
	for _, v := range f.Stays {
		if why[v.Subject] == "" {
			why[v.Subject] = v.About("").String()
		}
	}
	for i := range f.Rest.Nodes {
		if n := &f.Rest.Nodes[i]; n.Drifted != "" && !n.Deleting {
			out = append(out, Drift{n.Name, n.Pool, n.Drifted, cmp.Or(why[n.Name], "its turn has not come by "+f.Rest.At.UTC().Format(time.RFC3339))})
		}
	}
	return out
}

// cost is what something costs, and how many nodes it has.
type cost struct {
	hourly float64
	nodes  int
}

func poolsCost(snap *cluster.Snapshot) map[string]cost {
	out, prices := map[string]cost{}, cluster.NewPrices(snap)
	for i := range snap.Pools {
		out[snap.Pools[i].Name] = cost{}
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Claim != "" {
			price, _ := prices.Of(n)
			c := out[n.Pool]
			out[n.Pool] = cost{c.hourly + price, c.nodes + 1}
		}
	}
	return out
}

func workloadsCost(snap *cluster.Snapshot) map[string]cost {
	out, v := map[string]cost{}, CostOf(&State{Snapshot: snap}, ByWorkload)
	for _, row := range v.Rows {
		out[row.Name] = cost{hourly: row.Hourly}
	}
	out["(idle)"] = cost{hourly: v.IdleHourly}
	return out
}

// changesOf returns what each name costs now, left alone and with the change; what changes most comes first.
func changesOf(snaps []*cluster.Snapshot, of func(*cluster.Snapshot) map[string]cost) []Change {
	now, left, then := of(snaps[0]), of(snaps[1]), of(snaps[2])
	names := maps.Clone(now)
	maps.Copy(names, left)
	maps.Copy(names, then)
	out := []Change{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, Change{name, now[name].hourly, left[name].hourly, then[name].hourly, now[name].nodes, left[name].nodes, then[name].nodes})
	}
	size := func(c Change) float64 { return max(c.ThenHourly-c.LeftHourly, c.LeftHourly-c.ThenHourly) }
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(size(b), size(a)) })
	return out
}

// noPlaceOf returns the pods that no new node could take with the change, and could without it.
func noPlaceOf(left, then *Variant) []NoPlace {
	before, running, constraints := map[cluster.PodRef]bool{}, map[cluster.PodRef]bool{}, map[cluster.PodRef]*cluster.Constraints{}
	for _, r := range left.Unplaced {
		before[r.Pod] = true
	}
	for i := range then.Snapshot.Nodes {
		n := &then.Snapshot.Nodes[i]
		for k := range n.Reschedulable {
			r := &n.Reschedulable[k]
			running[r.PodRef], constraints[r.PodRef] = n.Drifted == "" && !n.Deleting, r.Constraints
		}
	}
	for i := range then.Snapshot.Pending {
		constraints[then.Snapshot.Pending[i].PodRef] = then.Snapshot.Pending[i].Constraints
	}
	w, out, at := newWorkloads(then.Snapshot), []NoPlace{}, map[Workload]int{}
	for _, r := range then.Unplaced {
		if before[r.Pod] || constraints[r.Pod] == nil {
			continue
		}
		of := w.of(constraints[r.Pod])
		k, ok := at[of]
		if !ok {
			k = len(out)
			at[of] = k
			out = append(out, NoPlace{Workload: of, Why: r.Why.About("").String()})
		}
		out[k].Pods++
		if running[r.Pod] {
			out[k].Running++
		}
	}
	slices.SortFunc(out, func(a, b NoPlace) int { return a.Workload.compare(b.Workload) })
	return out
}

// IsDifferent reports whether the change does anything that would not be done without it.
func (v *WhatIf) IsDifferent() bool {
	const cent = 0.005
	return len(v.Drift)+len(v.NoDrift)+len(v.NoPlace) > 0 || v.Then.Nodes != v.Left.Nodes || v.Then.Evictions != v.Left.Evictions ||
		max(v.Then.Price.Hourly-v.Left.Price.Hourly, v.Left.Price.Hourly-v.Then.Price.Hourly) >= cent
}
