package deletioncost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// world has nodes of one instance type and one pool, an API server that has their pods, and the
// loops under test.
type world struct {
	*Controllers
	t *testing.T
}

// node is a node with so many pods.
type node struct {
	name string
	pods int
	// change is done to its Node, its NodeClaim, and its pods.
	change func(*corev1.Node, *karpenterv1.NodeClaim, []*corev1.Pod)
}

func newWorld(t *testing.T, patch func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error, nodes ...node) *world {
	t.Helper()
	class := karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}
	pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &class
	pool.Spec.Disruption = karpenterv1.Disruption{ConsolidateAfter: karpenterv1.NillableDuration{Duration: new(time.Duration(0))}, Budgets: []karpenterv1.Budget{{Nodes: "100%"}}}
	objects := []client.Object{pool}
	for _, n := range nodes {
		id := "test://" + n.name
		on := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID(n.name), Labels: map[string]string{
			karpenterv1.NodePoolLabelKey: "general", karpenterv1.NodeRegisteredLabelKey: "true", karpenterv1.NodeInitializedLabelKey: "true",
			corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "a", karpenterv1.CapacityTypeLabelKey: "on-demand", "g.test/class": "default",
		}}, Spec: corev1.NodeSpec{ProviderID: id}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		claim := &karpenterv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID("claim-" + n.name), Labels: map[string]string{karpenterv1.NodePoolLabelKey: "general"}},
			Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &class},
			Status: karpenterv1.NodeClaimStatus{ProviderID: id, NodeName: n.name, Conditions: []metav1.Condition{
				{Type: karpenterv1.ConditionTypeInitialized, Status: metav1.ConditionTrue},
			}},
		}
		var pods []*corev1.Pod
		for i := range n.pods {
			name := fmt.Sprintf("%s-%d", n.name, i)
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)},
			}}, Spec: corev1.PodSpec{NodeName: n.name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
		}
		if n.change != nil {
			n.change(on, claim, pods)
		}
		objects = append(objects, on, claim)
		for _, p := range pods {
			objects = append(objects, p)
		}
	}
	store := mirror.NewStore(mirror.Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: func() time.Time { return noon }, Manages: func(string, string) bool { return true }, DeletionCosts: true,
	})
	store.Pools().SetTypes(cloud.ClassRef{Group: "g.test", Kind: "Class", Name: "default"}, []*catalog.Type{
		{Name: "small", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", PriceHourly: 1, Priced: true, Available: true}}},
	}, nil)
	if err := store.Observe(objects...); err != nil {
		t.Fatal(err)
	}
	api := fakeapi.New(t, objects...).WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build()
	return &world{&Controllers{
		Client: api, Mirror: store, Synced: func() bool { return true }, Metrics: observe.NewMetrics(prometheus.NewRegistry()),
	}, t}
}

// cycle decides once and writes what was queued. It returns how many nodes that were.
func (w *world) cycle() int {
	w.t.Helper()
	if _, err := w.Reconcile(w.t.Context(), reconcile.Request{}); err != nil {
		w.t.Fatal(err)
	}
	queued := maps.Clone(w.queued)
	for name := range queued {
		if _, err := w.writer().Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			w.t.Log(err)
		}
	}
	return len(queued)
}

// costs returns the annotation of each pod that has one.
func (w *world) costs() map[string]string {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.Client.List(w.t.Context(), &pods); err != nil {
		w.t.Fatal(err)
	}
	costs := map[string]string{}
	for _, p := range pods.Items {
		if text, ok := p.Annotations[corev1.PodDeletionCost]; ok {
			costs[p.Name] = text
		}
	}
	return costs
}

func (w *world) count(result string) float64 {
	return w.value(w.Metrics.PodDeletionCostWrites.WithLabelValues(result))
}

func (w *world) value(of prometheus.Metric) float64 {
	w.t.Helper()
	var m dto.Metric
	if err := of.Write(&m); err != nil {
		w.t.Fatal(err)
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func (w *world) pending() float64 {
	return w.value(w.Metrics.PodDeletionCostPending.WithLabelValues("general"))
}

// TestPodsGetTheCostOfTheirNode: the pods of ReplicaSets alone, and those on nodes that are not
// ranked lose whatever they had. What nobody observed is not decided again.
func TestPodsGetTheCostOfTheirNode(t *testing.T) {
	t.Parallel()
	theirs := func(_ *corev1.Node, _ *karpenterv1.NodeClaim, pods []*corev1.Pod) {
		for _, p := range pods {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "77"}
		}
	}
	w := newWorld(t, nil,
		node{"two", 2, nil},
		node{"one", 1, theirs},
		node{"leaving", 1, func(n *corev1.Node, _ *karpenterv1.NodeClaim, _ []*corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: karpenterv1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}}
		}},
		node{"kept", 1, func(n *corev1.Node, c *karpenterv1.NodeClaim, pods []*corev1.Pod) {
			theirs(n, c, pods)
			n.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
		}},
		node{"job", 1, func(_ *corev1.Node, _ *karpenterv1.NodeClaim, pods []*corev1.Pod) {
			pods[0].OwnerReferences[0].Kind = "Job"
		}},
		node{"naked", 1, func(n *corev1.Node, c *karpenterv1.NodeClaim, pods []*corev1.Pod) {
			theirs(n, c, pods)
			pods[0].OwnerReferences = nil
		}},
	)
	// The node with the pod of a Job saves as much as node one, and is before it by name: it has -3.
	want := map[string]string{"one-0": "-2", "two-0": "-1", "two-1": "-1", "leaving-0": "-2147483648", "naked-0": "77"}
	if n := w.cycle(); n != 4 || w.pending() != 4 {
		t.Errorf("%d nodes are queued, %v pending, want those with pods of ReplicaSets that differ: 4", n, w.pending())
	}
	if diff := cmp.Diff(want, w.costs()); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
	if got := w.count(updated); got != 5 {
		t.Errorf("%v writes, want 5", got)
	}
	if n := w.cycle(); n != 0 || w.pending() != 4 {
		t.Errorf("nothing was observed, yet %d nodes are queued", n)
	}
	w.complete = false
	if n := w.cycle(); n != 0 || w.pending() != 0 {
		t.Errorf("all pods have their cost, yet %d nodes are queued, %v pending", n, w.pending())
	}
}

// TestFewNodesAreWrittenAtOnce: fifty at a time, and the rest in the next cycle though nothing was
// observed; those that go away count aside.
func TestFewNodesAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	var nodes []node
	for i := range 60 {
		nodes = append(nodes, node{fmt.Sprintf("n%02d", i), 1, nil})
	}
	for i := range 3 {
		nodes = append(nodes, node{fmt.Sprint("gone", i), 1, func(n *corev1.Node, _ *karpenterv1.NodeClaim, _ []*corev1.Pod) {
			n.Spec.Taints = []corev1.Taint{{Key: karpenterv1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}}
		}})
	}
	w := newWorld(t, nil, nodes...)
	if n := w.cycle(); n != 53 || w.pending() != 63 || len(w.costs()) != 53 {
		t.Errorf("%d nodes are queued, %v pending, %d pods have a cost; want 53 of 63", n, w.pending(), len(w.costs()))
	}
	if n := w.cycle(); n != 10 || w.pending() != 10 || len(w.costs()) != 63 {
		t.Errorf("%d nodes are queued, %v pending, %d pods have a cost; want the other 10", n, w.pending(), len(w.costs()))
	}
}

// TestPodsThatChangeMeanwhileAreLeftAlone: until the next decision; other errors are tried again.
func TestPodsThatChangeMeanwhileAreLeftAlone(t *testing.T) {
	t.Parallel()
	gone := schema.GroupResource{Resource: "pods"}
	for result, c := range map[string]struct {
		err  error
		left int
	}{
		skipConflict: {apierrors.NewConflict(gone, "p", errors.New("changed")), 0},
		skipNotFound: {apierrors.NewNotFound(gone, "p"), 0},
		failed:       {errors.New("the API server is away"), 1},
	} {
		err := c.err
		w := newWorld(t, func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err != nil {
				return err
			}
			return api.Patch(ctx, o, p, opts...)
		}, node{"n1", 2, nil})
		w.cycle()
		if got := w.count(result); got != 2 || len(w.queued) != c.left {
			t.Errorf("%s: counted %v, %d nodes are left in the queue", result, got, len(w.queued))
		}
		err, w.complete = nil, false
		w.cycle()
		if got := w.costs(); len(got) != 2 || len(w.queued) != 0 {
			t.Errorf("%s: after it is over pods have %v", result, got)
		}
	}
}
