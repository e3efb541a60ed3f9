package plan

import "fmt"

// Resilience is what it costs and gains that a plan spreads the pods of workloads over more nodes than
// the cheapest plan does.
type Resilience struct {
	// Before is what can be lost with the cheapest plan, After with this one.
	Before, After Loss
	// CheapestHourly and SpreadHourly are what the launches of the two plans cost, in dollars.
	CheapestHourly, SpreadHourly float64
}

// Loss is the largest share of any workload of ten pods or more, without a spread of its own, that is lost with one node that is
// launched, with one spot offering (an instance type in a zone), or with one zone. Nodes count where they are
// cheapest. What runs on other nodes counts as not lost.
type Loss struct {
	Node, SpotOffering, Zone float64
}

// String returns what spreading costs and gains in words.
func (r Resilience) String() string {
	cost := "at no cost"
	if r.CheapestHourly > 0 && r.SpreadHourly != r.CheapestHourly {
		cost = fmt.Sprintf("%+.1f %%", 100*(r.SpreadHourly/r.CheapestHourly-1))
	}
	spot := ""
	if r.Before.SpotOffering > 0 || r.After.SpotOffering > 0 {
		spot = fmt.Sprintf(", on one spot offering: %.0f %% → %.0f %%", 100*r.Before.SpotOffering, 100*r.After.SpotOffering)
	}
	return fmt.Sprintf("largest share of any workload on one node: %.0f %% → %.0f %%%s, in one zone: %.0f %% → %.0f %%, %s",
		100*r.Before.Node, 100*r.After.Node, spot, 100*r.Before.Zone, 100*r.After.Zone, cost)
}
