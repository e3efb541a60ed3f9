package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// aged is a cloud in which one instance has been there for an hour.
type aged struct {
	cloud.Provider
	id string
}

// List returns the instances, that one aged.
func (a aged) List(ctx context.Context) ([]cloud.Instance, error) {
	instances, err := a.Provider.List(ctx)
	for i := range instances {
		if instances[i].ID == a.id {
			instances[i].Created = instances[i].Created.Add(-time.Hour)
		}
	}
	return instances, err
}

// swept sweeps until the object is gone. The instance with the ID counts as old.
func (w *world) swept(t *testing.T, obj client.Object, id string) {
	t.Helper()
	sweeper := *w.garbage
	sweeper.Cloud = aged{w.cloud, id}
	testkit.Eventually(t, patience, func() error {
		if err := sweeper.Sweep(t.Context()); err != nil {
			return err
		}
		err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil {
			return fmt.Errorf("%s is still there", obj.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

func instanceVanished(t *testing.T, w *world) {
	claim := w.claim(t, "vanished")
	node := w.ready(t, claim)
	must(t, w.garbage.Sweep(t.Context()))
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if claim.DeletionTimestamp != nil {
		t.Fatal("the sweep took a claim whose instance is there")
	}
	// As people do who lose patience: the finalizer goes by hand, and the Node with it.
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		node.Finalizers = nil
		return w.Update(t.Context(), node)
	})
	must(t, w.Delete(t.Context(), node))
	w.gone(t, node)
	w.swept(t, claim, "")
}

func orphanInstance(t *testing.T, w *world) {
	class := cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}
	types, err := w.cloud.Types(t.Context(), class)
	must(t, err)
	result := w.cloud.Launch(t.Context(), []cloud.LaunchRequest{{
		Token: "nobody", Claim: "nobody", Class: class, Choices: catalog.Choices(types, label.Requirements{}, quantity.List{}),
	}})[0]
	must(t, result.Err)
	nodes := &corev1.NodeList{}
	must(t, w.List(t.Context(), nodes))
	var node *corev1.Node
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == result.Instance.ID {
			node = &nodes.Items[i]
		}
	}
	must(t, w.garbage.Sweep(t.Context())) // it is too young to count
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	w.swept(t, node, node.Spec.ProviderID)
}

// byHand creates a Node as registration would have left it, of which no claim knows.
func (w *world) byHand(t *testing.T, name string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{karpenterv1.TerminationFinalizer}, Annotations: labels,
			Labels: map[string]string{kwokv1alpha1.NodeClassLabelKey: "default", karpenterv1.NodeRegisteredLabelKey: "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: "kwok://" + name},
	}
	for k, v := range labels {
		node.Labels[k] = v
	}
	must(t, w.Create(t.Context(), node))
	return node
}

func orphanNode(t *testing.T, w *world) {
	node := w.byHand(t, "orphan-node", map[string]string{"kwok.x-k8s.io/node": "fake"})
	pod := w.pod(t, node, "orphan-node")
	w.swept(t, node, node.Spec.ProviderID)
	w.event(t, pod, "Evicted")
}

func deadNode(t *testing.T, w *world) {
	node := w.byHand(t, "dead", nil) // no kubelet, so it is never ready
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dead"},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "example.test/none"}}},
	}
	testkit.Eventually(t, patience, func() error { return w.Create(t.Context(), pod) })
	must(t, w.Delete(t.Context(), node))
	w.gone(t, node)
}

func podEvents(t *testing.T, w *world) {
	claim := w.claim(t, "events")
	node := w.ready(t, claim)
	if !claim.Status.LastPodEventTime.IsZero() {
		t.Errorf("a pod event was noted at %s though there was no pod", claim.Status.LastPodEventTime)
	}
	w.pod(t, node, "events")
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.LastPodEventTime.IsZero() {
			return fmt.Errorf("no pod event is noted on claim %s", claim.Name)
		}
		return nil
	})
}

func hydrates(t *testing.T, w *world) {
	claim := w.claim(t, "hydrate")
	node := w.ready(t, claim)
	for _, obj := range []client.Object{node, claim} {
		testkit.Eventually(t, patience, func() error {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			labels := obj.GetLabels()
			delete(labels, kwokv1alpha1.NodeClassLabelKey)
			obj.SetLabels(labels)
			return w.Update(t.Context(), obj)
		})
		testkit.Eventually(t, patience, func() error {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if obj.GetLabels()[kwokv1alpha1.NodeClassLabelKey] != "default" {
				return fmt.Errorf("%s has labels %v", obj.GetName(), obj.GetLabels())
			}
			return nil
		})
	}
}

// tooSmall has a Node with an annotation that means nothing, besides.
func tooSmall(t *testing.T, w *world) {
	claim := w.claim(t, "small")
	node := w.ready(t, claim)
	silly := node.DeepCopy()
	silly.Annotations[karpenterv1.DoNotDisruptAnnotationKey] = "for ever"
	must(t, w.Patch(t.Context(), silly, client.MergeFrom(node)))
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		node.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("1m")
		return w.Status().Update(t.Context(), node)
	})
	before := claim.DeepCopy()
	claim.Annotations = map[string]string{"look": "again"}
	must(t, w.Patch(t.Context(), claim, client.MergeFrom(before)))
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if c := condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeConsistentStateFound); c.Reason != "ConsistencyCheckFailed" {
			return fmt.Errorf("ConsistentStateFound is %+v", c)
		}
		return nil
	})
	w.event(t, claim, "FailedConsistencyCheck")
	w.event(t, node, "InvalidDoNotDisruptAnnotation")
}
