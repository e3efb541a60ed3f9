package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestFamiliesAgainstKarpenter compares the plans for 100 and 500 nodes of every family with
// what Karpenter's own consolidation ends with: one must come to its price with 40 % fewer
// evictions, unless nobody can, and one must be cheaper with no more. CONSOLIDATE_NODES asks for one
// size, CONSOLIDATE_SCENARIOS names a directory for the scenarios, which bin/bench/karpenter reads,
// and CONSOLIDATE_PROGRAM a file for the program of the fewest evictions.
func TestFamiliesAgainstKarpenter(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	testkit.Unraced(t)
	for _, f := range families() {
		sizes := slices.Sorted(maps.Keys(f.karpenter))
		if os.Getenv("CONSOLIDATE_NODES") != "" {
			sizes = []int{nodeCount(t)}
		}
		for _, nodes := range sizes {
			t.Run(fmt.Sprintf("%s-%d", f.name, nodes), func(t *testing.T) {
				t.Parallel()
				f.againstKarpenter(t, nodes)
			})
		}
	}
}

// relaxed is how many evictions are needed at least by the relaxation of the program of anybody,
// which knows what a pod of each size needs (cbc; docs/lab/consolidation.md), where the floor
// does not say.
var relaxed = map[string]int{"held-100": 304}

// againstKarpenter compares the plans for one cluster.
func (f family) againstKarpenter(t *testing.T, nodes int) {
	t.Helper()
	s := f.generate(t, nodes, 7)
	if dir := os.Getenv("CONSOLIDATE_SCENARIOS"); dir != "" {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, s.Name+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, known := f.karpenter[nodes]
	if !known {
		t.Skipf("what Karpenter ends with from %d nodes is not known", nodes)
	}
	a := approach{price: k.price, evictions: k.evictions, fewest: math.MaxInt, cheapest: math.Inf(1), above: 0.06}
	try := func(eviction float64) {
		_, r := steps(t, s, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: eviction}})
		a.count(eviction, r)
	}
	fleet := newFleet(s)
	fleet.writeProgram(t, k.price)
	floor, goal := max(fleet.floor(k.price), relaxed[s.Name]), k.evictions*6/10
	possible := floor <= goal
	for _, eviction := range []float64{0.002, 0.01, 0.02} {
		try(eviction)
	}
	for tries := 0; tries < 12 && (possible && a.fewest > goal || a.fewest > k.evictions || a.cheapest >= k.price); tries++ {
		try(a.next())
	}
	t.Logf("Karpenter comes to %.2f $/h with %d evictions; ours has that price with %d (%.0f %% fewer; 40 %% are %d, at least %d are needed), and %.2f with no more",
		k.price, k.evictions, a.fewest, 100*(1-float64(a.fewest)/float64(k.evictions)), goal, floor, a.cheapest)
	if a.fewest < floor {
		t.Errorf("%d evictions were enough, though %d are needed at least: one of them is wrong", a.fewest, floor)
	}
	if possible && a.fewest > goal {
		t.Errorf("%d evictions, 40 %% fewer than Karpenter's are %d, and that is not shown to be impossible", a.fewest, goal)
	}
	if a.fewest > k.evictions || a.cheapest >= k.price {
		t.Errorf("Karpenter is as good")
	}
}
