package simulate

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestALargeClusterComesNearTheBound: what is found for thousands of nodes together is worth
// nothing unless it can be done in commands of 32 nodes, each of which launches what the next ones fill.
// CONSOLIDATE_FAMILY names another family than mixed; of all of it a plan takes minutes.
func TestALargeClusterComesNearTheBound(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	testkit.Unraced(t)
	all := families()
	at := slices.IndexFunc(all, func(f family) bool { return f.name == cmp.Or(os.Getenv("CONSOLIDATE_FAMILY"), "mixed") })
	if at < 0 {
		t.Fatalf("CONSOLIDATE_FAMILY %q: no such family", os.Getenv("CONSOLIDATE_FAMILY"))
	}
	s := all[at].generate(t, 5000, 7)
	text, r := steps(t, s, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: 0.0005}})
	var plan scenario.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	bound := max(plan.LowerBoundPerHour, leastPrice(s))
	t.Logf("%s: %.2f $/h (x %.4f of the bound, %.2f), %d evictions, %d steps", s.Name, r.PricePerHour, r.PricePerHour/bound, bound, r.Evictions, len(plan.Steps))
	if r.PricePerHour > 1.03*bound {
		t.Errorf("%.2f $/h are more than 1.03 of the bound, %.2f", r.PricePerHour, bound)
	}
}
