package main

// onNodes chooses the nodes of the variables of the dashboard.
const onNodes = `nodepool=~"$nodepool", zone=~"$zone", arch=~"$arch", capacity_type=~"$capacity_type", instance_type=~"$instance_type"`

func nodeVariables() []variable {
	const of = "karpenter_nodes_allocatable"
	return []variable{
		{"nodepool", "NodePool", of},
		{"zone", "Zone", of},
		{"arch", "Architecture", of},
		{"capacity_type", "Capacity type", of},
		{"instance_type", "Instance type", of},
	}
}

// requested returns the share of what nodes offer that their pods ask for, by labels.
func requested(by, resource string) string {
	return `sum by (` + by + `) (karpenter_nodes_total_pod_requests{resource_type="` + resource + `", ` + onNodes + `}) / sum by (` + by + `) (karpenter_nodes_allocatable{resource_type="` + resource + `", ` + onNodes + `})`
}

func capacity() dashboard {
	const nodes = `karpenter_nodes_allocatable{resource_type="cpu", ` + onNodes + `}`
	return dashboard{
		Name: "capacity", Title: "Karpenter / Capacity", Description: "Which nodes there are, what they are used for, and how they come and go.",
		Variables: nodeVariables(),
		Rows: []row{
			{"Now", []panel{
				{Title: "Nodes", Kind: "stat", Unit: "short", Width: 4, Description: "Nodes in the cache.", Queries: []query{{`count(` + nodes + `)`, "nodes"}}},
				{Title: "Spot nodes", Kind: "stat", Unit: "percentunit", Width: 4, Description: "Share of the nodes that are spot instances.", Queries: []query{
					{`(count(karpenter_nodes_allocatable{resource_type="cpu", nodepool=~"$nodepool", capacity_type="spot"}) or vector(0)) / count(karpenter_nodes_allocatable{resource_type="cpu", nodepool=~"$nodepool"})`, "spot"},
				}},
				{Title: "Pods", Kind: "stat", Unit: "short", Width: 4, Description: "Pods of the cluster, bound or not.", Queries: []query{{`count(karpenter_pods_state)`, "pods"}}},
				{Title: "Waiting pods", Kind: "stat", Unit: "short", Width: 4, Description: "Pods waiting for a decision.", Queries: []query{{`sum(karpenter_scheduler_queue_depth)`, "pods"}}},
				{Title: "Unschedulable pods", Kind: "stat", Unit: "short", Width: 4, Description: "Pods that the last decision refused.", Queries: []query{{`sum(karpenter_scheduler_unschedulable_pods_count)`, "pods"}}},
				{Title: "CPU requested", Kind: "stat", Unit: "percent", Width: 4, Description: "Requests of all pods on nodes, of what the nodes offer.", Queries: []query{{`max(karpenter_cluster_utilization_percent{resource_type="cpu"})`, "cpu"}}},
			}},
			{"Nodes", []panel{
				{Title: "Nodes by NodePool", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Number of nodes.", Queries: []query{{`count by (nodepool) (` + nodes + `)`, "{{nodepool}}"}}},
				{Title: "Nodes by capacity type and zone", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Number of nodes.", Queries: []query{{`count by (capacity_type, zone) (` + nodes + `)`, "{{capacity_type}} {{zone}}"}}},
				{Title: "Nodes created and terminated", Kind: "timeseries", Unit: "short", Description: "Nodes that registered, and nodes that are gone, in the interval.", Queries: []query{
					{`sum by (nodepool) (increase(karpenter_nodes_created_total{nodepool=~"$nodepool", zone=~"$zone"}[$__rate_interval]))`, "{{nodepool}} created"},
					{`sum by (nodepool) (increase(karpenter_nodes_terminated_total{nodepool=~"$nodepool", zone=~"$zone"}[$__rate_interval]))`, "{{nodepool}} terminated"},
				}},
				{Title: "NodeClaims disrupted", Kind: "timeseries", Unit: "short", Stacked: true, Description: "NodeClaims whose removal began in the interval, by reason.", Queries: []query{
					{`sum by (reason) (increase(karpenter_nodeclaims_disrupted_total{nodepool=~"$nodepool", capacity_type=~"$capacity_type"}[$__rate_interval]))`, "{{reason}}"},
				}},
				{Title: "Nodes that could be removed", Kind: "timeseries", Unit: "short", Description: "Without regard to budgets, by reason.", Queries: []query{{`max by (reason) (karpenter_voluntary_disruption_eligible_nodes)`, "{{reason}}"}}},
				{Title: "Disruptions that budgets allow", Kind: "timeseries", Unit: "short", Description: "Nodes that may be removed now, for the reason that allows the fewest.", Queries: []query{{`min by (nodepool) (karpenter_nodepools_allowed_disruptions{nodepool=~"$nodepool"})`, "{{nodepool}}"}}},
			}},
			{"Use", []panel{
				{Title: "CPU requested by NodePool", Kind: "timeseries", Unit: "percentunit", Description: "Requests of the pods on the nodes, of what the nodes offer.", Queries: []query{{requested("nodepool", "cpu"), "{{nodepool}}"}}},
				{Title: "Memory requested by NodePool", Kind: "timeseries", Unit: "percentunit", Description: "Requests of the pods on the nodes, of what the nodes offer.", Queries: []query{{requested("nodepool", "memory"), "{{nodepool}}"}}},
				{Title: "Pods by phase", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Number of pods.", Queries: []query{{`sum by (phase) (karpenter_pods_state)`, "{{phase}}"}}},
				{Title: "Pods by NodePool", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Number of pods on nodes of each NodePool.", Queries: []query{{`sum by (nodepool) (karpenter_pods_state{scheduled="true", nodepool=~"$nodepool"})`, "{{nodepool}}"}}},
			}},
			{"Lists", []panel{
				{Title: "NodePools", Kind: "table", Unit: "short", Description: "What the nodes of each NodePool have, and its limits: cores, bytes, nodes.", Queries: []query{
					{`max by (nodepool, resource_type) (karpenter_nodepools_usage{nodepool=~"$nodepool", resource_type=~"cpu|memory|nodes"})`, "usage"},
					{`max by (nodepool, resource_type) (karpenter_nodepools_limit{nodepool=~"$nodepool", resource_type=~"cpu|memory|nodes"})`, "limit"},
				}},
				{Title: "Nodes", Kind: "table", Unit: "percentunit", Description: "Requests of the pods on each node, of what it offers.", Queries: []query{
					{requested("node_name, nodepool, instance_type, zone, capacity_type", "cpu"), "cpu"},
					{requested("node_name, nodepool, instance_type, zone, capacity_type", "memory"), "memory"},
					{requested("node_name, nodepool, instance_type, zone, capacity_type", "pods"), "pods"},
				}},
			}},
		},
	}
}
