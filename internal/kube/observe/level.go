package observe

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Values of --metrics-level.
const (
	// LevelEssential serves what the alerts and recording rules of the chart read, and the counts of
	// decisions, nodes and NodePools: nothing per pod, per instance type or per call.
	LevelEssential = "essential"
	LevelDefault   = "default"
	// LevelAll adds the instance types that no NodePool allows.
	LevelAll = "all"
)

// matching says which series of a metric are served: those with one of the values of each label.
type matching map[string][]string

// essential returns the metrics of LevelEssential. Those that grow with the number of nodes are cut
// down to the series that alerts read.
func essential() map[string]matching {
	ready := matching{"type": {"Ready"}}
	metrics := map[string]matching{
		"karpenter_nodes_allocatable":                                      {"resource_type": {"cpu"}},
		"operator_nodeclaim_status_condition_count":                        {"type": {"Drifted", "Launched", "Ready", "Registered"}},
		"operator_nodeclaim_status_condition_current_status_seconds":       {"type": {"Ready", "Registered"}, "status": {"False", "Unknown"}},
		"operator_nodepool_status_condition_count":                         ready,
		"operator_ec2nodeclass_status_condition_count":                     ready,
		"operator_kwoknodeclass_status_condition_count":                    ready,
		"karpenter_voluntary_disruption_decisions_by_nodepool_total":       nil,
		"karpenter_voluntary_disruption_eligible_nodes":                    nil,
		"karpenter_voluntary_disruption_queue_failures_total":              nil,
		"karpenter_cloudprovider_instance_launch_failures_total":           nil,
		"karpenter_cloudprovider_instance_termination_failures_total":      nil,
		"karpenter_interruption_message_queue_duration_seconds":            nil,
		"karpenter_interruption_instance_status_unhealthy_total":           nil,
		"karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes": nil,
	}
	for _, name := range []string{
		"dovetail_bugs_total", "dovetail_decisions_given_up_total", "dovetail_decisions_slow_total", "dovetail_disruption_paused",
		"dovetail_plan_bound_hourly_dollars", "dovetail_plan_price_hourly_dollars", "dovetail_pods_landed_total",
		"dovetail_prices_read_timestamp_seconds", "dovetail_provider_connected", "dovetail_provider_refused_total",
		"dovetail_provider_restarts_total", "dovetail_quarantined_pods", "dovetail_refusals_total", "dovetail_static_missing_nodes",
		"karpenter_build_info", "karpenter_cloudprovider_errors_total", "karpenter_cluster_state_node_count",
		"karpenter_cluster_state_synced", "karpenter_cluster_state_unsynced_time_seconds", "karpenter_cluster_utilization_percent",
		"karpenter_interruption_deleted_messages_total", "karpenter_interruption_received_messages_total",
		"karpenter_nodeclaims_created_total", "karpenter_nodeclaims_disrupted_total", "karpenter_nodeclaims_terminated_total",
		"karpenter_nodeclaims_termination_duration_seconds", "karpenter_nodeclaims_unhealthy_disrupted_total",
		"karpenter_nodepools_allowed_disruptions", "karpenter_nodepools_cost_total", "karpenter_nodepools_cost_tracker_errors_total",
		"karpenter_nodepools_limit", "karpenter_nodepools_nodes_consuming_budgets", "karpenter_nodepools_usage",
		"karpenter_nodes_created_total", "karpenter_nodes_drained_total", "karpenter_nodes_reboots_total", "karpenter_nodes_terminated_total",
		"karpenter_nodes_termination_duration_seconds", "karpenter_pods_drained_total", "karpenter_pods_startup_duration_seconds",
		"karpenter_scheduler_ignored_pods_count", "karpenter_scheduler_queue_depth", "karpenter_scheduler_unfinished_work_seconds",
		"karpenter_scheduler_unschedulable_pods_count", "leader_election_master_status", "operator_node_termination_current_time_seconds",
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds",
	} {
		metrics[name] = nil
	}
	return metrics
}

// matchingAt returns which series of a metric are served at a level, and whether any are.
func matchingAt(level, name string) (match matching, served bool) {
	if level != LevelEssential {
		return nil, true
	}
	match, served = essential()[name]
	return match, served
}

// AtLevel returns a gatherer of what g gathers that is served at a level.
func AtLevel(g prometheus.Gatherer, level string) prometheus.Gatherer {
	if level != LevelEssential {
		return g
	}
	served := essential()
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather() // with an error, too, there may be some
		var kept []*dto.MetricFamily
		for _, f := range families {
			match, is := served[f.GetName()]
			if !is {
				continue
			}
			f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool { return !match.matches(m) })
			if len(f.Metric) > 0 {
				kept = append(kept, f)
			}
		}
		return kept, err
	})
}

// matches reports whether each label that is asked about has one of the values.
func (m matching) matches(series *dto.Metric) bool {
	found := 0
	for _, l := range series.GetLabel() {
		values, is := m[l.GetName()]
		if !is {
			continue
		}
		if !slices.Contains(values, l.GetValue()) {
			return false
		}
		found++
	}
	return found == len(m)
}
