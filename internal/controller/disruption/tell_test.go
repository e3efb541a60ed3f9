package disruption

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/mirror"
	"github.com/dovetail-sh/dovetail/internal/observe"
)

// TestWhatBecomesOfConsolidationIsTold by events on machines and pools, and by metrics.
func TestWhatBecomesOfConsolidationIsTold(t *testing.T) {
	t.Parallel()
	removals := func(nodes ...string) (all []plan.Removal) {
		for _, n := range nodes {
			all = append(all, plan.Removal{Node: n, Claim: "claim-" + n, Pool: "p", Reason: disrupt.Underutilized})
		}
		return all
	}
	one := plan.Step{Reason: disrupt.Underutilized, Remove: removals("a"), SavingHourly: 0.2, Evictions: 3}
	two := plan.Step{Reason: disrupt.Underutilized, Remove: removals("a", "b"), SavingHourly: 0.2, Evictions: 3}
	back := plan.Undo{Reason: disrupt.Underutilized, Open: removals("a"), Why: verdict.Of(verdict.StepBroken, "a", "pods came")}
	drifted := back
	drifted.Reason = disrupt.Drifted
	on := func(kind string) string { return " involvedObject{kind=" + kind + ",apiVersion=}" }
	const saves = "saves $0.2000 per hour, evicts 3 pods: score 0.70"
	for name, c := range map[string]struct {
		tell    func(*Loop)
		events  []string
		counted map[string]float64 // by metric and its labels
	}{
		"a step that a pool approved is begun": {
			tell: func(l *Loop) {
				l.tellScores(&plan.Plan{Steps: []plan.Step{one}, Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.7, Approved: true}}})
			},
			events: []string{"Normal ConsolidationApproved " + saves + on("Node"), "Normal ConsolidationApproved " + saves + on("NodeClaim")}, counted: map[string]float64{"moves approved p balanced": 1, "score approved p balanced": 0.7},
		},
		"it removes several machines": {
			tell: func(l *Loop) {
				l.tellScores(&plan.Plan{Steps: []plan.Step{two}, Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.7, Approved: true}}})
			},
			events: []string{"Normal ConsolidationApproved " + saves + on("NodePool")}, counted: map[string]float64{"moves approved p balanced": 1, "score approved p balanced": 0.7},
		},
		"a step was rejected": {
			tell: func(l *Loop) {
				l.tellScores(&plan.Plan{Scores: []plan.Score{{Node: "a", Pool: "p", Value: 0.1}}})
			},
			counted: map[string]float64{"moves rejected p balanced": 1, "score rejected p balanced": 0.1},
		},
		"a step is taken back": {
			tell:   func(l *Loop) { l.tellUndo(&back) },
			events: []string{"Normal ConsolidationRejected a: pods came" + on("Node"), "Normal ConsolidationRejected a: pods came" + on("NodeClaim")}, counted: map[string]float64{"failed single": 1},
		},
		"one for another reason is": {
			tell:    func(l *Loop) { l.tellUndo(&drifted) },
			events:  []string{"Normal DisruptionBlocked a: pods came" + on("Node"), "Normal DisruptionBlocked a: pods came" + on("NodeClaim")},
			counted: map[string]float64{"queue failures delete drifted": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := record.NewFakeRecorder(20)
			told.IncludeObject = true
			metrics := prometheus.NewRegistry()
			l := &Loop{
				Mirror: mirror.NewStore(mirror.Options{Now: time.Now, Manages: func(string, string) bool { return true }}),
				Events: observe.NewRecorder(told, time.Now), Metrics: observe.NewMetrics(metrics), Log: slog.New(slog.DiscardHandler),
			}
			err := l.Mirror.Observe(
				&corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}},
				&karpenterv1.NodeClaim{TypeMeta: metav1.TypeMeta{Kind: "NodeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "claim-a"}},
				&karpenterv1.NodePool{TypeMeta: metav1.TypeMeta{Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}},
			)
			if err != nil {
				t.Fatal(err)
			}
			c.tell(l)
			close(told.Events)
			events := slices.Sorted(func(yield func(string) bool) {
				for e := range told.Events {
					if !yield(e) {
						return
					}
				}
			})
			slices.Sort(c.events)
			if diff := cmp.Diff(c.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.counted, counted(t, metrics)); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

// counted returns the metrics of consolidation that are not 0, and of steps taken back.
func counted(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{
		"karpenter_consolidation_moves_total": "moves", "karpenter_consolidation_score": "score",
		"karpenter_voluntary_disruption_failed_validations_total": "failed", "karpenter_voluntary_disruption_queue_failures_total": "queue failures",
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
			if value := m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum(); value > 0 && short[f.GetName()] != "" {
				got[key] = value
			}
		}
	}
	return got
}
