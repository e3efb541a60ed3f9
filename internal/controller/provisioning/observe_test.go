package provisioning

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// observer is a provisioner that only observes, with a NodePool of nodes of four cores.
type observer struct {
	*Loop
	t     *testing.T
	now   time.Time
	store *mirror.Store
	log   bytes.Buffer
}

func newObserver(t *testing.T) *observer {
	t.Helper()
	o := &observer{t: t, now: noon}
	now := func() time.Time { return o.now }
	o.store = mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }, Unchecked: true})
	class := karpenterv1.NodeClassReference{Group: "g", Kind: "Class", Name: "default"}
	pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &class
	if err := o.store.Observe(pool); err != nil {
		t.Fatal(err)
	}
	o.store.Pools().SetTypes(cloud.ClassRef{Group: class.Group, Kind: class.Kind, Name: class.Name}, []*catalog.Type{{
		Name: "four", Requirements: label.Requirements{label.InstanceType: label.In("four")},
		Capacity:  quantity.List{quantity.CPU: 4000, quantity.Memory: 8 << 30, quantity.Pods: 110},
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: label.OnDemand, PriceHourly: 0.2, Priced: true, Available: true}},
	}}, nil)
	o.Loop = &Loop{
		Mirror: o.store, Launcher: &apply.Launcher{Mirror: o.store, PoolLaunches: &apply.PoolLaunches{}}, Quarantine: &apply.Quarantine{}, Now: now,
		Log: slog.New(slog.NewTextHandler(&o.log, nil)), Pack: pack.Options{}, Observe: true,
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Events: observe.NewRecorder(record.NewFakeRecorder(100), now),
	}
	return o
}

// pass decides once, and returns how many lines say what would be launched.
func (o *observer) pass() int {
	o.t.Helper()
	before := strings.Count(o.log.String(), "would launch nodes")
	if err := o.Loop.pass(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	return strings.Count(o.log.String(), "would launch nodes") - before
}

// quarantine has a decision of an hour ago given up for a pod, so that it is decided about apart.
func (o *observer) quarantine(name string) {
	before := o.store.Snapshot()
	before.At = o.now.Add(-time.Hour)
	o.Quarantine.Learn(before, &plan.Plan{Refusals: []plan.Refusal{{
		Pod: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Why: verdict.Of(verdict.DecisionFailed, "", "a test"),
	}}})
}

// created returns how many NodeClaims would have been created.
func (o *observer) created() float64 {
	o.t.Helper()
	var m dto.Metric
	if err := o.Metrics.ObservedNodeClaimsCreated.WithLabelValues(observe.ReasonProvisioned, "general").Write(&m); err != nil {
		o.t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestAnObserverSaysOnceWhatItWouldDo about pods that are decided about together, and about one that is
// decided about apart: the two decisions follow each other every minute.
func TestAnObserverSaysOnceWhatItWouldDo(t *testing.T) {
	t.Parallel()
	o := newObserver(t)
	if err := o.store.Observe(member("ordinary", ""), member("apart", "")); err != nil {
		t.Fatal(err)
	}
	for minute, want := range []int{2, 0, 0} {
		o.quarantine("apart")
		if got := o.pass(); got != want {
			t.Errorf("the decisions of minute %d are logged %d times, want %d:\n%s", minute, got, want, o.log.String())
		}
		o.now = o.now.Add(time.Minute)
	}
	if got := o.pass(); got != 0 { // the last decision has let it go
		t.Errorf("the decision about both together is logged %d times, want 0: it is the same for each\n%s", got, o.log.String())
	}
	if got := o.created(); got != 2 {
		t.Errorf("%v NodeClaims would have been created, want 2", got)
	}
}

// TestAnObserverSaysWhatIsNew: another pod, a pod of the same name, and again one that had gone.
func TestAnObserverSaysWhatIsNew(t *testing.T) {
	t.Parallel()
	o := newObserver(t)
	again := member("a", "")
	again.UID = "another"
	gone := func(name string) *corev1.Pod {
		p := member(name, "")
		p.Status.Phase = corev1.PodSucceeded
		return p
	}
	for i, step := range []struct {
		changes       *corev1.Pod
		lines, claims int
	}{
		{member("a", ""), 1, 1},
		{member("a", ""), 0, 1},
		{member("b", ""), 1, 2},
		{gone("b"), 0, 2},
		{member("b", ""), 1, 3},
		{gone("a"), 0, 3},
		{again, 1, 4},
	} {
		if err := o.store.Observe(step.changes); err != nil {
			t.Fatal(err)
		}
		if lines := o.pass(); lines != step.lines || o.created() != float64(step.claims) {
			t.Errorf("step %d: %d lines and %v NodeClaims in all, want %d and %d", i, lines, o.created(), step.lines, step.claims)
		}
	}
}
