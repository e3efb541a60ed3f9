package main

// priced returns what the nodes cost in dollars an hour, at the prices of a capacity type, by labels.
// Nodes have the price that a launch of their type would have now.
func priced(by, capacityType string) string {
	price := `max by (instance_type, capacity_type, zone) (karpenter_cloudprovider_instance_type_offering_price_estimate)`
	on := `instance_type, capacity_type, zone`
	if capacityType != "" {
		price = `max by (instance_type, zone) (karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="` + capacityType + `"})`
		on = `instance_type, zone`
	}
	return `sum by (` + by + `) (count by (nodepool, instance_type, capacity_type, zone) (karpenter_nodes_allocatable{resource_type="cpu", nodepool=~"$nodepool"}) * on (` + on + `) group_left () ` + price + `)`
}

func cost() dashboard {
	const hour = `sum(karpenter_nodepools_cost_total{nodepool=~"$nodepool"})`
	return dashboard{
		Name: "cost", Title: "Karpenter / Cost", Description: "What the nodes of each NodePool cost, at list and spot prices, before discounts.",
		Variables: []variable{{"nodepool", "NodePool", "karpenter_nodepools_cost_total"}},
		Rows: []row{
			{"Now", []panel{
				{Title: "An hour", Kind: "stat", Unit: "currencyUSD", Width: 6, Description: "Price of all instances, an hour.", Queries: []query{{hour, "an hour"}}},
				{Title: "A month", Kind: "stat", Unit: "currencyUSD", Width: 6, Description: "The same for 730 hours.", Queries: []query{{hour + ` * 730`, "a month"}}},
				{Title: "A core", Kind: "stat", Unit: "currencyUSD", Width: 6, Description: "Price of a core that pods ask for, an hour.", Queries: []query{
					{hour + ` / sum(karpenter_nodes_total_pod_requests{resource_type="cpu", nodepool=~"$nodepool", managed="true"})`, "a requested core"},
				}},
				{Title: "Age of prices", Kind: "stat", Unit: "s", Width: 6, Description: "How long ago the oldest of the prices in use were read.", Queries: []query{{`max(time() - dovetail_prices_read_timestamp_seconds)`, "age"}}},
			}},
			{"Over time", []panel{
				{Title: "By NodePool", Kind: "timeseries", Unit: "currencyUSD", Stacked: true, Description: "Price of the instances of each NodePool, an hour.", Queries: []query{{`max by (nodepool) (karpenter_nodepools_cost_total{nodepool=~"$nodepool"})`, "{{nodepool}}"}}},
				{Title: "By capacity type", Kind: "timeseries", Unit: "currencyUSD", Stacked: true, Description: "Price of the nodes of each capacity type, an hour.", Queries: []query{{priced("capacity_type", ""), "{{capacity_type}}"}}},
				{Title: "By instance type", Kind: "timeseries", Unit: "currencyUSD", Stacked: true, Description: "Price of the nodes of each instance type, an hour.", Queries: []query{{priced("instance_type", ""), "{{instance_type}}"}}},
				{Title: "Saved by spot", Kind: "timeseries", Unit: "currencyUSD", Description: "What the same nodes would cost on demand, and what they cost, an hour.", Queries: []query{
					{priced("", "on-demand"), "on demand"},
					{priced("", ""), "as they are"},
				}},
				{Title: "Not requested", Kind: "timeseries", Unit: "currencyUSD", Stacked: true, Description: "Price of the CPU that no pod asks for, an hour.", Queries: []query{
					{`max by (nodepool) (karpenter_nodepools_cost_total{nodepool=~"$nodepool"}) * on (nodepool) (1 - sum by (nodepool) (karpenter_nodes_total_pod_requests{resource_type="cpu", nodepool=~"$nodepool"}) / sum by (nodepool) (karpenter_nodes_allocatable{resource_type="cpu", nodepool=~"$nodepool"}))`, "{{nodepool}}"},
				}},
				{Title: "Price of a core", Kind: "timeseries", Unit: "currencyUSD", Description: "Price of a core that nodes offer, an hour.", Queries: []query{
					{`max by (nodepool) (karpenter_nodepools_cost_total{nodepool=~"$nodepool"}) / on (nodepool) sum by (nodepool) (karpenter_nodes_allocatable{resource_type="cpu", nodepool=~"$nodepool"})`, "{{nodepool}}"},
				}},
			}},
		},
	}
}
