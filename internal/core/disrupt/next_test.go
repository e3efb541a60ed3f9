package disrupt_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestTimeAloneIsKnownAhead: consolidateAfter of an empty node elapses, or pods are no longer
// expected on it. The next decision is made then, though there is no event.
func TestTimeAloneIsKnownAhead(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	in := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	node := func(change func(*cluster.Node)) cluster.Node {
		n := cluster.Node{Name: "n", Claim: "c", Pool: "p", Empty: true, LastPodEvent: in(-60)}
		change(&n)
		return n
	}
	for name, c := range map[string]struct {
		node cluster.Node
		want time.Time
	}{
		"consolidateAfter has elapsed":          {node(func(*cluster.Node) {}), time.Time{}},
		"consolidateAfter elapses":              {node(func(n *cluster.Node) { n.LastPodEvent = in(-20) }), in(10)},
		"it is meant for a pod that is to come": {node(func(n *cluster.Node) { n.Planned, n.PlannedUntil = 1, in(7) }), in(7)},
		"that pod did not come":                 {node(func(n *cluster.Node) { n.PlannedUntil = in(-7) }), time.Time{}},
		"it has pods":                           {node(func(n *cluster.Node) { n.Empty, n.LastPodEvent = false, in(-20) }), time.Time{}},
		"it leaves":                             {node(func(n *cluster.Node) { n.Deleting, n.LastPodEvent = true, in(-20) }), time.Time{}},
		"it is not ours":                        {node(func(n *cluster.Node) { n.Claim, n.LastPodEvent = "", in(-20) }), time.Time{}},
		"its pool is not there":                 {node(func(n *cluster.Node) { n.Pool, n.LastPodEvent = "q", in(-20) }), time.Time{}},
	} {
		snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{{Name: "p", ConsolidateAfter: 30 * time.Second}}, Nodes: []cluster.Node{c.node}}
		if got := disrupt.NextAt(snap); !got.Equal(c.want) {
			t.Errorf("%s: looked at again at %s, want %s", name, got, c.want)
		}
	}
	scheduled := &cluster.Snapshot{
		At: in(75), Nodes: []cluster.Node{node(func(*cluster.Node) {})},
		Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Active: true}, {Scheduled: true}}}},
	}
	if got := disrupt.NextAt(scheduled); !got.Equal(in(120)) {
		t.Errorf("one whose pool has a budget with a schedule is looked at again at %s, want the next full minute", got)
	}
	old := node(func(n *cluster.Node) { n.Empty, n.Created, n.Expires = false, in(-3600), in(3600) })
	snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{{Name: "p"}}, Nodes: []cluster.Node{old}}
	if got := disrupt.NextAt(snap); got.Before(in(2000)) || got.After(in(3600)) {
		t.Errorf("one that ends in an hour is looked at again at %s", got)
	}
}

func TestFallingPricesAreSeen(t *testing.T) {
	t.Parallel()
	offering := func(zone string, dollars float64) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: "spot", Priced: true, PriceHourly: dollars, Available: true}
	}
	unpriced := offering("b", 0.1)
	unpriced.Priced = false
	pools := func(name string, types ...*catalog.Type) []cluster.Pool {
		return []cluster.Pool{{Name: name, Types: types}}
	}
	was := pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.20), unpriced}})
	short := offering("a", 0.20)
	short.Available = false
	for name, c := range map[string]struct {
		now  []cluster.Pool
		want bool
	}{
		"the same":            {was, false},
		"the same, read anew": {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.20), unpriced}}), false},
		"cheaper":             {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.19)}}), true},
		"dearer":              {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.21)}}), false},
		"short":               {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{short}}), false},
		"a price is known":    {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.20), offering("b", 0.30)}}), true},
		"a new type":          {pools("p", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.20)}}, &catalog.Type{Name: "six", Offerings: []catalog.Offering{offering("a", 0.90)}}), true},
		"a type is gone":      {pools("p"), false},
		"another pool":        {pools("q", &catalog.Type{Name: "four", Offerings: []catalog.Offering{offering("a", 0.10)}}), true},
		"no pool":             {nil, false},
	} {
		if got := disrupt.Cheaper(was, c.now); got != c.want {
			t.Errorf("%s: cheaper %v, want %v", name, got, c.want)
		}
	}
	if disrupt.Cheaper(nil, was) {
		t.Error("the first decision takes all prices for new ones")
	}
}

// TestRoomInAPoolIsSeen as soon as its limits or its class let something be bought.
func TestRoomInAPoolIsSeen(t *testing.T) {
	t.Parallel()
	pool := func(unready string, limits quantity.List) []cluster.Pool {
		return []cluster.Pool{{Name: "p", Unready: unready, Limits: limits}}
	}
	ten, more, other := quantity.List{"cpu": 10, "nodes": 4}, quantity.List{"cpu": 10, "nodes": 5}, quantity.List{"cpu": 10}
	for name, c := range map[string]struct {
		was, now []cluster.Pool
		want     bool
	}{
		"the same":                {pool("", ten), pool("", ten), false},
		"a limit is higher":       {pool("", ten), pool("", more), true},
		"a limit is lower":        {pool("", more), pool("", ten), false},
		"a limit is gone":         {pool("", ten), pool("", other), true},
		"there is a limit":        {pool("", other), pool("", ten), false},
		"it is ready":             {pool("class", ten), pool("", ten), true},
		"it is ready no more":     {pool("", ten), pool("class", ten), false},
		"it is still not ready":   {pool("class", ten), pool("type", ten), false},
		"its pool was not there":  {[]cluster.Pool{{Name: "q"}}, append([]cluster.Pool{{Name: "q"}}, pool("", ten)...), true},
		"another pool is no more": {append([]cluster.Pool{{Name: "q"}}, pool("", ten)...), pool("", ten), false},
	} {
		if got := disrupt.Cheaper(c.was, c.now); got != c.want {
			t.Errorf("%s: cheaper %v, want %v", name, got, c.want)
		}
	}
}

// TestWhenStepsGoOnIsKnownAhead: nobody needs to look at them before, unless a node comes.
func TestWhenStepsGoOnIsKnownAhead(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	drifted := func(since time.Duration, launches int) cluster.Node {
		return cluster.Node{
			Name: "old", Claim: "old", Pool: "p", Initialized: true, Ready: true, DisruptedTaint: true, DisruptionReason: disrupt.Drifted, DisruptedSince: in(since),
			Disruption:    cluster.Disruption{Drifted: "Drift", Step: "s", StepRemoves: 1, StepLaunches: launches},
			Reschedulable: []cluster.ReschedulablePod{{Constraints: &cluster.Constraints{}}},
		}
	}
	coming := cluster.Node{Name: "new", Claim: "new", Pool: "p", Empty: true, Disruption: cluster.Disruption{Replaces: "s"}}
	deleting := drifted(-time.Minute, 0)
	deleting.Deleting = true
	idle := drifted(-time.Minute, 0)
	idle.DisruptionReason, idle.DisruptedTaint, idle.Step, idle.Drifted = "", false, "", ""
	for name, c := range map[string]struct {
		nodes []cluster.Node
		want  time.Time
	}{
		"nothing is under way":             {[]cluster.Node{idle}, time.Time{}},
		"a command was begun a moment ago": {[]cluster.Node{drifted(-time.Second, 1), coming}, in(time.Second)},
		"its replacement is to come":       {[]cluster.Node{drifted(-time.Minute, 1), coming}, in(9 * time.Minute)},
		"its pods have nowhere to go now":  {[]cluster.Node{drifted(-2*time.Second, 0)}, time.Time{}}, // it is undone
		"its claim is deleted":             {[]cluster.Node{deleting}, time.Time{}},
		"a command without launches waits": {[]cluster.Node{drifted(-time.Second, 0)}, in(time.Second)},
	} {
		snap := &cluster.Snapshot{At: noon, Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Nodes: 100, Percent: true, Active: true}}}}, Nodes: c.nodes}
		memory := disrupt.Memory{Busy: true, DecidedAt: noon} // so that only commands in progress are decided about
		if _, next := disrupt.Propose(snap, memory, disrupt.Options{Grace: 2 * time.Second}); !next.CommandsAt.Equal(c.want) {
			t.Errorf("%s: decided about again at %s, want %s", name, next.CommandsAt, c.want)
		}
	}
}
