package main

func interruption() dashboard {
	const job = `job=~"$job"`
	return dashboard{
		Name: "interruption", Title: "Karpenter / Interruption", Description: "What the cloud takes back or refuses, and how pods leave their nodes.",
		Variables: []variable{jobs()},
		Rows: []row{
			{"Notices", []panel{
				{Title: "Messages received", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Messages of the interruption queue in the interval, by kind.", Queries: []query{{counted("karpenter_interruption_received_messages_total", job, "message_type"), "{{message_type}}"}}},
				{Title: "Wait in the queue", Kind: "timeseries", Unit: "s", Description: "From the sending of a message until it was handled.", Queries: []query{
					{quantile("0.5", "karpenter_interruption_message_queue_duration_seconds", job, ""), "0.5"},
					{quantile("0.99", "karpenter_interruption_message_queue_duration_seconds", job, ""), "0.99"},
				}},
				{Title: "Messages handled", Kind: "timeseries", Unit: "ops", Description: "Messages handled and deleted a second.", Queries: []query{{`sum(rate(karpenter_interruption_deleted_messages_total{` + job + `}[$__rate_interval]))`, "deleted"}}},
				{Title: "Failed status checks", Kind: "timeseries", Unit: "short", Description: "Instances with a newly failed EC2 status check, in the interval.", Queries: []query{{counted("karpenter_interruption_instance_status_unhealthy_total", job, "category"), "{{category}}"}}},
			}},
			{"Nodes that go", []panel{
				{Title: "NodeClaims disrupted", Kind: "timeseries", Unit: "short", Stacked: true, Description: "NodeClaims whose removal began in the interval, by reason.", Queries: []query{{counted("karpenter_nodeclaims_disrupted_total", job, "reason, capacity_type"), "{{reason}} {{capacity_type}}"}}},
				{Title: "Pods disrupted", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Pods on nodes whose removal began in the interval, by reason.", Queries: []query{{counted("karpenter_pods_disruption_initiated_total", job, "reason"), "{{reason}}"}}},
				{Title: "Evictions", Kind: "timeseries", Unit: "short", Description: "Eviction requests in the interval, by the status of the answer; 429: a PodDisruptionBudget forbids it.", Queries: []query{{counted("karpenter_pods_eviction_requests_total", job, "code"), "{{code}}"}}},
				{Title: "Nodes that terminate", Kind: "timeseries", Unit: "s", Description: "How long the node that has been terminating the longest has.", Queries: []query{{`max(operator_node_termination_current_time_seconds{` + job + `})`, "longest"}}},
				{Title: "Termination of NodeClaims", Kind: "timeseries", Unit: "s", Description: "From the deletion of a NodeClaim until it was gone: 99th percentile by NodePool.", Queries: []query{{quantile("0.99", "karpenter_nodeclaims_termination_duration_seconds", job, "nodepool"), "{{nodepool}}"}}},
				{Title: "Termination of instances", Kind: "timeseries", Unit: "s", Description: "From the request to terminate an instance until it was gone: 99th percentile by NodePool.", Queries: []query{{quantile("0.99", "karpenter_nodeclaims_instance_termination_duration_seconds", job, "nodepool"), "{{nodepool}}"}}},
			}},
			{"Capacity of the cloud", []panel{
				{Title: "Launches refused", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Refusals in EC2's answers to launches, in the interval.", Queries: []query{{counted("karpenter_cloudprovider_instance_launch_failures_total", job, "reason, capacity_type, zone"), "{{reason}} {{capacity_type}} {{zone}}"}}},
				{Title: "Offerings without capacity", Kind: "timeseries", Unit: "short", Description: "Instance types that are not available, as far as is known, by capacity type and zone.", Queries: []query{{`sum by (capacity_type, zone) (1 - karpenter_cloudprovider_instance_type_offering_available{` + job + `})`, "{{capacity_type}} {{zone}}"}}},
			}},
		},
	}
}
