package lifecycle_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller/conditions"
	"github.com/dovetail-sh/dovetail/internal/controller/consistency"
	"github.com/dovetail-sh/dovetail/internal/controller/garbage"
	"github.com/dovetail-sh/dovetail/internal/controller/hydration"
	"github.com/dovetail-sh/dovetail/internal/controller/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/controller/podevents"
	"github.com/dovetail-sh/dovetail/internal/controller/repair"
	"github.com/dovetail-sh/dovetail/internal/controller/termination"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/loops"
)

// patience is how long a story waits for what must come.
const patience = time.Minute

// world is a real control plane with the loops of the whole life of a claim at work in it.
type world struct {
	*loops.Loops
	cloud   *kwok.Provider
	garbage *garbage.Loop
}

// TestMain lets all stories run at once: most of their time is waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newWorld starts it. The collector is not started: the stories sweep when they need to.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Loops: loops.New(t, time.Now)}
	c := w.Manager.GetClient()
	var err error
	w.cloud, err = kwok.New(c, kwok.Options{Reader: w.Manager.GetAPIReader(), Now: time.Now, Log: w.Log})
	must(t, err)
	must(t, w.Manager.Add(w.cloud))
	w.garbage = &garbage.Loop{
		Client: c, Uncached: w.Manager.GetAPIReader(), Cloud: w.cloud, Now: time.Now, Metrics: w.Metrics, Log: w.Log,
	}
	must(t, w.Create(t.Context(), &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	w.Run(t,
		&lifecycle.Controller{Client: c, Launches: c, Cloud: w.cloud, Now: time.Now, Events: w.Events, Metrics: w.Metrics, Log: w.Log},
		&termination.Controller{Client: c, Cloud: w.cloud, Now: time.Now, Events: w.Events, Metrics: w.Metrics, Log: w.Log},
		&consistency.Controller{Client: c, Cloud: w.cloud, Now: time.Now, Events: w.Events, Log: w.Log},
		&podevents.Controller{Client: c, Cloud: w.cloud, Now: time.Now},
		&hydration.Controllers{Client: c, Cloud: w.cloud},
		&conditions.Loop{Cache: w.Manager.GetCache(), Conditions: observe.NewConditions(w.cloud.ClassKinds(), time.Now), Events: w.Events, Metrics: w.Metrics, Now: time.Now},
		&repair.Controller{
			Client: c, Cloud: w.cloud, Now: time.Now, Events: w.Events, Metrics: w.Metrics, Log: w.Log,
			Policies: []cloud.RepairPolicy{{ConditionType: "Broken", ConditionStatus: "True", Toleration: 5 * time.Second}},
		},
	)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claim creates a claim of no pool that asks for one cpu.
func (w *world) claim(t *testing.T, name string, change ...func(*karpenterv1.NodeClaim)) *karpenterv1.NodeClaim {
	t.Helper()
	c := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"},
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{
				{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists},
			},
			Resources: karpenterv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	must(t, w.Create(t.Context(), c))
	return c
}

// ready waits until the claim is initialized and returns its Node.
func (w *world) ready(t *testing.T, claim *karpenterv1.NodeClaim) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if c := condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeReady); c.Status != metav1.ConditionTrue {
			return fmt.Errorf("claim %s is not ready: %s", claim.Name, c.Message)
		}
		return w.Get(t.Context(), client.ObjectKey{Name: claim.Status.NodeName}, node)
	})
	return node
}

// gone waits until none of the objects exists.
func (w *world) gone(t *testing.T, objects ...client.Object) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		for _, o := range objects {
			err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			if err == nil {
				return fmt.Errorf("%T %s is still there", o, o.GetName())
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// pod creates a pod on a node and waits until it runs.
func (w *world) pod(t *testing.T, node *corev1.Node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "example.test/none"}},
		},
	}
	for _, f := range change {
		f(p)
	}
	testkit.Eventually(t, patience, func() error { return w.Create(t.Context(), p) }) // the service account may be late
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", name, p.Status.Phase)
		}
		return nil
	})
	return p
}

// event waits for an event with the reason about the object.
func (w *world) event(t *testing.T, object client.Object, reason string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var events corev1.EventList
		if err := w.List(t.Context(), &events); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == object.GetUID() && e.Reason == reason && e.Source.Component == "karpenter"
		}) {
			return fmt.Errorf("no event %s about %s", reason, object.GetName())
		}
		return nil
	})
}

func count(t *testing.T, metric prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	must(t, metric.Write(&m))
	return m.GetCounter().GetValue()
}
