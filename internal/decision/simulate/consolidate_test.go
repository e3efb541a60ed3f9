package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// stillClock is for tests that do not look at times.
func stillClock() Clock {
	return Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }}
}

// TestStepsAreSound carries the steps for random clusters out with a judge that shares
// nothing with the search. The judge looks at the cluster after each step, so it judges
// every beginning of the list.
func TestStepsAreSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0.1, 0.4}).Draw(t, name) }
		f := family{
			name: "random", spot: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "spot"), fill: rapid.Float64Range(0.1, 1).Draw(t, "fill"),
			guarded: share("guarded"), held: share("held"), spread: share("spread"), apart: share("apart"), local: share("local"), thin: 15,
		}
		s := f.generate(t, rapid.IntRange(2, 25).Draw(t, "nodes"), rapid.Uint64().Draw(t, "seed"))
		if rapid.Bool().Draw(t, "limited") {
			s.NodePools[0].LimitCPU = int64(len(s.Nodes)) * 10000
		}
		opts := consolidate.Options{Terms: consolidate.Terms{
			EvictionHourly: rapid.SampledFrom([]float64{0, 0.0001, 0.01, 1000}).Draw(t, "eviction"),
			StepMax:        rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(t, "most"),
		}}
		first, r := steps(t, s, opts)
		if second, _ := steps(t, s, opts); !cmp.Equal(first, second) {
			t.Fatalf("two answers:\n%s\n%s", first, second)
		}
		if r.EvictedAgain > 0 {
			t.Fatalf("%d pods are evicted twice", r.EvictedAgain)
		}
		if opts.EvictionHourly == 1000 && r.Evictions > 0 {
			t.Fatalf("%d pods are evicted at a price of 1000 $/h each", r.Evictions)
		}
		for i := 1; i < len(r.Prices); i++ {
			if r.Prices[i] > r.Prices[i-1]+1e-9 {
				t.Fatalf("step %d makes it dearer: %.4f after %.4f", i, r.Prices[i], r.Prices[i-1])
			}
		}
	})
}

// TestTheBoundIsBelowWhatSpotMayCost: a launch of spot is reckoned with at the price of the
// last of several places, but it may get the first.
func TestTheBoundIsBelowWhatSpotMayCost(t *testing.T) {
	t.Parallel()
	f := family{name: "spot", spot: 0.5, fill: 0.1, guarded: 0.1, spread: 0.1, apart: 0.4, local: 0.1, thin: 15}
	steps(t, f.generate(t, 3, 1480), consolidate.Options{Terms: consolidate.Terms{StepMax: 1000}})
}

// TestLimitsHoldWhateverIsLaunched: a launch names larger types than the one that was counted
// against the limits, and several of one step would pass them together.
func TestLimitsHoldWhateverIsLaunched(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	f := family{name: "limited", spot: 0.5, fill: 1, spread: 0.1, thin: 15}
	s := f.generate(t, 13, 0x1b37)
	s.NodePools[0].LimitCPU = 130_000
	steps(t, s, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: 0.0001, StepMax: 1000}})
}

// tester is what both testing.TB and rapid.T are.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// anySpot lets spot nodes be replaced by any spot node, as in the published figures.
func anySpot() consolidate.Terms { return consolidate.Terms{SpotToSpot: true, SpotTypesMin: -1} }

// steps returns the answer as a file, and what the judge says of it; it fails when that
// is anything bad.
func steps(t tester, s *scenario.Scenario, opts consolidate.Options) (string, scenario.StepsReport) {
	t.Helper()
	opts.SpotToSpot, opts.SpotTypesMin = anySpot().SpotToSpot, anySpot().SpotTypesMin
	a := Consolidate(Case{Name: s.Name, Snapshot: s.Snapshot(time.Unix(0, 0)), Options: scenarioOptions()}, opts, stillClock())
	file, err := a.File()
	if err != nil {
		t.Fatal(err)
	}
	r := scenario.CheckSteps(s, file)
	if len(r.Violations) > 0 {
		t.Fatalf("%s:\n%s", s.Name, strings.Join(r.Violations, "\n"))
	}
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), r
}

// karpenter is what Karpenter's loop ends with (design study, v1.14.1 and v1.15.0; for families bench/karpenter).
type karpenter struct {
	price     float64
	evictions int
	finished  bool
}

// TestPublicConsolidations judges the steps for the public scenarios. Its log is the
// table of docs/lab/consolidation.md: go test -run PublicConsolidations -v.
//
// Floor is how many evictions are needed at least to come to Karpenter's price, whatever the
// method. 40 % fewer than Karpenter's are reached wherever they are not fewer than that.
func TestPublicConsolidations(t *testing.T) {
	t.Parallel()
	testkit.Unraced(t)
	want := map[string]karpenter{
		"p3-consolidate-100":      {15.71, 770, true},
		"p3-consolidate-100-4xl":  {16.85, 869, true},
		"p3-consolidate-500-4xl":  {88.76, 2179, false},
		"p3-consolidate-1000":     {181.34, 4336, false},
		"p3-consolidate-2000-4xl": {394.74, 6353, false},
	}
	files, err := filepath.Glob(filepath.Join("testdata", "p3-*.json.gz"))
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d scenarios (%v), want %d", len(files), err, len(want))
	}
	if testkit.Raced || testing.Short() {
		files = files[:1]
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			k := want[name]
			var lines []string
			a, low := approach{price: k.price, evictions: k.evictions, fewest: math.MaxInt, cheapest: math.Inf(1), above: 0.06}, math.Inf(1)
			try := func(eviction float64) {
				opts := consolidate.Options{Terms: consolidate.Terms{EvictionHourly: eviction, StepMax: 1 << 20}}
				file, r := steps(t, s, opts)
				var p scenario.Plan
				if err := json.Unmarshal([]byte(file), &p); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, fmt.Sprintf("  eviction %6.4f: %8.2f $/h (x %.3f), %5d evictions, %4d steps", eviction, r.PricePerHour, r.PricePerHour/p.LowerBoundPerHour, r.Evictions, len(p.Steps)))
				a.count(eviction, r)
				low = min(low, r.PricePerHour/p.LowerBoundPerHour)
			}
			for _, eviction := range []float64{0, 0.0002, 0.005, 0.0075, 0.009, 0.012, 0.02, 0.028, 0.057} {
				try(eviction)
			}
			for range 5 {
				if len(s.Nodes) > 1000 {
					break // no more is to be gained, and it takes long
				}
				try(a.next())
			}
			floor := newFleet(s).floor(k.price)
			if a.fewest < floor {
				t.Errorf("%d evictions were enough, though %d are needed at least: one of them is wrong", a.fewest, floor)
			}
			if goal := k.evictions * 6 / 10; a.fewest > goal && floor <= goal {
				t.Errorf("%d evictions, 40 %% fewer than Karpenter's are %d, and that is not shown to be impossible", a.fewest, goal)
			}
			if a.fewest >= k.evictions || a.cheapest >= k.price || low > 1.05 {
				t.Errorf("evictions %d, price %.2f, nearest to the bound %.3f: Karpenter has %d and %.2f, and 1.05 is wanted", a.fewest, a.cheapest, low, k.evictions, k.price)
			}
			checkDefaults(t, s, k)
			t.Logf("%s: at %.2f $/h %d evictions, Karpenter %d (%.0f %% fewer; 40 %% are %d, at least %d are needed); with at most as many %.2f $/h; nearest to the bound x %.3f\n%s", name,
				k.price, a.fewest, k.evictions, 100*(1-float64(a.fewest)/float64(k.evictions)), k.evictions*6/10, floor, a.cheapest, low, strings.Join(lines, "\n"))
		})
	}
}

// checkDefaults judges the plan with the controller's defaults: cheaper than Karpenter, with fewer evictions where that came to an end, and
// complete.
func checkDefaults(t *testing.T, s *scenario.Scenario, k karpenter) {
	t.Helper()
	text, r := steps(t, s, consolidate.Options{})
	var p scenario.Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	_, again := steps(t, s.After(&p), consolidate.Options{})
	saved := r.PricePerHour - again.PricePerHour
	t.Logf("%s by default: %.2f $/h (x %.3f), %d evictions, %d steps; a second look saves %.2f with %d evictions",
		s.Name, r.PricePerHour, r.PricePerHour/p.LowerBoundPerHour, r.Evictions, len(p.Steps), saved, again.Evictions)
	if r.PricePerHour >= k.price || k.finished && r.Evictions >= k.evictions || saved > 0.01*r.PricePerHour {
		t.Errorf("by default %.2f $/h with %d evictions, Karpenter %.2f with %d; a second look saves %.2f", r.PricePerHour, r.Evictions, k.price, k.evictions, saved)
	}
}
