package simulate

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestALargeClusterComesNearTheBound: what is found for thousands of machines together is worth
// nothing unless it can be done in steps of 32, each of which buys what the next ones fill.
func TestALargeClusterComesNearTheBound(t *testing.T) {
	t.Parallel()
	if testkit.Raced {
		t.Skip("it takes a minute with the race detector, and one search has one goroutine")
	}
	s := family{name: "mixed", fill: 0.4, spot: 0.5}.generate(t, 5000, 7)
	text, r := steps(t, s, disrupt.ConsolidateOptions{Terms: disrupt.Terms{EvictionHourly: 0.0005}})
	var plan scenario.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f $/h (x %.4f of the bound), %d evictions, %d steps", r.PricePerHour, r.PricePerHour/plan.LowerBoundPerHour, r.Evictions, len(plan.Steps))
	if r.PricePerHour > 1.03*plan.LowerBoundPerHour {
		t.Errorf("%.2f $/h are more than 1.03 of the bound, %.2f", r.PricePerHour, plan.LowerBoundPerHour)
	}
}
