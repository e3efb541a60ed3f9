package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestNodeOverlay: a price makes a family the cheapest, of two overlays that contradict each other
// one says so, and pods get nodes with a resource that only an overlay knows of. kube-scheduler
// binds them.
func TestNodeOverlay(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	process := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeOverlay=true")
	family := []karpenterv1alpha1.NodeSelectorRequirement{{Key: "karpenter.kwok.sh/instance-family", Operator: corev1.NodeSelectorOpIn, Values: []string{"m"}}}
	overlay := func(name string, spec karpenterv1alpha1.NodeOverlaySpec) {
		if err := c.Create(t.Context(), &karpenterv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(name, reason string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			var no karpenterv1alpha1.NodeOverlay
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &no); err != nil {
				return err
			}
			if is := meta.FindStatusCondition(no.Status.Conditions, karpenterv1alpha1.ConditionTypeValidationSucceeded); is == nil || is.Reason != reason {
				return fmt.Errorf("overlay %s says %+v, want %s", name, is, reason)
			}
			return nil
		})
	}
	overlay("prices", karpenterv1alpha1.NodeOverlaySpec{Requirements: family, PriceAdjustment: new("-95%")})
	says("prices", "ValidationSucceeded")
	overlay("again", karpenterv1alpha1.NodeOverlaySpec{Requirements: family, Price: new("1")}) // earlier in the order of names
	says("again", "Conflict")
	overlay("unreadable", karpenterv1alpha1.NodeOverlaySpec{Requirements: family, Capacity: corev1.ResourceList{"example.com/less": resource.MustParse("-1")}})
	says("unreadable", "RuntimeValidation")
	overlay("capacity", karpenterv1alpha1.NodeOverlaySpec{
		Requirements: append(family, karpenterv1alpha1.NodeSelectorRequirement{Key: "karpenter.kwok.sh/instance-cpu", Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}}),
		Capacity:     corev1.ResourceList{"example.com/fuse": resource.MustParse("1")},
	})
	says("capacity", "ValidationSucceeded")

	deploy(t, c, rollPods)
	awaitRunning(t, c, rollPods)
	for range 2 {
		one := corev1.ResourceList{"example.com/fuse": resource.MustParse("1")}
		if err := c.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "fused-"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "fused", Resources: corev1.ResourceRequirements{Requests: one, Limits: one},
			}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	awaitRunning(t, c, rollPods+2)
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	fused := 0
	for i := range p.nodes {
		labels := p.nodes[i].Labels
		if labels[karpenterv1.NodePoolLabelKey] != "" && labels["karpenter.kwok.sh/instance-family"] != "m" {
			t.Errorf("node %s is %s, which is not the cheapest with the overlay", p.nodes[i].Name, labels[corev1.LabelInstanceTypeStable])
		}
		if _, ok := p.nodes[i].Status.Allocatable["example.com/fuse"]; ok {
			fused++
		}
	}
	if fused < 2 {
		t.Errorf("%d nodes have the resource, want 2", fused)
	}
	if t.Failed() {
		t.Logf("%s", process)
	}
}
