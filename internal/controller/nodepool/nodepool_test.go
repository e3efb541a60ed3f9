package nodepool_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller/nodepool"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/loops"
)

const patience = time.Minute

// world is a control plane with the loops running, shared by the tests below, each of
// which has a pool and class of its own.
type world struct {
	*loops.Loops
	pools *nodepool.Controllers
}

func TestLoops(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"a good pool becomes ready and has its hash":     becomesReady,
		"the class decides whether the pool is ready":    followsClass,
		"a spec that makes no sense is said to be so":    saysWhatIsWrong,
		"a static pool says that it is left alone":       saysStaticIsLeftAlone,
		"a pool without a class gets the default one":    getsClass,
		"an old hash moves on without making drift":      migratesHash,
		"capacity is counted and shown":                  countsCapacity,
		"two failed launches make a pool unhealthy":      reportsHealth,
		"a pool of somebody else's class is not touched": leavesOthersAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

func becomesReady(t *testing.T, w *world) {
	w.create(t, class("good"))
	np := w.create(t, pool("good", "good")).(*karpenterv1.NodePool)
	w.until(t, np, func() error {
		if !condition.ForNodePool(np).IsTrue("Ready", "ValidationSucceeded", "NodeClassReady") {
			return fmt.Errorf("conditions are %v", np.Status.Conditions)
		}
		if got := np.Annotations["karpenter.sh/nodepool-hash"]; got != translate.PoolHash(np) || np.Annotations["karpenter.sh/nodepool-hash-version"] != "v3" {
			return fmt.Errorf("annotations are %v", np.Annotations)
		}
		if health := condition.ForNodePool(np).Get("NodeRegistrationHealthy"); health.Status != metav1.ConditionUnknown {
			return fmt.Errorf("health is %q before any launch", health.Status)
		}
		if np.Status.Nodes == nil || *np.Status.Nodes != 0 || np.Status.Resources.Cpu().Sign() != 0 || len(np.Status.Resources) != 5 {
			return fmt.Errorf("status is %+v, want five zeros", np.Status)
		}
		return nil
	})
	before := np.Annotations["karpenter.sh/nodepool-hash"]
	w.edit(t, np, func() { np.Spec.Template.Labels = map[string]string{"team": "blue"} })
	w.until(t, np, func() error {
		if np.Annotations["karpenter.sh/nodepool-hash"] == before {
			return fmt.Errorf("the hash is still %s", before)
		}
		if ready := condition.ForNodePool(np).Get("Ready"); ready.ObservedGeneration != 2 || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

func followsClass(t *testing.T, w *world) {
	np := w.create(t, pool("classy", "late")).(*karpenterv1.NodePool)
	reason := func(want string) {
		t.Helper()
		w.until(t, np, func() error {
			if got := condition.ForNodePool(np).Get("NodeClassReady"); got.Reason != want {
				return fmt.Errorf("NodeClassReady is %s %s %q, want reason %s", got.Status, got.Reason, got.Message, want)
			}
			return nil
		})
	}
	reason("NodeClassNotFound")
	late := class("late")
	late.Finalizers = []string{"example.com/held"}
	w.create(t, late)
	reason("NodeClassReady")
	for _, step := range []struct {
		status metav1.ConditionStatus
		want   string
	}{{metav1.ConditionFalse, "ImageMissing"}, {metav1.ConditionUnknown, "NodeClassReadinessUnknown"}} {
		late.Status.Conditions[0].Status, late.Status.Conditions[0].Reason = step.status, "ImageMissing"
		if err := w.Status().Update(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		reason(step.want)
	}
	if err := w.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	reason("NodeClassTerminating")
	if ready := condition.ForNodePool(np).Get("Ready"); ready.Status != metav1.ConditionFalse {
		t.Errorf("Ready is %s while the class goes, want False", ready.Status)
	}
	w.edit(t, late, func() { late.Finalizers = nil })
	reason("NodeClassNotFound")
}

func saysWhatIsWrong(t *testing.T, w *world) {
	np := pool("wrong", "any")
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	np.Spec.Template.Spec.Taints, np.Spec.Template.Spec.StartupTaints = []corev1.Taint{taint}, []corev1.Taint{taint}
	w.create(t, np)
	w.until(t, np, func() error {
		got := condition.ForNodePool(np).Get("ValidationSucceeded")
		if got.Status != metav1.ConditionFalse || got.Reason != "NodePoolValidationFailed" || got.Message != `spec.template.spec.startupTaints[0]: Duplicate value: "a:NoSchedule"` {
			return fmt.Errorf("ValidationSucceeded is %+v", got)
		}
		return nil
	})
	w.edit(t, np, func() { np.Spec.Template.Spec.StartupTaints = nil })
	w.until(t, np, func() error {
		if !condition.ForNodePool(np).IsTrue("ValidationSucceeded") {
			return fmt.Errorf("ValidationSucceeded is %+v", condition.ForNodePool(np).Get("ValidationSucceeded"))
		}
		return nil
	})
}

func saysStaticIsLeftAlone(t *testing.T, w *world) {
	np := pool("fixed", "any")
	np.Spec.Replicas = new(int64(2))
	w.create(t, np)
	w.until(t, np, func() error {
		got := condition.ForNodePool(np).Get("ValidationSucceeded")
		if got.Status != metav1.ConditionFalse || got.Reason != "NodePoolValidationFailed" || !strings.HasPrefix(got.Message, "spec.replicas: the feature gate StaticCapacity is off") {
			return fmt.Errorf("ValidationSucceeded is %+v", got)
		}
		if ready := condition.ForNodePool(np).Get("Ready"); ready.Status != metav1.ConditionFalse {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

func migratesHash(t *testing.T, w *world) {
	np := pool("old", "any")
	old := map[string]string{"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2"}
	steady, drifted := claim("old", "steady"), claim("old", "drifted")
	steady.Annotations, drifted.Annotations = old, old
	month := 720 * time.Hour // v1's default: the pool says never
	steady.Spec.ExpireAfter = karpenterv1.NillableDuration{Duration: &month}
	w.create(t, steady)
	w.create(t, drifted)
	w.setStatus(t, drifted, karpenterv1.NodeClaimStatus{Conditions: []metav1.Condition{{
		Type: "Drifted", Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: metav1.Unix(1, 0),
	}}})
	cached(t, w, drifted, func(nc *karpenterv1.NodeClaim) bool { return len(nc.Status.Conditions) > 0 })
	np.Annotations = old
	w.create(t, np)
	for name, c := range map[string]struct {
		claim *karpenterv1.NodeClaim
		want  string
	}{"steady": {steady, translate.PoolHash(np)}, "drifted": {drifted, "1"}} {
		w.until(t, c.claim, func() error {
			if got := c.claim.Annotations; got["karpenter.sh/nodepool-hash"] != c.want || got["karpenter.sh/nodepool-hash-version"] != "v3" {
				return fmt.Errorf("annotations of the %s claim are %v, want hash %s", name, got, c.want)
			}
			return nil
		})
	}
	if got := steady.Annotations["dovetail.sh/expire-after"]; got != "Never" || !translate.Expires(steady).IsZero() {
		t.Errorf("the claim of v1beta1 expires after %q at %s, want never as its pool says", got, translate.Expires(steady))
	}
}

func countsCapacity(t *testing.T, w *world) {
	np := pool("count", "any")
	np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10500m"), karpenterv1.LimitNodes: resource.MustParse("9")}
	w.create(t, np)
	joined, waiting, deleting, unlaunched := claim("count", "joined"), claim("count", "waiting"), claim("count", "leaving"), claim("count", "unlaunched")
	deleting.Finalizers = []string{"example.com/held"}
	for _, nc := range []*karpenterv1.NodeClaim{joined, waiting, deleting} {
		w.create(t, nc)
		w.setStatus(t, nc, karpenterv1.NodeClaimStatus{
			ProviderID: "kwok://" + nc.Name,
			Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
		})
	}
	w.create(t, unlaunched)
	if err := w.Delete(t.Context(), deleting); err != nil {
		t.Fatal(err)
	}
	w.create(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: map[string]string{"karpenter.sh/nodepool": "count"}},
		Spec:       corev1.NodeSpec{ProviderID: joined.Status.ProviderID},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m"), "example.com/gpu": resource.MustParse("2")}},
	})
	w.until(t, np, func() error {
		got := np.Status.Resources
		gpu := got["example.com/gpu"]
		if np.Status.Nodes == nil || *np.Status.Nodes != 2 || got.Cpu().MilliValue() != 7500 || got.Memory().Value() != 16<<30 || gpu.Value() != 2 {
			return fmt.Errorf("status is %+v, want 2 nodes, 7500m cpu, 16Gi, 2 gpus", np.Status)
		}
		return nil
	})
	// The metrics are set before the status is written. Joined, waiting and leaving are all
	// still paid for.
	for metric, want := range map[string]map[string]float64{
		"karpenter_nodepools_limit":      {"cpu": 10.5, "nodes": 9},
		"karpenter_nodepools_usage":      {"cpu": 7.5, "memory": 16 << 30, "nodes": 2, "pods": 0, "ephemeral-storage": 0, "example.com/gpu": 2},
		"karpenter_nodepools_cost_total": {"": 3 * 0.027147483648},
	} {
		if diff := cmp.Diff(want, w.shown(t, metric, "count"), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", metric, diff)
		}
	}
	if err := w.Delete(t.Context(), np); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		for _, metric := range []string{"karpenter_nodepools_limit", "karpenter_nodepools_usage", "karpenter_nodepools_cost_total"} {
			if got := w.shown(t, metric, "count"); len(got) > 0 {
				return fmt.Errorf("%s of the deleted pool still shows %v", metric, got)
			}
		}
		return nil
	})
}

func reportsHealth(t *testing.T, w *world) {
	sick := class("sick")
	w.create(t, sick)
	np := w.create(t, pool("sick", "sick")).(*karpenterv1.NodePool)
	health := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		w.until(t, np, func() error {
			got := condition.ForNodePool(np).Get("NodeRegistrationHealthy")
			if got.Status != status || got.Reason != reason || got.ObservedGeneration != np.Generation {
				return fmt.Errorf("NodeRegistrationHealthy is %+v, want %s %s", got, status, reason)
			}
			return nil
		})
		cached(t, w, np, func(seen *karpenterv1.NodePool) bool {
			got := condition.ForNodePool(seen).Get("NodeRegistrationHealthy")
			return got.Status == status && got.Reason == reason && got.ObservedGeneration == np.Generation
		})
	}
	health(metav1.ConditionUnknown, "AwaitingReconciliation")
	nc := claim("sick", "sick-1")
	nc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "sick", UID: np.UID}}
	condition.ForNodeClaim(nc).SetUnknown("Launched", "NoImage", "no image", time.Unix(1, 0))
	stranger := nc.DeepCopy()
	stranger.OwnerReferences[0].UID = "of-another-time"
	for _, of := range []*karpenterv1.NodeClaim{stranger, stranger, nc, nc} {
		w.pools.Record(t.Context(), of, false)
	}
	health(metav1.ConditionFalse, "NoImage")
	for range 3 {
		w.pools.Record(t.Context(), nc, true)
	}
	health(metav1.ConditionTrue, "NodeRegistrationHealthy")
	w.edit(t, np, func() { np.Spec.Template.Labels = map[string]string{"changed": "yes"} })
	health(metav1.ConditionUnknown, "AwaitingReconciliation")
	condition.ForNodeClaim(nc).SetTrue("Launched", time.Unix(1, 0))
	w.pools.Record(t.Context(), nc, false)
	w.pools.Record(t.Context(), nc, false)
	health(metav1.ConditionFalse, "RegistrationFailed")
	w.edit(t, sick, func() { sick.Spec.NodeRegistrationDelay = &metav1.Duration{Duration: time.Second} })
	health(metav1.ConditionUnknown, "AwaitingReconciliation")
	if np.Status.NodeClassObservedGeneration != 2 {
		t.Errorf("the pool has seen generation %d of its class, want 2", np.Status.NodeClassObservedGeneration)
	}
}

func getsClass(t *testing.T, w *world) {
	bare := pool("bare", "")
	bare.Spec.Template.Spec.NodeClassRef = nil
	w.create(t, bare)
	half := pool("half", "half")
	half.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Name: "half"}
	w.create(t, half)
	for np, name := range map[*karpenterv1.NodePool]string{bare: "default", half: "half"} {
		want := &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: name}
		w.until(t, np, func() error {
			if diff := cmp.Diff(want, np.Spec.Template.Spec.NodeClassRef); diff != "" || np.Annotations["karpenter.sh/nodepool-hash"] == "" {
				return fmt.Errorf("the pool has annotations %v and class (-want +got):\n%s", np.Annotations, diff)
			}
			return nil
		})
	}
	w.until(t, bare, func() error {
		var events corev1.EventList
		if err := w.List(t.Context(), &events); err != nil {
			return err
		}
		said := map[string]string{}
		for _, e := range events.Items {
			if e.Reason == "NodeClassAssumed" {
				said[e.InvolvedObject.Name] = e.Message
			}
		}
		want := map[string]string{"bare": "spec.template.spec.nodeClassRef was not set: it is now KWOKNodeClass/default of group karpenter.kwok.sh"}
		if diff := cmp.Diff(want, said); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

func leavesOthersAlone(t *testing.T, w *world) {
	foreign := pool("foreign", "any")
	foreign.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "any"}
	w.create(t, foreign)
	later := w.create(t, pool("later", "any")).(*karpenterv1.NodePool)
	w.until(t, later, func() error {
		if later.Annotations["karpenter.sh/nodepool-hash"] == "" || later.Status.Nodes == nil || len(later.Status.Conditions) != 4 {
			return fmt.Errorf("the pool that came later has annotations %v, conditions %v", later.Annotations, later.Status.Conditions)
		}
		return nil
	})
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Fatal(err)
	}
	if len(foreign.Annotations) > 0 || len(foreign.Status.Conditions) > 0 {
		t.Errorf("the foreign pool has annotations %v and conditions %v, want none", foreign.Annotations, foreign.Status.Conditions)
	}
}

// startWorld starts a control plane and the loops.
func startWorld(t *testing.T) *world {
	t.Helper()
	l := loops.New(t, time.Now)
	c := l.Manager.GetClient()
	provider, err := kwok.New(c, kwok.Options{Now: time.Now, Reader: l.Manager.GetAPIReader()})
	if err != nil {
		t.Fatal(err)
	}
	known := provider.Vocabulary()
	pools := &nodepool.Controllers{
		Client: c, Cloud: provider, Vocabulary: translate.NewVocabulary(known.WellKnown, known.RestrictedDomains),
		Types: func(cloud.ClassRef) ([]*catalog.Type, error) { return oneType(), nil },
		Now:   time.Now, Events: l.Events, Metrics: l.Metrics, Log: slog.New(slog.DiscardHandler),
	}
	l.Run(t, pools)
	return &world{l, pools}
}

// oneType is what the claims of the tests are.
func oneType() []*catalog.Type {
	return []*catalog.Type{{Name: "c-1x-amd64-linux", Offerings: []catalog.Offering{
		{Zone: "test-zone-a", CapacityType: "on-demand", PriceHourly: 0.027147483648, Priced: true},
		{Zone: "test-zone-a", CapacityType: "spot", PriceHourly: 0.01, Priced: true},
	}}}
}

func class(name string) *kwokv1alpha1.KWOKNodeClass {
	return &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pool(name, class string) *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: class}
	return np
}

func claim(pool, name string) *karpenterv1.NodeClaim {
	return &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"karpenter.sh/nodepool": pool, "node.kubernetes.io/instance-type": "c-1x-amd64-linux",
			"topology.kubernetes.io/zone": "test-zone-a", "karpenter.sh/capacity-type": "on-demand",
		}},
		Spec: karpenterv1.NodeClaimSpec{
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{},
			NodeClassRef: &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "any"},
		},
	}
}

func (w *world) create(t *testing.T, obj client.Object) client.Object {
	t.Helper()
	if err := w.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// edit changes an object, whatever others wrote to it meanwhile.
func (w *world) edit(t *testing.T, obj client.Object, change func()) {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := w.Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// setStatus gives a claim a status, whatever others wrote to it meanwhile.
func (w *world) setStatus(t *testing.T, nc *karpenterv1.NodeClaim, status karpenterv1.NodeClaimStatus) {
	t.Helper()
	before := nc.DeepCopy()
	nc.Status = status
	if err := w.Status().Patch(t.Context(), nc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// until reads the object again and again until check is content with it.
func (w *world) until(t *testing.T, obj client.Object, check func() error) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check()
	})
}

// cached waits until the loops see the object as has wants it.
func cached[T client.Object](t *testing.T, w *world, obj T, has func(T) bool) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		seen := obj.DeepCopyObject().(T)
		if err := w.pools.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), seen); err != nil {
			return err
		}
		if !has(seen) {
			return fmt.Errorf("the cache does not have it yet: %s", obj.GetName())
		}
		return nil
	})
}

// shown returns what a metric shows of a pool, by resource type ("" where it has none).
func (w *world) shown(t *testing.T, metric, pool string) map[string]float64 {
	t.Helper()
	families, err := w.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["nodepool"] == pool {
				got[labels["resource_type"]] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}
