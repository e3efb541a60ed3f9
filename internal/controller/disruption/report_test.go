package disruption

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	events "k8s.io/client-go/tools/record"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// TestDecisionsAreReported by events on nodes and pools, and by metrics.
func TestDecisionsAreReported(t *testing.T) {
	t.Parallel()
	removals := func(nodes ...string) (all []plan.Removal) {
		for _, n := range nodes {
			all = append(all, plan.Removal{Node: n, Claim: "claim-" + n, Pool: "p", Reason: disrupt.Underutilized})
		}
		return all
	}
	one := plan.Command{Reason: disrupt.Underutilized, Remove: removals("a"), SavingHourly: 0.2, Evictions: 3}
	two := plan.Command{Reason: disrupt.Underutilized, Remove: removals("a", "b"), SavingHourly: 0.2, Evictions: 3}
	back := plan.Undo{Reason: disrupt.Underutilized, Open: removals("a"), Why: verdict.Of(verdict.StepBroken, "a", "pods came")}
	drifted := back
	drifted.Reason = disrupt.Drifted
	on := func(kind string) string { return " involvedObject{kind=" + kind + ",apiVersion=}" }
	blocked := func(why verdict.Reason) func(*Loop) {
		return func(l *Loop) {
			l.reportBlocked(&cluster.Snapshot{Nodes: []cluster.Node{{Name: "a", Claim: "claim-a", Pool: "p"}}},
				&plan.Disruption{Blocked: []verdict.Verdict{verdict.Of(why, "a", "why")}})
		}
	}
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	const saves = "saves $0.2000 per hour, evicts 3 pods: score 0.70"
	for name, c := range map[string]struct {
		report  func(*Loop)
		events  []string
		counted map[string]float64 // by metric and its labels
	}{
		"what an observer would do is counted once": {
			report: func(l *Loop) {
				decision := func() *record.Decision {
					replaced := two
					replaced.Launch = []plan.Launch{{Pool: "p", Types: []string{"m5.large"}}}
					return &record.Decision{Disruption: plan.Disruption{Commands: []plan.Command{replaced}, Reboots: []plan.Reboot{{Node: "c", Pool: "p"}}}}
				}
				l.observe(decision())
				l.observe(decision())
				more := decision()
				more.Disruption.Commands = append(more.Disruption.Commands, plan.Command{Reason: disrupt.Empty, Remove: []plan.Removal{{Node: "d", Pool: "q"}}, SavingHourly: 0.5})
				l.observe(more)
			},
			counted: map[string]float64{
				"observed decisions multi replace underutilized": 1, "observed decisions reboot unhealthy": 1, "observed decisions empty delete empty": 1,
				"observed created p underutilized": 1, "observed disrupted p underutilized": 2, "observed disrupted p unhealthy": 1, "observed disrupted q empty": 1,
				"observed saving": 0.7,
			},
		},
		"a step that a pool approved is begun": {
			report: func(l *Loop) {
				l.reportScores(&plan.Disruption{Commands: []plan.Command{one}, Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.7, Approved: true}}})
			},
			events: []string{"Normal ConsolidationApproved " + saves + on("Node"), "Normal ConsolidationApproved " + saves + on("NodeClaim")}, counted: map[string]float64{"moves approved p balanced": 1, "score approved p balanced": 0.7},
		},
		"it removes several nodes": {
			report: func(l *Loop) {
				l.reportScores(&plan.Disruption{Commands: []plan.Command{two}, Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.7, Approved: true}}})
			},
			events: []string{"Normal ConsolidationApproved " + saves + on("NodePool")}, counted: map[string]float64{"moves approved p balanced": 1, "score approved p balanced": 0.7},
		},
		"a step was rejected": {
			report: func(l *Loop) {
				l.reportScores(&plan.Disruption{Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.1}}})
			},
			counted: map[string]float64{"moves rejected p balanced": 1, "score rejected p balanced": 0.1},
		},
		"a step is taken back": {
			report: func(l *Loop) { l.reportUndo(&back) },
			events: []string{"Normal ConsolidationRejected a: pods came" + on("Node"), "Normal ConsolidationRejected a: pods came" + on("NodeClaim")}, counted: map[string]float64{"failed single": 1},
		},
		"one for another reason is": {
			report:  func(l *Loop) { l.reportUndo(&drifted) },
			events:  []string{"Normal DisruptionBlocked a: pods came" + on("Node"), "Normal DisruptionBlocked a: pods came" + on("NodeClaim")},
			counted: map[string]float64{"queue failures delete drifted": 1},
		},
		"a step is begun": {
			report: func(l *Loop) { l.reportBegun(&one, nil, nil) },
			events: []string{
				"Normal ConsolidationCandidate removes 1 nodes, launches 0: saves $0.2000 per hour, evicts 3 pods" + on("Node"),
				"Normal ConsolidationCandidate removes 1 nodes, launches 0: saves $0.2000 per hour, evicts 3 pods" + on("NodeClaim"),
			},
			counted: map[string]float64{"decisions single delete underutilized": 1, "pool's decisions single delete p underutilized": 1},
		},
		"an empty node is removed": {
			report: func(l *Loop) {
				l.reportRemoval(&cluster.Snapshot{Pools: []cluster.Pool{{Name: "p", Policy: "WhenEmptyOrUnderutilized"}}},
					plan.Removal{Node: "a", Claim: "claim-a", Pool: "p", Reason: disrupt.Empty}, &karpenterv1.NodeClaim{})
			},
			events:  []string{"Normal DisruptionTerminating Disrupting: Empty" + on("Node"), "Normal DisruptionTerminating Disrupting: Empty" + on("NodeClaim")},
			counted: map[string]float64{"disrupted when_empty_or_underutilized p empty graceful": 1},
		},
		"a drifted node is removed": {
			report: func(l *Loop) {
				l.reportRemoval(&cluster.Snapshot{Pools: []cluster.Pool{{Name: "p", Policy: "WhenEmptyOrUnderutilized"}}},
					plan.Removal{Node: "a", Claim: "claim-a", Pool: "p", Reason: disrupt.Drifted}, &karpenterv1.NodeClaim{})
			},
			events:  []string{"Normal DisruptionTerminating Disrupting: Drifted" + on("Node"), "Normal DisruptionTerminating Disrupting: Drifted" + on("NodeClaim")},
			counted: map[string]float64{"disrupted p drifted graceful": 1},
		},
		"a step could not be begun": {report: func(l *Loop) { l.reportBegun(&two, nil, errors.New("conflict")) }},
		"a replacement is not ready": {
			report: func(l *Loop) {
				l.reportWaiting(&cluster.Snapshot{Nodes: []cluster.Node{
					{Name: "old", DisruptionReason: disrupt.Drifted, Disruption: cluster.Disruption{Step: "s"}},
					{Name: "a", Claim: "claim-a", Disruption: cluster.Disruption{Replaces: "s"}},
				}})
			},
			events: []string{"Normal DisruptionWaitingReadiness The nodes that it replaces stay until it is initialized" + on("NodeClaim")},
		},
		"a replacement is ready": {
			report: func(l *Loop) {
				l.reportWaiting(&cluster.Snapshot{Nodes: []cluster.Node{
					{Name: "old", DisruptionReason: disrupt.Drifted, Disruption: cluster.Disruption{Step: "s"}},
					{Name: "a", Claim: "claim-a", Initialized: true, Disruption: cluster.Disruption{Replaces: "s"}},
				}})
			},
		},
		"a pod keeps a node":      {report: blocked(verdict.NodeBlocked), events: []string{"Normal DisruptionBlocked why" + on("Node"), "Normal DisruptionBlocked why" + on("NodeClaim")}},
		"nothing is gained":       {report: blocked(verdict.Unconsolidatable), events: []string{"Normal Unconsolidatable why" + on("Node"), "Normal Unconsolidatable why" + on("NodeClaim")}},
		"the budgets keep a node": {report: blocked(verdict.BudgetExhausted), events: []string{"Normal DisruptionBlocked why" + on("NodePool")}},
		"a node is rebooted": {
			report: func(l *Loop) {
				l.Reboots = reboots{nil}
				_ = l.reboot(t.Context(), &cluster.Snapshot{}, &plan.Disruption{Reboots: []plan.Reboot{{Node: "a", Claim: "claim-a", Pool: "p", Condition: "GPUReady"}}})
			},
			counted: map[string]float64{"decisions reboot unhealthy": 1, "pool's decisions reboot p unhealthy": 1, "disrupted p unhealthy graceful": 1},
		},
		"a node could not be rebooted": {report: func(l *Loop) {
			l.Reboots = reboots{errors.New("it is rebooting")}
			_ = l.reboot(t.Context(), &cluster.Snapshot{}, &plan.Disruption{Reboots: []plan.Reboot{{Node: "a"}}})
		}},
		"a node goes before others are there": {
			report: func(l *Loop) {
				l.reportBegun(&plan.Command{Reason: disrupt.Drifted, TerminateFirst: plan.StaticAtLimit, Remove: []plan.Removal{{Node: "a", Pool: "p"}}}, nil, nil)
			},
			counted: map[string]float64{"decisions terminate-first drifted": 1, "pool's decisions terminate-first p drifted": 1, "first p drifted static-at-limit": 1},
		},
		"too many are unhealthy": {report: blocked(verdict.RepairBlocked), events: []string{
			"Warning NodeRepairBlocked why" + on("Node"), "Warning NodeRepairBlocked why" + on("NodeClaim"), "Warning NodeRepairBlocked why" + on("NodePool"),
		}},
		"it only has to wait": {report: blocked(verdict.ConsolidateAfterNotElapsed)},
		"a budget allows nothing": {
			report: func(l *Loop) {
				l.reportPools(&cluster.Snapshot{
					Nodes: []cluster.Node{{Name: "a", Claim: "claim-a", Pool: "p", Initialized: true, Ready: true}},
					Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Active: true, Reasons: []string{disrupt.Drifted}}}}},
				})
			},
			events:  []string{"Normal DisruptionBlocked the budgets allow no disruption for Drifted now" + on("NodePool")},
			counted: map[string]float64{"allowed p empty": math.MaxInt32, "allowed p underutilized": math.MaxInt32},
		},
		"a budget allows some": {
			report: func(l *Loop) {
				l.Repair = true
				l.reportPools(&cluster.Snapshot{
					Nodes: []cluster.Node{
						{Name: "a", Claim: "claim-a", Pool: "p", Initialized: true, Ready: true, DisruptionReason: disrupt.Drifted},
						{Name: "b", Claim: "claim-b", Pool: "p", Initialized: true, Ready: true},
						{Name: "c", Claim: "claim-c", Pool: "p", Initialized: true},
						{Name: "d", Claim: "claim-d", Pool: "p", Ready: true},
					},
					Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Active: true, Nodes: 34, Percent: true}, {Active: true, Nodes: 1, Reasons: []string{disrupt.Empty}}}}},
				})
			},
			counted: map[string]float64{
				"allowed p drifted": 2, "allowed p empty": 1, "allowed p underutilized": 2, "going p drifted": 2, "going p empty": 2, "going p underutilized": 2,
				"allowed p unhealthy": 2, "going p unhealthy": 1,
			},
		},
		"pods have annotations": {
			report: func(l *Loop) {
				pod := func(name, node, value string) {
					p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
					p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: value}
					p.Status.StartTime = &metav1.Time{Time: noon}
					if err := l.Mirror.Observe(p); err != nil {
						panic(err)
					}
				}
				pod("mistyped", "a", "1hour")
				pod("protected", "a", "1h")
				pod("not any more", "a", "1m")
				pod("for ever", "a", "true")
				pod("elsewhere", "b", "1hour")
				snap := &cluster.Snapshot{At: noon.Add(2 * time.Minute), Nodes: []cluster.Node{{Name: "a", Claim: "claim-a", Initialized: true}, {Name: "b"}}}
				l.reportAnnotations(snap)
				pod("later", "a", "1hour")
				l.reportAnnotations(snap) // not again so soon
			},
			events: []string{
				"Normal DoNotDisruptGracePeriodElapsed The duration in annotation karpenter.sh/do-not-disrupt has elapsed" + on("Pod"),
				"Normal DoNotDisruptUntil Annotation karpenter.sh/do-not-disrupt protects the pod until 2026-11-25T13:00:00Z" + on("Pod"),
				`Warning InvalidDoNotDisruptAnnotation Annotation karpenter.sh/do-not-disrupt is "1hour", which is neither true nor a positive duration` + on("Pod"),
			},
		},
		"a budget cannot be read": {
			report: func(l *Loop) {
				l.reportPools(&cluster.Snapshot{Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Active: true, Invalid: "no cron"}}}}})
			},
			events: []string{"Normal DisruptionBlocked spec.disruption.budgets[0] cannot be read and so allows nothing: no cron" + on("NodePool")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported := events.NewFakeRecorder(20)
			reported.IncludeObject = true
			metrics := prometheus.NewRegistry()
			l := &Loop{
				Mirror: mirror.NewStore(mirror.Options{Now: time.Now, Manages: func(string, string) bool { return true }}),
				Events: observe.NewRecorder(reported, time.Now), Metrics: observe.NewMetrics(metrics), Log: slog.New(slog.DiscardHandler), Now: time.Now,
			}
			err := l.Mirror.Observe(
				&corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}},
				&karpenterv1.NodeClaim{TypeMeta: metav1.TypeMeta{Kind: "NodeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}},
				&karpenterv1.NodePool{TypeMeta: metav1.TypeMeta{Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}},
			)
			if err != nil {
				t.Fatal(err)
			}
			c.report(l)
			close(reported.Events)
			events := slices.Sorted(func(yield func(string) bool) {
				for e := range reported.Events {
					if !yield(e) {
						return
					}
				}
			})
			slices.Sort(c.events)
			if diff := cmp.Diff(c.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.counted, counted(t, metrics), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

// counted returns the metrics of steps that are not 0.
func counted(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{
		"karpenter_nodeclaims_disrupted_total": "disrupted", "karpenter_voluntary_disruption_terminate_first_decisions_total": "first",
		"karpenter_consolidation_moves_total": "moves", "karpenter_consolidation_score": "score",
		"karpenter_voluntary_disruption_failed_validations_total": "failed", "karpenter_voluntary_disruption_queue_failures_total": "queue failures",
		"karpenter_voluntary_disruption_decisions_total": "decisions", "karpenter_voluntary_disruption_decisions_by_nodepool_total": "pool's decisions",
		"dovetail_observed_nodeclaims_created_total": "observed created", "dovetail_observed_nodeclaims_disrupted_total": "observed disrupted",
		"dovetail_observed_voluntary_disruption_decisions_total": "observed decisions", "dovetail_observed_saving_hourly_dollars": "observed saving",
		"karpenter_nodepools_allowed_disruptions": "allowed", "karpenter_nodepools_nodes_consuming_budgets": "going",
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := short[f.GetName()]
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					key += " " + l.GetValue()
				}
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum(); value > 0 && short[f.GetName()] != "" {
				got[key] = value
			}
		}
	}
	return got
}

// reboots answers each request for a reboot.
type reboots struct{ err error }

func (r reboots) Request(context.Context, *plan.Reboot) error { return r.err }

func (r reboots) IsEscalated(types.UID) bool { return false }
