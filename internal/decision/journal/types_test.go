package journal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

func sold(name, arch string, cpu int64, offerings ...catalog.Offering) *catalog.Type {
	return &catalog.Type{
		Name: name, Requirements: label.Requirements{label.InstanceType: label.In(name), "kubernetes.io/arch": label.In(arch)},
		Capacity: quantity.List{quantity.CPU: cpu, quantity.Pods: 10}, Offerings: offerings,
	}
}

func at(price float64, change ...func(*catalog.Offering)) catalog.Offering {
	o := catalog.Offering{Zone: "a", CapacityType: "on-demand", PriceHourly: price, Priced: true, Available: true}
	for _, c := range change {
		c(&o)
	}
	return o
}

// launchOfFour is a launch whose pods ask for four cores, in a pool with every reason to pass a cheaper type over.
func launchOfFour() (*cluster.Pool, *plan.Launch) {
	short := func(o *catalog.Offering) { o.Available = false }
	risky := func(o *catalog.Offering) { o.CapacityType, o.Risk = "spot", 1 }
	unpriced := func(o *catalog.Offering) { o.Priced = false }
	inB := func(o *catalog.Offering) { o.Zone = "b" }
	pool := &cluster.Pool{Name: "general", Requirements: label.Requirements{label.InstanceType: label.NotIn("unwanted")}, Types: []*catalog.Type{
		sold("four", "amd64", 4000, at(0.4)), sold("eight", "amd64", 8000, at(0.8)), sold("two", "amd64", 2000, at(0.2)), sold("arm", "arm64", 8000, at(0.3)),
		sold("short", "amd64", 8000, at(0.31, short)), sold("risky", "amd64", 8000, at(0.32, risky)), sold("elsewhere", "amd64", 8000, at(0.33, inB)),
		sold("unwanted", "amd64", 8000, at(0.1)), sold("tiny", "amd64", 1000, at(0.9)), sold("unpriced", "amd64", 8000, at(0, unpriced)),
	}}
	return pool, &plan.Launch{
		Pool: "general", Pods: []cluster.PodRef{{Namespace: "default", Name: "w"}}, Requests: quantity.List{quantity.CPU: 4000, quantity.Pods: 1}, PriceHourly: 0.4, Types: []string{"four", "risky", "eight"},
		Requirements: label.Requirements{label.Zone: label.In("a"), "kubernetes.io/arch": label.In("amd64"), label.InstanceType: label.In("four", "risky", "eight")},
	}
}

// TestCheaperTypesArePassedOverForAReason ranks types: two dearer ones that do not hold the pods are left out.
func TestCheaperTypesArePassedOverForAReason(t *testing.T) {
	t.Parallel()
	pool, l := launchOfFour()
	want := []RankedType{
		{Type: "unwanted", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.1, Why: "node.kubernetes.io/instance-type is unwanted, and must be NotIn [unwanted]"},
		{Type: "two", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.2, Why: "too small: it has 2 of 4 cpu"},
		{Type: "arm", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.3, Why: "kubernetes.io/arch is arm64, and must be In [amd64]"},
		{Type: "short", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.31, Why: "not available then"},
		{Type: "risky", CapacityType: "spot", Zone: "a", PriceHourly: 0.32, CountsHourly: 0.64, Rank: 2},
		{Type: "elsewhere", CapacityType: "on-demand", Zone: "b", PriceHourly: 0.33, Why: "topology.kubernetes.io/zone must be In [a]"},
		{Type: "four", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.4, Rank: 1},
		{Type: "eight", CapacityType: "on-demand", Zone: "a", PriceHourly: 0.8, Rank: 3},
		{Type: "unpriced", CapacityType: "on-demand", Zone: "a", NoPrice: true, Rank: 4},
	}
	if diff := cmp.Diff(want, rank(pool, l)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestARankingFindsItsLaunch looks for launches of each loop, and says so where one cannot be known.
func TestARankingFindsItsLaunch(t *testing.T) {
	t.Parallel()
	pool, l := launchOfFour()
	snap := &cluster.Snapshot{Pools: []cluster.Pool{*pool}}
	command := func(launches ...plan.Launch) *record.Decision {
		return &record.Decision{Loop: record.Disruption, Snapshot: snap, Disruption: plan.Disruption{Commands: []plan.Command{{}, {Launch: launches}}}}
	}
	launched, byCommand := "launched for 1 pod", "launched by command 2 (Underutilized)"
	for name, c := range map[string]struct {
		what string
		d    *record.Decision
		says string // of the error; empty: there is none
	}{
		"of a plan":          {launched, &record.Decision{Snapshot: snap, Plan: plan.Plan{Launches: []plan.Launch{{}, *l}}, Claims: []string{"", "general-1"}}, ""},
		"of a static pool":   {"launched as one of 2 of static pool general", &record.Decision{Loop: record.Static, Snapshot: snap, Scaling: plan.Scaling{Launches: []plan.Launch{*l}}, Claims: []string{"general-1"}}, ""},
		"of a command":       {byCommand, command(*l), ""},
		"of two by one":      {byCommand, command(*l, *l), "it is not kept which of them general-1 is"},
		"of none":            {byCommand, command(), "does not have the launch of general-1"},
		"of another":         {launched, &record.Decision{Snapshot: snap, Plan: plan.Plan{Launches: []plan.Launch{*l}}, Claims: []string{"general-2"}}, "does not have the launch of general-1"},
		"without its pool":   {launched, &record.Decision{Snapshot: &cluster.Snapshot{}, Plan: plan.Plan{Launches: []plan.Launch{*l}}, Claims: []string{"general-1"}}, "has no pool general"},
		"that nobody knows":  {"stays (Unconsolidatable)", command(*l), "no decision is known to have launched general-1"},
		"of no such command": {"launched by command 9 (Drifted)", command(*l), "does not have the launch of general-1"},
	} {
		if _, ok := (&Answer{Kind: KindPool, Name: "general-1", Says: []Say{{What: c.what, Decision: ID{Number: 7}}}}).LaunchedBy(); ok {
			t.Errorf("%s: a NodePool is said to have been launched", name)
		}
		a := Answer{Kind: KindClaim, Name: "general-1", Says: []Say{{What: "meant for 2 pods"}, {What: c.what, Decision: ID{Number: 7}}}}
		err := a.Rank(c.d)
		if c.says == "" && (err != nil || a.Ranking == nil || len(a.Ranking.Types) != 9) {
			t.Errorf("%s: %v, %+v", name, err, a.Ranking)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}
