package main

// jobs are the jobs of scrapes of our controllers: other programs have series of some of these names, too.
func jobs() variable { return variable{"job", "Job", "karpenter_build_info"} }

// quantile returns a quantile of a histogram over the interval, by labels.
func quantile(of, histogram, matchers, by string) string {
	if by != "" {
		by = ", " + by
	}
	return `histogram_quantile(` + of + `, sum by (le` + by + `) (rate(` + histogram + `_bucket{` + matchers + `}[$__rate_interval])))`
}

// perSecond returns the rate of a counter, by labels.
func perSecond(counter, matchers, by string) string {
	return `sum by (` + by + `) (rate(` + counter + `{` + matchers + `}[$__rate_interval]))`
}

func performance() dashboard {
	const job, controllers = `job=~"$job"`, `job=~"$job", controller=~"$controller"`
	return dashboard{
		Name: "performance", Title: "Karpenter / Performance", Description: "How long pods wait, and what the controller does meanwhile.",
		Variables: []variable{jobs(), {"controller", "Controller", "controller_runtime_reconcile_total"}},
		Rows: []row{
			{"Pods and nodes", []panel{
				{Title: "Pod startup", Kind: "timeseries", Unit: "s", Description: "From the creation of a pod until it ran: quantiles of the last ten minutes.", Queries: []query{{`max by (quantile) (karpenter_pods_startup_duration_seconds{` + job + `}) >= 0`, "{{quantile}}"}}},
				{Title: "Time until bound", Kind: "timeseries", Unit: "s", Description: "From when a pod was first seen to need a node until it was bound.", Queries: []query{
					{quantile("0.5", "karpenter_pods_provisioning_bound_duration_seconds", job, ""), "0.5"},
					{quantile("0.99", "karpenter_pods_provisioning_bound_duration_seconds", job, ""), "0.99"},
				}},
				{Title: "Time until decided", Kind: "timeseries", Unit: "s", Description: "From when a pod was first seen to need a node until the first decision about it.", Queries: []query{
					{quantile("0.5", "karpenter_pods_scheduling_decision_duration_seconds", job, ""), "0.5"},
					{quantile("0.99", "karpenter_pods_scheduling_decision_duration_seconds", job, ""), "0.99"},
				}},
				{Title: "Node termination", Kind: "timeseries", Unit: "s", Description: "From the deletion of a Node until it was gone: quantiles of the last ten minutes.", Queries: []query{{`max by (quantile) (karpenter_nodes_termination_duration_seconds{` + job + `}) >= 0`, "{{quantile}}"}}},
			}},
			{"Decisions", []panel{
				{Title: "Decisions about pending pods", Kind: "timeseries", Unit: "s", Description: "Time from a snapshot of the cluster to the plan.", Queries: []query{
					{quantile("0.5", "dovetail_plan_seconds", job, ""), "0.5"},
					{quantile("0.99", "dovetail_plan_seconds", job, ""), "0.99"},
				}},
				{Title: "Decisions about removals", Kind: "timeseries", Unit: "s", Description: "Duration of decisions about removals: 99th percentile by reason.", Queries: []query{
					{quantile("0.99", "karpenter_voluntary_disruption_decision_evaluation_duration_seconds", job, "reason"), "{{reason}}"},
				}},
			}},
			{"Controllers", []panel{
				{Title: "Reconciles", Kind: "timeseries", Unit: "ops", Description: "Reconciles and decisions a second, by controller.", Queries: []query{{perSecond("controller_runtime_reconcile_total", controllers, "controller"), "{{controller}}"}}},
				{Title: "Reconcile errors", Kind: "timeseries", Unit: "ops", Description: "Failed reconciles a second, by controller.", Queries: []query{{perSecond("controller_runtime_reconcile_errors_total", controllers, "controller"), "{{controller}}"}}},
				{Title: "Reconcile time", Kind: "timeseries", Unit: "s", Description: "Duration of reconciles: 99th percentile by controller.", Queries: []query{{quantile("0.99", "controller_runtime_reconcile_time_seconds", controllers, "controller"), "{{controller}}"}}},
				{Title: "Work queues", Kind: "timeseries", Unit: "short", Description: "Objects that wait for a reconcile, by queue.", Queries: []query{{`sum by (name) (workqueue_depth{` + job + `})`, "{{name}}"}}},
				{Title: "Wait in work queues", Kind: "timeseries", Unit: "s", Description: "How long objects waited for a reconcile: 99th percentile by queue.", Queries: []query{{quantile("0.99", "workqueue_queue_duration_seconds", job, "name"), "{{name}}"}}},
				{Title: "Requests to the API server", Kind: "timeseries", Unit: "reqps", Description: "Requests a second, by the status of the answer.", Queries: []query{{perSecond("client_go_request_total", job, "method, code"), "{{method}} {{code}}"}}},
			}},
			{"Cloud", []panel{
				{Title: "Calls to the cloud", Kind: "timeseries", Unit: "ops", Description: "Calls a second, by method.", Queries: []query{{perSecond("karpenter_cloudprovider_duration_seconds_count", job, "provider, method"), "{{provider}} {{method}}"}}},
				{Title: "Duration of calls to the cloud", Kind: "timeseries", Unit: "s", Description: "99th percentile by method.", Queries: []query{{quantile("0.99", "karpenter_cloudprovider_duration_seconds", job, "method"), "{{method}}"}}},
				{Title: "Failed calls to the cloud", Kind: "timeseries", Unit: "ops", Description: "Failed calls a second, by method and kind of error.", Queries: []query{{perSecond("karpenter_cloudprovider_errors_total", job, "method, error"), "{{method}} {{error}}"}}},
				{Title: "Requests to AWS", Kind: "timeseries", Unit: "reqps", Description: "Requests a second, by service, action and HTTP status.", Queries: []query{{perSecond("aws_sdk_go_request_total", job, "service, action, code"), "{{service}} {{action}} {{code}}"}}},
			}},
			{"Process", []panel{
				{Title: "Memory", Kind: "timeseries", Unit: "bytes", Description: "Resident memory of the controller.", Queries: []query{{`process_resident_memory_bytes{` + job + `}`, "{{instance}}"}}},
				{Title: "CPU", Kind: "timeseries", Unit: "short", Description: "Cores that the controller uses.", Queries: []query{{`rate(process_cpu_seconds_total{` + job + `}[$__rate_interval])`, "{{instance}}"}}},
				{Title: "Leader", Kind: "timeseries", Unit: "short", Description: "1 for the replica that leads.", Queries: []query{{`max by (instance) (leader_election_master_status{` + job + `})`, "{{instance}}"}}},
				{Title: "Caches", Kind: "timeseries", Unit: "short", Description: "1 while the caches of a replica are synced.", Queries: []query{{`karpenter_cluster_state_synced{` + job + `}`, "{{instance}}"}}},
			}},
		},
	}
}
