package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

const (
	namespace = "karpenter"
	// own is the namespace of what Karpenter does not have.
	own = "dovetail"
)

// Metrics is everything that is counted. A field is the metric's name without
// "karpenter_" and without "_total"; labels are given in the order of
// docs/reference/metrics.md. Values that labels may take are in reasons.go.
type Metrics struct {
	BuildInfo *prometheus.GaugeVec

	NodeClaimsCreated                            *prometheus.CounterVec
	NodeClaimsTerminated                         *prometheus.CounterVec
	NodeClaimsDisrupted                          *prometheus.CounterVec
	NodeClaimsUnhealthyDisrupted                 *prometheus.CounterVec
	NodesReboots                                 *prometheus.CounterVec
	NodesRebootDuration                          *prometheus.HistogramVec
	NodesRebootRecovery                          prometheus.Histogram
	NodeClaimsInstanceTerminationDurationSeconds *prometheus.HistogramVec
	NodeClaimsTerminationDurationSeconds         *prometheus.HistogramVec

	NodesCreated                    *prometheus.CounterVec
	NodesTerminated                 *prometheus.CounterVec
	NodesDrained                    *prometheus.CounterVec
	NodesTerminationDurationSeconds *prometheus.SummaryVec
	NodesLifetimeDurationSeconds    *prometheus.HistogramVec

	PodsEvictionRequests                   *prometheus.CounterVec
	PodsDrained                            *prometheus.CounterVec
	PodsDisruptionInitiated                *prometheus.CounterVec
	PodsBoundDurationSeconds               *prometheus.HistogramVec
	PodsStartupDurationSeconds             prometheus.Summary
	PodsProvisioningBoundDurationSeconds   *prometheus.HistogramVec
	PodsProvisioningStartupDurationSeconds prometheus.Histogram
	PodsSchedulingDecisionDurationSeconds  prometheus.Histogram

	SchedulerSchedulingDurationSeconds *prometheus.HistogramVec
	SchedulerQueueDepth                *prometheus.GaugeVec
	SchedulerIgnoredPodsCount          prometheus.Gauge
	SchedulerUnschedulablePodsCount    *prometheus.GaugeVec
	SchedulerPendingPodsByZone         *prometheus.GaugeVec
	SchedulerUnfinishedWork            *Work

	ClusterStateNodeCount           prometheus.Gauge
	ClusterStateSynced              prometheus.Gauge
	ClusterStateUnsyncedTimeSeconds prometheus.Gauge

	NodePoolsLimit                 *prometheus.GaugeVec
	NodePoolsUsage                 *prometheus.GaugeVec
	NodePoolsCost                  *prometheus.GaugeVec
	NodePoolsCostTrackerErrors     *prometheus.CounterVec
	NodePoolsAllowedDisruptions    *prometheus.GaugeVec
	NodePoolsNodesConsumingBudgets *prometheus.GaugeVec
	StaticMissingNodes             *prometheus.GaugeVec

	PodDeletionCostPending *prometheus.GaugeVec
	PodDeletionCostWrites  *prometheus.CounterVec

	VoluntaryDisruptionDecisionEvaluationDurationSeconds *prometheus.HistogramVec
	VoluntaryDisruptionDecisions                         *prometheus.CounterVec
	VoluntaryDisruptionDecisionsByNodePool               *prometheus.CounterVec
	VoluntaryDisruptionTerminateFirstDecisions           *prometheus.CounterVec
	VoluntaryDisruptionEligibleNodes                     *prometheus.GaugeVec
	VoluntaryDisruptionQueueFailures                     *prometheus.CounterVec
	VoluntaryDisruptionFailedValidations                 *prometheus.CounterVec
	ConsolidationScore                                   *prometheus.HistogramVec
	ConsolidationMoves                                   *prometheus.CounterVec
	VoluntaryDisruptionConsolidationTimeouts             *prometheus.CounterVec

	ClientRequests        *prometheus.CounterVec
	ClientRequestDuration *prometheus.HistogramVec

	CloudProviderDurationSeconds *prometheus.HistogramVec
	CloudProviderErrors          *prometheus.CounterVec

	// PlanSeconds is how long one decision took, snapshot to plan.
	PlanSeconds prometheus.Histogram
	// PlanPriceHourlyDollars and PlanBoundHourlyDollars are of the last plan with
	// launches; a bound of 0 is not known.
	PlanPriceHourlyDollars, PlanBoundHourlyDollars prometheus.Gauge
	// Refusals counts pods refused, by verdict.
	Refusals *prometheus.CounterVec
	// AWSRequests, AWSRequestDuration and AWSRetries are those of requests to AWS, AWSAttempts
	// and AWSAttemptDuration those of each of their attempts.
	AWSRequests, AWSAttempts                           *prometheus.CounterVec
	AWSRequestDuration, AWSRetries, AWSAttemptDuration *prometheus.HistogramVec
	// InterruptionReceived, InterruptionDeleted and InterruptionQueueSeconds are those of the
	// messages of the interruption queue.
	InterruptionReceived     *prometheus.CounterVec
	InterruptionDeleted      prometheus.Counter
	InterruptionQueueSeconds prometheus.Histogram
	// InstanceUnhealthy counts the instances that EC2 reports as unhealthy, by category.
	InstanceUnhealthy *prometheus.CounterVec
	// LaunchFailures and TerminationFailures count the requests that EC2 refused.
	LaunchFailures, TerminationFailures *prometheus.CounterVec
	// BatchTime and BatchSize are those of requests to EC2 that are for several.
	BatchTime, BatchSize *prometheus.HistogramVec
	// UserDataBytes is the size of the user data of a node class.
	UserDataBytes *prometheus.GaugeVec
	// PricesReadTimestampSeconds is when the prices that decisions use were read.
	PricesReadTimestampSeconds *prometheus.GaugeVec
	// NominationOutcomes counts the pods that were planned for a node, by outcome.
	NominationOutcomes *prometheus.CounterVec
	// ProviderCalls, ProviderRefused, ProviderConnected and ProviderStarts are about a provider in
	// another process. Without one they are not served.
	ProviderCalls, ProviderRefused, ProviderStarts *prometheus.CounterVec
	ProviderConnected                              *prometheus.GaugeVec
	// ObservedNodeClaimsCreated, ObservedNodeClaimsDisrupted, ObservedDisruptionDecisions and
	// ObservedSavingHourlyDollars are what a controller that only observes would have done. Others do not
	// serve them.
	ObservedNodeClaimsCreated, ObservedNodeClaimsDisrupted, ObservedDisruptionDecisions *prometheus.CounterVec
	ObservedSavingHourlyDollars                                                         *prometheus.GaugeVec
	// JournalDecisions counts decisions handed to the journal, by loop and outcome.
	JournalDecisions *prometheus.CounterVec
	// DecisionsGivenUp counts decisions that were abandoned and repeated without some pods, by
	// loop and cause: effort or bug. DecisionsSlow counts those that took over ten seconds.
	DecisionsGivenUp, DecisionsSlow *prometheus.CounterVec
	// QuarantinedPods are pending pods that are decided about apart, because decisions about
	// them were abandoned.
	QuarantinedPods prometheus.Gauge
	// DisruptionPaused is 1 for NodePools whose disruption is paused, else 0.
	DisruptionPaused *prometheus.GaugeVec
	// Bugs counts cycles abandoned because of a bug.
	Bugs prometheus.Counter

	reconciles reconciles
}

// GaveUp counts decisions of a loop that were abandoned for these causes (see plan.Plan.GivenUp).
func (m *Metrics) GaveUp(loop string, causes []string) {
	for _, cause := range causes {
		if cause != plan.CauseEffort {
			m.Bugs.Inc()
			cause = "bug"
		}
		m.DecisionsGivenUp.WithLabelValues(loop, cause).Inc()
	}
}

// NewMetrics registers all metrics with reg and returns them. It panics if one of them
// is registered already: a process builds them once, a test with a registry of its own.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := factory{promauto.With(reg)}
	m := &Metrics{
		BuildInfo: f.gauge("", "build_info", "Always 1; the labels say what is running.", "version", "goversion", "goarch", "commit"),
		PlanSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Namespace: own, Name: "plan_seconds", Help: "Time from a snapshot to its plan.", Buckets: durationBuckets(),
		}),
		PlanPriceHourlyDollars: f.NewGauge(prometheus.GaugeOpts{
			Namespace: own, Name: "plan_price_hourly_dollars", Help: "Price of all launches of the last plan that had any.",
		}),
		PlanBoundHourlyDollars: f.NewGauge(prometheus.GaugeOpts{
			Namespace: own, Name: "plan_bound_hourly_dollars", Help: "Lower bound of the price of the launches of that plan; 0: not known.",
		}),
		Refusals: f.counter(own, "", "refusals_total", "Pods that no node, existing or new, could take, by the reason of the verdict.", "reason"),
		NominationOutcomes: f.counter(own, "", "pods_landed_total",
			"Pods planned for a node, by whether they were bound to it, or to that of a pod like them: planned, elsewhere, refused.", "outcome"),
		JournalDecisions: f.counter(own, "", "journal_decisions_total",
			"Decisions handed to the journal, by loop and by what became of them: written, same, idle, snapshot_dropped, dropped, failed.", "loop", "outcome"),
		DecisionsGivenUp: f.counter(own, "", "decisions_given_up_total",
			"Decisions that were abandoned and repeated without some of the pods, by loop and cause: effort, bug.", "loop", "cause"),
		DecisionsSlow: f.counter(own, "", "decisions_slow_total", "Decisions that took over ten seconds, by loop.", "loop"),
		QuarantinedPods: f.NewGauge(prometheus.GaugeOpts{
			Namespace: own, Name: "quarantined_pods", Help: "Pending pods in quarantine: they are decided about apart, because a decision about them was abandoned.",
		}),
		DisruptionPaused: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: own, Name: "disruption_paused", Help: "1 for a NodePool whose disruption is paused, else 0.",
		}, []string{"nodepool"}),
		Bugs: f.NewCounter(prometheus.CounterOpts{
			Namespace: own, Name: "bugs_total", Help: "Cycles abandoned because of a bug.",
		}),
	}
	m.addNodes(f)
	m.addPods(f)
	m.addPools(f)
	m.addLoops(f, reg)
	m.addClient(f)
	m.addObserved(f)
	m.reconciles = newReconciles(reg)
	return m
}

// addClient adds the metrics of requests to the API server, under the names of operators built on
// operatorpkg.
func (m *Metrics) addClient(f factory) {
	m.ClientRequests = f.counter("client_go", "", "request_total", "Requests to the API server.", "code", "method")
	m.ClientRequestDuration = f.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "client_go", Name: "request_duration_seconds", Help: "Time until the API server answered.", Buckets: durationBuckets(),
	}, []string{"verb", "group", "version", "kind", "subresource"})
}

func (m *Metrics) addNodes(f factory) {
	m.NodeClaimsCreated = f.counter(namespace, "nodeclaims", "created_total", "NodeClaims created, by reason.", "reason", "nodepool", "min_values_relaxed")
	m.NodeClaimsTerminated = f.counter(namespace, "nodeclaims", "terminated_total", "NodeClaims whose deletion is complete.", "nodepool", "capacity_type", "zone")
	m.NodeClaimsDisrupted = f.counter(namespace, "nodeclaims", "disrupted_total", "NodeClaims whose removal began, by reason.", disruptedLabels()...)
	m.NodeClaimsUnhealthyDisrupted = f.counter(namespace, "nodeclaims", "unhealthy_disrupted_total", "NodeClaims whose removal began because their Node was unhealthy.",
		"condition", "nodepool", "capacity_type", "image_id", "termination_mode")
	m.NodesReboots = f.counter(namespace, "nodes", "reboots_total", "Reboots of nodes that have ended, by how.", "result")
	m.NodesRebootDuration = f.histogram("nodes", "reboot_duration_seconds", "Time from the request of a reboot until it ended.", rebootBuckets(), "result")
	m.NodesRebootRecovery = f.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: "nodes", Name: "reboot_recovery_duration_seconds",
		Help: "Time from when the cloud accepted a reboot until the node was back.", Buckets: rebootBuckets(),
	})
	m.NodeClaimsInstanceTerminationDurationSeconds = f.histogram("nodeclaims", "instance_termination_duration_seconds",
		"Time from the request to terminate an instance until it was gone.", prometheus.ExponentialBuckets(1, 2, 11), "nodepool")
	m.NodeClaimsTerminationDurationSeconds = f.histogram("nodeclaims", "termination_duration_seconds",
		"Time from the deletion of a NodeClaim until it was gone.", prometheus.ExponentialBuckets(1, 2, 12), "nodepool")
	m.NodesCreated = f.counter(namespace, "nodes", "created_total", "Nodes registered.", "nodepool", "zone")
	m.NodesTerminated = f.counter(namespace, "nodes", "terminated_total", "Nodes whose deletion is complete.", "nodepool", "zone")
	m.NodesDrained = f.counter(namespace, "nodes", "drained_total", "Nodes drained.", "nodepool")
	m.NodesTerminationDurationSeconds = f.NewSummaryVec(prometheus.SummaryOpts{
		Namespace: namespace, Subsystem: "nodes", Name: "termination_duration_seconds",
		Help: "Time from the deletion of a Node until it was gone.", Objectives: objectives(),
	}, []string{"nodepool"})
	m.NodesLifetimeDurationSeconds = f.histogram("nodes", "lifetime_duration_seconds",
		"Age of Nodes at the end of their deletion.", lifetimeBuckets(), "nodepool")
	m.CloudProviderDurationSeconds = f.histogram("cloudprovider", "duration_seconds", "Time that calls to the cloud took.", durationBuckets(), "controller", "method", "provider")
	m.CloudProviderErrors = f.counter(namespace, "cloudprovider", "errors_total", "Calls to the cloud that failed.", "controller", "method", "nodepool", "provider", "error")
	m.InterruptionReceived = f.counter(namespace, "interruption", "received_messages_total", "Messages of the interruption queue, by kind.", "message_type")
	m.InterruptionDeleted = f.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "interruption", Name: "deleted_messages_total", Help: "Messages of the interruption queue that were handled and deleted.",
	})
	m.InterruptionQueueSeconds = f.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: "interruption", Name: "message_queue_duration_seconds", Help: "Time from sending a message until it was handled.", Buckets: durationBuckets(),
	})
	m.addAWS(f)
	m.addRemote(f)
}

// addAWS adds the metrics of requests to AWS, which have the status of the HTTP answer as
// their code.
func (m *Metrics) addAWS(f factory) {
	labels := []string{"service", "action", "code"}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "aws_sdk_go", Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.InstanceUnhealthy = f.counter(namespace, "interruption", "instance_status_unhealthy_total", "Instances that EC2 reports as unhealthy, by category.", "category")
	m.LaunchFailures = f.counter(namespace, "cloudprovider", "instance_launch_failures_total", "Refusals in EC2's answers to launches.", "zone", "zone_id", "capacity_type", "reason")
	m.TerminationFailures = f.counter(namespace, "cloudprovider", "instance_termination_failures_total", "Instances that EC2 did not terminate when requested.", "zone", "zone_id")
	m.BatchTime = f.histogram("cloudprovider", "batcher_batch_time_seconds", "Time for which calls were collected into one request to EC2.", durationBuckets(), "batcher")
	m.BatchSize = f.histogram("cloudprovider", "batcher_batch_size", "Number of calls in one request to EC2.", []float64{1, 2, 4, 5, 10, 25, 50, 100, 200}, "batcher")
	m.UserDataBytes = f.gauge("ec2nodeclasses", "userdata_bytes", "Size of the user data of a class, before it is encoded; EC2 takes 16384.", "nodeclass")
	m.PricesReadTimestampSeconds = f.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: own, Name: "prices_read_timestamp_seconds", Help: "When the prices in use were read, in seconds since 1970; those in the binary count from their day.",
	}, []string{"capacity_type"})
	m.AWSRequests = f.counter("aws_sdk_go", "", "request_total", "Requests to AWS.", labels...)
	m.AWSRequestDuration = histogram("request_duration_seconds", "Time that requests to AWS took, retries included.", durationBuckets())
	m.AWSRetries = histogram("request_retry_count", "Retries of requests to AWS.", prometheus.LinearBuckets(0, 1, 11))
	m.AWSAttempts = f.counter("aws_sdk_go", "", "request_attempt_total", "Attempts of requests to AWS.", labels...)
	m.AWSAttemptDuration = histogram("request_attempt_duration_seconds", "Time that attempts of requests to AWS took.", durationBuckets())
}

// addRemote adds the metrics of a provider in another process. Those without labels are vectors, too,
// so that they are not served before they mean something.
func (m *Metrics) addRemote(f factory) {
	m.ProviderCalls = f.counter(own, "", "provider_calls_total", "Calls to the provider in another process, by gRPC's code of the answer.", "method", "code")
	m.ProviderRefused = f.counter(own, "", "provider_refused_total", "Answers of that provider, or parts of them, that were refused, by what was wrong.", "rule")
	m.ProviderStarts = f.counter(own, "", "provider_restarts_total", "Times that provider started anew.")
	m.ProviderConnected = f.NewGaugeVec(prometheus.GaugeOpts{Namespace: own, Name: "provider_connected", Help: "1 while that provider answers."}, nil)
}

func (m *Metrics) addObserved(f factory) {
	m.ObservedNodeClaimsCreated = f.counter(own, "observed", "nodeclaims_created_total", "NodeClaims that a controller that only observes would have created, by reason.", "reason", "nodepool")
	m.ObservedNodeClaimsDisrupted = f.counter(own, "observed", "nodeclaims_disrupted_total", "NodeClaims whose removal it would have begun, by reason.", "reason", "nodepool")
	m.ObservedDisruptionDecisions = f.counter(own, "observed", "voluntary_disruption_decisions_total", "Removals that it would have begun.", "decision", "reason", "consolidation_type")
	m.ObservedSavingHourlyDollars = f.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: own, Subsystem: "observed", Name: "saving_hourly_dollars", Help: "What the removals that it would begin now save per hour.",
	}, nil)
}

func (m *Metrics) addPods(f factory) {
	m.PodsEvictionRequests = f.counter(namespace, "pods", "eviction_requests_total", "Eviction requests, by the status code of the response.", "code")
	m.PodsDrained = f.counter(namespace, "pods", "drained_total", "Pods evicted from nodes that are being removed, by reason.", "reason")
	m.PodsDisruptionInitiated = f.counter(namespace, "pods", "disruption_initiated_total", "Pods on nodes whose removal began, by reason.", disruptedLabels()...)
	m.PodsBoundDurationSeconds = f.histogram("pods", "bound_duration_seconds", "Time from the creation of a pod until it was bound.", durationBuckets(), "dynamic_resources")
	m.PodsStartupDurationSeconds = f.NewSummary(prometheus.SummaryOpts{
		Namespace: namespace, Subsystem: "pods", Name: "startup_duration_seconds",
		Help: "Time from the creation of a pod until it ran.", Objectives: objectives(),
	})
	m.PodsProvisioningBoundDurationSeconds = f.histogram("pods", "provisioning_bound_duration_seconds",
		"Time from when a pod was first seen to need a node until it was bound.", durationBuckets(), "dynamic_resources")
	m.PodsProvisioningStartupDurationSeconds = f.podHistogram("provisioning_startup_duration_seconds", "Time from when a pod was first seen to need a node until it ran.")
	m.PodsSchedulingDecisionDurationSeconds = f.podHistogram("scheduling_decision_duration_seconds", "Time from when a pod was first seen to need a node until the first decision about it.")
}

func (m *Metrics) addPools(f factory) {
	m.NodePoolsLimit = f.gauge("nodepools", "limit", "Limit of a NodePool, in the resource's base unit.", "resource_type", "nodepool")
	m.NodePoolsUsage = f.gauge("nodepools", "usage", "Capacity of a NodePool's nodes, in the resource's base unit.", "resource_type", "nodepool")
	m.NodePoolsCost = f.gauge("nodepools", "cost_total", "Price of a NodePool's instances, in dollars per hour.", "nodepool")
	m.NodePoolsCostTrackerErrors = f.counter(namespace, "nodepools", "cost_tracker_errors_total", "Counts of a NodePool's cost in which the price of an instance was not known.", "nodepool")
	m.NodePoolsAllowedDisruptions = f.gauge("nodepools", "allowed_disruptions", "Nodes of a NodePool that its budgets allow to be disrupted now.", "nodepool", "reason")
	m.NodePoolsNodesConsumingBudgets = f.gauge("nodepools", "nodes_consuming_budgets", "Nodes of a NodePool that count against its budgets.", "nodepool", "reason")
	m.StaticMissingNodes = f.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: own, Name: "static_missing_nodes", Help: "Nodes that a NodePool with spec.replicas has too few.",
	}, []string{"nodepool"})
	m.PodDeletionCostPending = f.gauge("pod_deletion_cost", "nodes_with_pending_annotation_writes", "Nodes whose pods did not have their deletion cost when it was decided last.", "nodepool")
	m.PodDeletionCostWrites = f.counter(namespace, "pod_deletion_cost", "pod_annotation_writes_total", "Writes of the deletion cost of a pod, by result.", "result")
}

func (m *Metrics) addLoops(f factory, reg prometheus.Registerer) {
	m.SchedulerSchedulingDurationSeconds = f.histogram("scheduler", "scheduling_duration_seconds", "Time that deciding about pending pods took.", durationBuckets(), "controller")
	m.SchedulerQueueDepth = f.gauge("scheduler", "queue_depth", "Pods waiting for a decision.", "controller", "scheduling_id")
	m.SchedulerIgnoredPodsCount = f.NewGauge(gaugeOpts("scheduler", "ignored_pods_count", "Pending pods that are ignored, because no node of ours can ever fit them."))
	m.SchedulerUnschedulablePodsCount = f.gauge("scheduler", "unschedulable_pods_count", "Pods refused by the last decision.", "controller")
	m.SchedulerPendingPodsByZone = f.gauge("scheduler", "pending_pods_by_effective_zone_count",
		"Pending pods of the last decision, by the one zone that they can be in; flexible: there are several, none: there is none.", "controller", "zone")
	m.SchedulerUnfinishedWork = newWork()
	reg.MustRegister(m.SchedulerUnfinishedWork)
	m.ClusterStateNodeCount = f.NewGauge(gaugeOpts("cluster_state", "node_count", "Nodes in the mirror of the cluster, in-flight NodeClaims included."))
	m.ClusterStateSynced = f.NewGauge(gaugeOpts("cluster_state", "synced", "1 while the caches are synced."))
	m.ClusterStateUnsyncedTimeSeconds = f.NewGauge(gaugeOpts("cluster_state", "unsynced_time_seconds", "How long the caches have not been synced."))
	m.VoluntaryDisruptionDecisionEvaluationDurationSeconds = f.histogram("voluntary_disruption", "decision_evaluation_duration_seconds",
		"Time that deciding about removals took.", durationBuckets(), "reason", "consolidation_type")
	m.VoluntaryDisruptionDecisions = f.counter(namespace, "voluntary_disruption", "decisions_total", "Removals decided.", "decision", "reason", "consolidation_type")
	m.VoluntaryDisruptionTerminateFirstDecisions = f.counter(namespace, "voluntary_disruption", "terminate_first_decisions_total",
		"Removals decided before anything is launched for the pods.", "nodepool", "reason", "terminate_first_reason")
	m.VoluntaryDisruptionDecisionsByNodePool = f.counter(namespace, "voluntary_disruption", "decisions_by_nodepool_total", "Removals decided, by NodePool.",
		"nodepool", "decision", "reason", "consolidation_type")
	m.VoluntaryDisruptionEligibleNodes = f.gauge("voluntary_disruption", "eligible_nodes", "Nodes that may be removed.", "reason")
	m.VoluntaryDisruptionQueueFailures = f.counter(namespace, "voluntary_disruption", "queue_failures_total", "Removals begun and cancelled, because of their replacements or their reason.",
		"decision", "reason", "consolidation_type")
	m.VoluntaryDisruptionFailedValidations = f.counter(namespace, "voluntary_disruption", "failed_validations_total",
		"Consolidations begun and cancelled, because the cluster had changed.", "consolidation_type")
	m.ConsolidationScore = f.histogram("consolidation", "score", "Score of commands in pools with the policy Balanced: the share of price saved for the share of disruption.",
		[]float64{.1, .25, .33, .5, 1, 2, 5, 10}, "decision", "nodepool", "policy")
	m.ConsolidationMoves = f.counter(namespace, "consolidation", "moves_total", "Commands that pools with the policy Balanced approved, when they were begun, or rejected.", "decision", "nodepool", "policy")
	m.VoluntaryDisruptionConsolidationTimeouts = f.counter(namespace, "voluntary_disruption", "consolidation_timeouts_total",
		"Reconciles in which only a part of consolidation was searched, because a full search had just taken long.", "consolidation_type")
}

// ObservePlan observes how long a decision took; its ID is the exemplar, unless it is empty.
func (m *Metrics) ObservePlan(took time.Duration, decision string) {
	if o, ok := m.PlanSeconds.(prometheus.ExemplarObserver); ok && decision != "" {
		o.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"decision": decision})
		return
	}
	m.PlanSeconds.Observe(took.Seconds())
}

// factory makes and registers metrics.
type factory struct{ promauto.Factory }

func (f factory) counter(ns, subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Subsystem: subsystem, Name: name, Help: help}, labels)
}

func (f factory) gauge(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(gaugeOpts(subsystem, name, help), labels)
}

func (f factory) histogram(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
}

func (f factory) podHistogram(name, help string) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "pods", Name: name, Help: help, Buckets: durationBuckets()})
}

func gaugeOpts(subsystem, name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
}

func disruptedLabels() []string {
	return []string{"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"}
}

func objectives() map[float64]float64 {
	return map[float64]float64{0: 0, 0.5: 0.01, 0.9: 0.01, 0.99: 0.001, 1: 0}
}

// rebootBuckets go from ten seconds to twenty-one minutes.
func rebootBuckets() []float64 { return prometheus.ExponentialBuckets(10, 2, 8) }

// lifetimeBuckets go from a quarter of an hour to thirty days.
func lifetimeBuckets() []float64 {
	const hour, day = 3600, 24 * 3600
	return []float64{
		0.25 * hour, 0.5 * hour, 1 * hour, 2 * hour, 4 * hour, 6 * hour, 8 * hour, 12 * hour,
		1 * day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 14 * day, 20 * day, 25 * day, 30 * day,
	}
}

// Reconcile records that a loop of ours begins to reconcile. The function that it returns records
// the end, with the error if there is one.
func (m *Metrics) Reconcile(controller string, now func() time.Time) (end func(error)) {
	r, start := &m.reconciles, now()
	r.atOnce.WithLabelValues(controller).Set(1)
	r.active.WithLabelValues(controller).Inc()
	failed := r.failed.WithLabelValues(controller)
	return func(err error) {
		r.active.WithLabelValues(controller).Dec()
		result := "success"
		if err != nil {
			result = "error"
			failed.Inc()
		}
		r.total.WithLabelValues(controller, result).Inc()
		r.seconds.WithLabelValues(controller).Observe(now().Sub(start).Seconds())
	}
}
