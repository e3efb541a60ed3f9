package view_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// scenarios is how many random clusters the figures are of.
const scenarios = 500

// TestNoPlanIsCheaperThanABound lets the controller go on by itself in random clusters: no launches cost less than the
// bound of their decision, and at rest the nodes cost no less than the bound of all nodes, as long as the nodes that it
// holds are there.
func TestNoPlanIsCheaperThanABound(t *testing.T) {
	t.Parallel()
	launches, fleets := 0, 0
	pending, running := rapid.Custom(story.Any), rapid.Custom(settled)
	for seed := range scenarios {
		text := pending.Example(seed)
		if p := pack.Decide(parsed(t, text), pack.Options{}); p.BoundHourly > 0 && len(p.Launches) > 0 {
			if launches++; p.PriceHourly() < p.BoundHourly-1e-9 {
				t.Errorf("seed %d: launches cost %g, less than the bound %g\n%s", seed, p.PriceHourly(), p.BoundHourly, text)
			}
		}
		text = running.Example(seed)
		snap := parsed(t, text)
		d, next := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
		b, ok := view.BoundOf(snap, &d, next.Search)
		if !ok {
			continue
		}
		rest := forecast.Run(snap, forecast.Options{}).Rest
		if !holds(snap, rest, &b) {
			continue
		}
		if fleets++; priceOf(rest) < b.LeastHourly-1e-9 {
			t.Errorf("seed %d: at rest the nodes cost %g, less than the bound %g\n%s", seed, priceOf(rest), b.LeastHourly, text)
		}
	}
	t.Logf("%d scenarios: %d plans with launches and %d clusters at rest have a bound", scenarios, launches, fleets)
	if launches < scenarios/10 || fleets < scenarios/10 {
		t.Errorf("only %d plans with launches and %d clusters at rest have a bound", launches, fleets)
	}
}

// settled draws a cluster in which all pods run, on nodes of known price.
func settled(t *rapid.T) string {
	var b strings.Builder
	for i := range 3 {
		fmt.Fprintf(&b, "type t%d cpu=%d memory=%dGi price=0.%d0 %s\n", i, 2<<i, 4<<i, rapid.IntRange(1+2*i, 3+2*i).Draw(t, "price"), rapid.SampledFrom([]string{"", "spot=0.03"}).Draw(t, "spot"))
	}
	fmt.Fprintf(&b, "pool p after=%s %s\n", rapid.SampledFrom([]string{"0s", "30s"}).Draw(t, "after"), rapid.SampledFrom([]string{"", "policy=WhenEmpty", "limit.cpu=40"}).Draw(t, "rule"))
	b.WriteString("pdb held allowed=0\n")
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		kind, workloads, empty := rapid.IntRange(0, 2).Draw(t, "type"), rapid.IntRange(0, 2).Draw(t, "workloads"), ""
		if workloads == 0 {
			empty = "empty"
		}
		fmt.Fprintf(&b, "node n%d pool=p type=t%d last-pod-event=1h %s\n", i, kind, empty)
		for k := range workloads {
			fmt.Fprintf(&b, "running w%d-%d on=n%d cpu=%dm memory=%dMi app=w%d %s\n", i, k, i, rapid.IntRange(50, 900<<kind).Draw(t, "cpu"), rapid.IntRange(10, 1500<<kind).Draw(t, "memory"), k,
				rapid.SampledFrom([]string{"", "", "", "pdb=held"}).Draw(t, "held"))
		}
	}
	return b.String()
}

func parsed(t *testing.T, text string) *cluster.Snapshot {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return snap
}

// holds reports whether a bound speaks about a cluster that came of another: all pods run there, and where the bound
// holds nodes, all nodes are there still.
func holds(before, after *cluster.Snapshot, b *view.Bound) bool {
	if len(after.Pending) > 0 || podsIn(before) != podsIn(after) {
		return false
	}
	if b.NodesHeld == 0 {
		return true
	}
	there := map[string]bool{}
	for i := range after.Nodes {
		there[after.Nodes[i].Name] = true
	}
	for i := range before.Nodes {
		if !there[before.Nodes[i].Name] {
			return false
		}
	}
	return true
}

func podsIn(snap *cluster.Snapshot) (pods int) {
	for i := range snap.Nodes {
		pods += len(snap.Nodes[i].Reschedulable)
	}
	return pods
}

func priceOf(snap *cluster.Snapshot) (hourly float64) {
	prices := cluster.NewPrices(snap)
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Claim != "" {
			price, _ := prices.Of(n)
			hourly += price
		}
	}
	return hourly
}
