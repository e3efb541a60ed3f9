package observe

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// published are the metrics of spec/core.md 7.4 that we produce, and our own, each with
// its labels in the order in which code gives them. Dashboards rely on every word.
func published() []string {
	return []string{
		"aws_sdk_go_request_attempt_duration_seconds service,action,code",
		"aws_sdk_go_request_attempt_total service,action,code",
		"aws_sdk_go_request_duration_seconds service,action,code",
		"aws_sdk_go_request_retry_count service,action,code",
		"aws_sdk_go_request_total service,action,code",
		"client_go_request_duration_seconds verb,group,version,kind,subresource",
		"client_go_request_total code,method",
		"controller_runtime_active_workers controller",
		"controller_runtime_max_concurrent_reconciles controller",
		"controller_runtime_reconcile_errors_total controller",
		"controller_runtime_reconcile_time_seconds controller",
		"controller_runtime_reconcile_total controller,result",
		"dovetail_bugs_total",
		"dovetail_decisions_given_up_total loop,cause",
		"dovetail_decisions_slow_total loop",
		"dovetail_disruption_paused nodepool",
		"dovetail_journal_decisions_total loop,outcome",
		"dovetail_observed_nodeclaims_created_total reason,nodepool",
		"dovetail_observed_nodeclaims_disrupted_total reason,nodepool",
		"dovetail_observed_saving_hourly_dollars",
		"dovetail_observed_voluntary_disruption_decisions_total decision,reason,consolidation_type",
		"dovetail_plan_bound_hourly_dollars",
		"dovetail_plan_price_hourly_dollars",
		"dovetail_plan_seconds",
		"dovetail_pods_landed_total outcome",
		"dovetail_prices_read_timestamp_seconds capacity_type",
		"dovetail_provider_calls_total method,code",
		"dovetail_provider_connected",
		"dovetail_provider_refused_total rule",
		"dovetail_provider_restarts_total",
		"dovetail_quarantined_pods",
		"dovetail_refusals_total reason",
		"dovetail_static_missing_nodes nodepool",
		"karpenter_build_info version,goversion,goarch,commit",
		"karpenter_cloudprovider_batcher_batch_size batcher",
		"karpenter_cloudprovider_batcher_batch_time_seconds batcher",
		"karpenter_cloudprovider_duration_seconds controller,method,provider",
		"karpenter_cloudprovider_errors_total controller,method,nodepool,provider,error",
		"karpenter_cloudprovider_instance_launch_failures_total zone,zone_id,capacity_type,reason",
		"karpenter_cloudprovider_instance_termination_failures_total zone,zone_id",
		"karpenter_cluster_state_node_count",
		"karpenter_cluster_state_synced",
		"karpenter_cluster_state_unsynced_time_seconds",
		"karpenter_consolidation_moves_total decision,nodepool,policy",
		"karpenter_consolidation_score decision,nodepool,policy",
		"karpenter_ec2nodeclasses_userdata_bytes nodeclass",
		"karpenter_interruption_deleted_messages_total",
		"karpenter_interruption_instance_status_unhealthy_total category",
		"karpenter_interruption_message_queue_duration_seconds",
		"karpenter_interruption_received_messages_total message_type",
		"karpenter_nodeclaims_created_total reason,nodepool,min_values_relaxed",
		"karpenter_nodeclaims_disrupted_total reason,nodepool,capacity_type,consolidation_policy,termination_mode",
		"karpenter_nodeclaims_instance_termination_duration_seconds nodepool",
		"karpenter_nodeclaims_terminated_total nodepool,capacity_type,zone",
		"karpenter_nodeclaims_termination_duration_seconds nodepool",
		"karpenter_nodeclaims_unhealthy_disrupted_total condition,nodepool,capacity_type,image_id,termination_mode",
		"karpenter_nodepools_allowed_disruptions nodepool,reason",
		"karpenter_nodepools_cost_total nodepool",
		"karpenter_nodepools_cost_tracker_errors_total nodepool",
		"karpenter_nodepools_limit resource_type,nodepool",
		"karpenter_nodepools_nodes_consuming_budgets nodepool,reason",
		"karpenter_nodepools_usage resource_type,nodepool",
		"karpenter_nodes_created_total nodepool,zone",
		"karpenter_nodes_drained_total nodepool",
		"karpenter_nodes_lifetime_duration_seconds nodepool",
		"karpenter_nodes_reboot_duration_seconds result",
		"karpenter_nodes_reboot_recovery_duration_seconds",
		"karpenter_nodes_reboots_total result",
		"karpenter_nodes_terminated_total nodepool,zone",
		"karpenter_nodes_termination_duration_seconds nodepool",
		"karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes nodepool",
		"karpenter_pod_deletion_cost_pod_annotation_writes_total result",
		"karpenter_pods_bound_duration_seconds dynamic_resources",
		"karpenter_pods_disruption_initiated_total reason,nodepool,capacity_type,consolidation_policy,termination_mode",
		"karpenter_pods_drained_total reason",
		"karpenter_pods_eviction_requests_total code",
		"karpenter_pods_provisioning_bound_duration_seconds dynamic_resources",
		"karpenter_pods_provisioning_startup_duration_seconds",
		"karpenter_pods_scheduling_decision_duration_seconds",
		"karpenter_pods_startup_duration_seconds",
		"karpenter_scheduler_ignored_pods_count",
		"karpenter_scheduler_pending_pods_by_effective_zone_count controller,zone",
		"karpenter_scheduler_queue_depth controller,scheduling_id",
		"karpenter_scheduler_scheduling_duration_seconds controller",
		"karpenter_scheduler_unfinished_work_seconds controller,scheduling_id",
		"karpenter_scheduler_unschedulable_pods_count controller",
		"karpenter_voluntary_disruption_consolidation_timeouts_total consolidation_type",
		"karpenter_voluntary_disruption_decision_evaluation_duration_seconds reason,consolidation_type",
		"karpenter_voluntary_disruption_decisions_by_nodepool_total nodepool,decision,reason,consolidation_type",
		"karpenter_voluntary_disruption_decisions_total decision,reason,consolidation_type",
		"karpenter_voluntary_disruption_eligible_nodes reason",
		"karpenter_voluntary_disruption_failed_validations_total consolidation_type",
		"karpenter_voluntary_disruption_queue_failures_total decision,reason,consolidation_type",
		"karpenter_voluntary_disruption_terminate_first_decisions_total nodepool,reason,terminate_first_reason",
	}
}

func TestMetricsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	reg := &notebook{t: t}
	NewMetrics(reg)
	slices.Sort(reg.lines)
	if diff := cmp.Diff(published(), reg.lines); diff != "" {
		t.Errorf("registered metrics (-want +got):\n%s", diff)
	}
}

func TestDocsNameEveryMetricWithItsLabels(t *testing.T) {
	t.Parallel()
	doc := readDoc(t, "../../../docs/reference/metrics.md")
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge|histogram|summary) \\| ([^|]*) \\|").FindAllStringSubmatch(doc, -1) {
		labels := strings.ReplaceAll(strings.TrimSpace(row[2]), ", ", ",")
		got = append(got, strings.TrimSpace(row[1]+" "+strings.Trim(labels, "–")))
	}
	slices.Sort(got)
	if diff := cmp.Diff(published(), got); diff != "" {
		t.Errorf("docs/reference/metrics.md (-want +got):\n%s", diff)
	}
}

// TestDocsDecideAboutEveryMetricOfKarpenters: each is documented with the same labels, or the docs say
// what a dashboard misses. That what is documented is served is the other tests' to say, and that it is
// seen in the life of a cluster, TestMetrics' in test/e2e.
func TestDocsDecideAboutEveryMetricOfKarpenters(t *testing.T) {
	t.Parallel()
	doc := readDoc(t, "../../../docs/reference/metrics.md")
	served := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge|histogram|summary)[a-z, ]* \\| ([^|]*) \\|").FindAllStringSubmatch(doc, -1) {
		served[row[1]] = sortedLabels(strings.ReplaceAll(strings.Trim(row[2], " –"), ", ", ","))
	}
	_, different, _ := strings.Cut(doc, "\n## Different from Karpenter\n")
	different, _, _ = strings.Cut(different, "\n## ")
	for line := range strings.Lines(readDoc(t, "testdata/karpenter.txt")) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		labels = strings.TrimPrefix(labels, "karpenter_k8s_aws_ec2nodeclass,") // the docs have one text for all providers
		if got, is := served[name]; (!is || got != labels) && !strings.Contains(different, "| `"+name+"` |") {
			t.Errorf("%s has labels %q, Karpenter's %q, and docs/reference/metrics.md does not say so", name, got, labels)
		}
	}
}

func sortedLabels(labels string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Split(labels, ","))), ",")
}

func TestDurationBucketsAreFortyFiveAndAscend(t *testing.T) {
	t.Parallel()
	buckets := durationBuckets()
	if len(buckets) != 45 || !slices.IsSorted(buckets) || buckets[0] != 0.005 || buckets[44] != 600 {
		t.Errorf("durationBuckets() = %v, want 45 ascending from 0.005 to 600", buckets)
	}
}

// notebook is a registerer that writes down names and labels of what is registered.
type notebook struct {
	t     *testing.T
	lines []string
}

func (n *notebook) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 1)
	c.Describe(descs)
	n.lines = append(n.lines, parseDesc(n.t, <-descs))
	return nil
}

func (n *notebook) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := n.Register(c); err != nil {
			panic(err)
		}
	}
}

func (n *notebook) Unregister(prometheus.Collector) bool { return false }

// parseDesc returns the name and labels of a metric, which a Desc has only in a text.
func parseDesc(t *testing.T, desc *prometheus.Desc) string {
	t.Helper()
	m := regexp.MustCompile(`fqName: "(.*?)".* variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
	if m == nil {
		t.Fatalf("cannot read description %s", desc)
	}
	return strings.TrimSpace(m[1] + " " + m[2])
}

func readDoc(t *testing.T, path string) string {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}
