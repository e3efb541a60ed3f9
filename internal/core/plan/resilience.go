package plan

import (
	"fmt"
	"strings"
)

// Resilience is what it costs and gains that a plan spreads the pods of workloads over more nodes than
// the cheapest plan does.
type Resilience struct {
	// Before is what can be lost with the cheapest plan, After with this one.
	Before, After Loss
	// HoldingBefore and HoldingAfter are how many nodes, launched or there, get their first pod that may not be evicted.
	HoldingBefore, HoldingAfter int
	// CheapestHourly and SpreadHourly are what the launches of the two plans cost, in dollars.
	CheapestHourly, SpreadHourly float64
}

// Loss is the largest share of any workload of ten pods or more, without a spread of its own, that is lost with one node that is
// launched, with one spot offering (an instance type in a zone), or with one zone. Nodes count where they are
// cheapest. What runs on other nodes counts as not lost.
type Loss struct {
	Node, SpotOffering, Zone float64
}

// IsKnown reports whether there is anything to say: of a workload that counts, or of nodes with pods that may not be
// evicted.
func (r Resilience) IsKnown() bool {
	return r.Before != (Loss{}) || r.HoldingBefore != r.HoldingAfter
}

// String returns what spreading costs and gains in words.
func (r Resilience) String() string {
	var parts []string
	share := func(of string, before, after float64) {
		parts = append(parts, fmt.Sprintf("%s: %.0f %% → %.0f %%", of, 100*before, 100*after))
	}
	if r.Before != (Loss{}) {
		share("largest share of any workload on one node", r.Before.Node, r.After.Node)
		if r.Before.SpotOffering > 0 || r.After.SpotOffering > 0 {
			share("on one spot offering", r.Before.SpotOffering, r.After.SpotOffering)
		}
		share("in one zone", r.Before.Zone, r.After.Zone)
	}
	if r.HoldingBefore != r.HoldingAfter {
		parts = append(parts, fmt.Sprintf("nodes with pods that may not be evicted: %d → %d", r.HoldingBefore, r.HoldingAfter))
	}
	cost := "at no cost"
	if r.CheapestHourly > 0 && r.SpreadHourly != r.CheapestHourly {
		cost = fmt.Sprintf("%+.1f %%", 100*(r.SpreadHourly/r.CheapestHourly-1))
	}
	return strings.Join(append(parts, cost), ", ")
}
