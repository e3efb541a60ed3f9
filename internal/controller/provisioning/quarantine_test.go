package provisioning

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	events "k8s.io/client-go/tools/record"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestHeavyPodsCostOneDecision: the first decision about a namespace's heavy pods is given up;
// those after it are made without them, and theirs comes apart, when its time has come.
func TestHeavyPodsCostOneDecision(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\npod web count=3 cpu=1\npod heavy count=20 cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	plain := 0
	for i := range snap.Pending {
		p := &snap.Pending[i]
		if p.Name[:3] == "web" {
			plain++
			continue
		}
		sh := *p.Constraints
		for r := range 100 {
			sh.AntiAffinity = append(sh.AntiAffinity, cluster.PodTerm{Key: label.Hostname, Namespaces: []string{p.Namespace}, Selector: cluster.Selector{
				Some: true, Requirements: label.Requirements{"app": label.NotIn(fmt.Sprint(i, "-", r))},
			}})
		}
		p.Constraints = &sh
	}
	now := snap.At
	l := &Loop{
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		Pack: pack.Options{Effort: 100_000}, Quarantine: &apply.Quarantine{},
	}
	givenUp := func() float64 {
		var m dto.Metric
		if err := l.Metrics.DecisionsGivenUp.WithLabelValues(string(record.Provisioning), plan.CauseEffort).Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	decide := func(part *cluster.Snapshot) plan.Plan {
		_, p, took, err := l.decideSparing(part)
		if err != nil {
			t.Fatal(err)
		}
		l.Quarantine.Learn(part, &p)
		l.reportGivenUp(part, &p, took)
		return p
	}
	if decide(l.Quarantine.Divide(snap).Ordinary); givenUp() == 0 {
		t.Fatal("the decision about all pods was not given up: the test's pods are not heavy enough")
	}
	before := givenUp()
	snap.At = snap.At.Add(10 * time.Second)
	parts := l.Quarantine.Divide(snap)
	if len(parts.Due.Pending) != 0 || len(parts.Ordinary.Pending) < plain || len(parts.Waiting) == 0 {
		t.Errorf("after ten seconds %d pods are ordinary, %d due and %d wait; want at least %d ordinary and none due",
			len(parts.Ordinary.Pending), len(parts.Due.Pending), len(parts.Waiting), plain)
	}
	if p := decide(parts.Ordinary); givenUp() != before || len(p.Refusals) != 0 {
		t.Errorf("the decision without the heavy pods was given up %v times and refuses %d pods, want neither", givenUp()-before, len(p.Refusals))
	}
	snap.At = snap.At.Add(time.Minute)
	if parts = l.Quarantine.Divide(snap); len(parts.Due.Pending) == 0 {
		t.Error("no pod is decided about apart after a minute")
	}
}

// TestAllRefusedPodsAreCounted: those that are not quarantined, and those whose quarantine is over,
// though there are two decisions.
func TestAllRefusedPodsAreCounted(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return noon }
	store := mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }})
	if err := store.Observe(member("ordinary", ""), member("fatal", "")); err != nil {
		t.Fatal(err)
	}
	quarantine := &apply.Quarantine{}
	before := store.Snapshot()
	before.At = noon.Add(-time.Hour)
	quarantine.Learn(before, &plan.Plan{Refusals: []plan.Refusal{{
		Pod: cluster.PodRef{Namespace: "default", Name: "fatal", UID: "fatal"}, Why: verdict.Of(verdict.DecisionFailed, "", "a test"),
	}}})
	l := &Loop{
		Mirror: store, Launcher: &apply.Launcher{Mirror: store, PoolLaunches: &apply.PoolLaunches{}}, Quarantine: quarantine, Now: now, Log: slog.New(slog.DiscardHandler),
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Events: observe.NewRecorder(events.NewFakeRecorder(20), now),
	}
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	var m dto.Metric
	if err := l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Write(&m); err != nil {
		t.Fatal(err)
	}
	if got := m.GetGauge().GetValue(); got != 2 {
		t.Errorf("%v pods are counted as refused, want 2", got)
	}
}

// TestADecisionIsKeptAsItWasMade, though one of its refused pods is decided about once more with those whose quarantine
// is over: it is meant for a node that has no room for it now.
func TestADecisionIsKeptAsItWasMade(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return noon }
	store := mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "p1"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10")}},
	}
	if err := store.Observe(node, member("a", ""), member("b", ""), member("fatal", "")); err != nil {
		t.Fatal(err)
	}
	store.Assign([]cluster.PodRef{{Namespace: "default", Name: "a", UID: "a"}}, "n1")
	quarantine := &apply.Quarantine{}
	before := store.Snapshot()
	before.At = noon.Add(-time.Hour)
	quarantine.Learn(before, &plan.Plan{Refusals: []plan.Refusal{{
		Pod: cluster.PodRef{Namespace: "default", Name: "fatal", UID: "fatal"}, Why: verdict.Of(verdict.DecisionFailed, "", "a test"),
	}}})
	kept, err := journal.Open(journal.Options{MemoryBytes: 1 << 20, Now: now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{
		Mirror: store, Launcher: &apply.Launcher{Mirror: store, PoolLaunches: &apply.PoolLaunches{}}, Quarantine: quarantine, Now: now, Log: slog.New(slog.DiscardHandler),
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Events: observe.NewRecorder(events.NewFakeRecorder(20), now), Journal: kept,
	}
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	kept.Run(ctx) // writes what waits
	var written bytes.Buffer
	if err := kept.WriteFile(&written, kept.Heads()[0].ID); err != nil {
		t.Fatal(err)
	}
	file, err := journal.ReadFrom(&written, "kept")
	if err != nil {
		t.Fatal(err)
	}
	first, err := file.Decisions[0].Decision()
	if err != nil {
		t.Fatal(err)
	}
	if again := first.Redo(); len(kept.Heads()) != 2 || !record.SamePlan(first, again) {
		t.Errorf("%d decisions, the first has\n%s\nwant two and\n%s", len(kept.Heads()), first.EncodePlan(), again.EncodePlan())
	}
}

// TestNoPodIsQuarantinedWhereNoneIsPending: the number is not that of the last decision.
func TestNoPodIsQuarantinedWhereNoneIsPending(t *testing.T) {
	t.Parallel()
	store := mirror.NewStore(mirror.Options{Now: time.Now, Manages: func(string, string) bool { return true }})
	l := &Loop{
		Mirror: store, Launcher: &apply.Launcher{Mirror: store, PoolLaunches: &apply.PoolLaunches{}},
		Quarantine: &apply.Quarantine{}, Metrics: observe.NewMetrics(prometheus.NewRegistry()),
	}
	l.Metrics.QuarantinedPods.Set(3)
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	var m dto.Metric
	if err := l.Metrics.QuarantinedPods.Write(&m); err != nil {
		t.Fatal(err)
	}
	if got := m.GetGauge().GetValue(); got != 0 {
		t.Errorf("%v pods are quarantined, want 0", got)
	}
}
