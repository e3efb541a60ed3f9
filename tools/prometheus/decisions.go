package main

// counted returns what a counter grew by in the interval, by labels.
func counted(counter, matchers, by string) string {
	return `sum by (` + by + `) (increase(` + counter + `{` + matchers + `}[$__rate_interval]))`
}

func decisions() dashboard {
	const job = `job=~"$job"`
	return dashboard{
		Name: "decisions", Title: "Karpenter / Decisions", Description: "What was decided about pods and nodes, how good it was, and what became of it.",
		Variables: []variable{jobs()},
		Rows: []row{
			{"Launches", []panel{
				{Title: "Price of the last plan", Kind: "timeseries", Unit: "currencyUSD", Description: "Dollars an hour for all launches of the last plan that had any, and the bound below which no plan for these pods can be.", Queries: []query{
					{`max(dovetail_plan_price_hourly_dollars{` + job + `})`, "price"},
					{`max(dovetail_plan_bound_hourly_dollars{` + job + `})`, "bound"},
				}},
				{Title: "Price over bound", Kind: "timeseries", Unit: "percentunit", Description: "How far the price of the last plan is above its lower bound; 100 %: no plan is cheaper.", Queries: []query{
					{`max(dovetail_plan_price_hourly_dollars{` + job + `}) / (max(dovetail_plan_bound_hourly_dollars{` + job + `}) > 0)`, "price / bound"},
				}},
				{Title: "Where planned pods were bound", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Pods in the interval: bound to the planned node, to another one, or not at all.", Queries: []query{{counted("dovetail_pods_landed_total", job, "outcome"), "{{outcome}}"}}},
				{Title: "NodeClaims created", Kind: "timeseries", Unit: "short", Stacked: true, Description: "NodeClaims in the interval, by reason.", Queries: []query{{counted("karpenter_nodeclaims_created_total", job, "nodepool, reason"), "{{nodepool}} {{reason}}"}}},
			}},
			{"Pods", []panel{
				{Title: "Refusals", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Refused pods in the interval, by reason. A pod that stays pending is refused again.", Queries: []query{{counted("dovetail_refusals_total", job, "reason"), "{{reason}}"}}},
				{Title: "Waiting pods", Kind: "timeseries", Unit: "short", Description: "Pods that wait for a decision, that the last decision refused, and that no node of ours can ever fit.", Queries: []query{
					{`sum(karpenter_scheduler_queue_depth{` + job + `})`, "waiting"},
					{`sum(karpenter_scheduler_unschedulable_pods_count{` + job + `})`, "unschedulable"},
					{`max(karpenter_scheduler_ignored_pods_count{` + job + `})`, "ignored"},
				}},
				{Title: "Pending pods by zone", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Pods of the last decision by the zone that is left to them; flexible: several, none: none.", Queries: []query{{`sum by (zone) (karpenter_scheduler_pending_pods_by_effective_zone_count{` + job + `})`, "{{zone}}"}}},
				{Title: "Pods apart", Kind: "timeseries", Unit: "short", Description: "Pending pods that are decided about apart, because a decision about them was given up.", Queries: []query{{`sum(dovetail_quarantined_pods{` + job + `})`, "pods"}}},
			}},
			{"Removals", []panel{
				{Title: "Removals decided", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Decisions in the interval, by decision and reason.", Queries: []query{{counted("karpenter_voluntary_disruption_decisions_total", job, "decision, reason"), "{{decision}} {{reason}}"}}},
				{Title: "Removals cancelled", Kind: "timeseries", Unit: "short", Description: "In the interval: begun and cancelled because of their replacements or their reason, or because the cluster changed.", Queries: []query{
					{`sum(increase(karpenter_voluntary_disruption_queue_failures_total{` + job + `}[$__rate_interval])) or vector(0)`, "replacement or reason gone"},
					{`sum(increase(karpenter_voluntary_disruption_failed_validations_total{` + job + `}[$__rate_interval])) or vector(0)`, "cluster changed"},
				}},
			}},
			{"The deciding itself", []panel{
				{Title: "Decisions given up", Kind: "timeseries", Unit: "short", Description: "In the interval: given up and made again without some pods, slow ones, and bugs.", Queries: []query{
					{`sum(increase(dovetail_decisions_given_up_total{` + job + `}[$__rate_interval])) or vector(0)`, "given up"},
					{`sum(increase(dovetail_decisions_slow_total{` + job + `}[$__rate_interval])) or vector(0)`, "over ten seconds"},
					{`sum(increase(dovetail_bugs_total{` + job + `}[$__rate_interval]))`, "bugs"},
				}},
				{Title: "Journal", Kind: "timeseries", Unit: "short", Stacked: true, Description: "Decisions handed to the journal in the interval, by loop and outcome.", Queries: []query{{counted("dovetail_journal_decisions_total", job, "loop, outcome"), "{{loop}} {{outcome}}"}}},
			}},
		},
	}
}
