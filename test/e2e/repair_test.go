package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestRepairPolicies demands what Karpenter 1.14's suite does: a node that has not been ready for
// longer than the provider tolerates is replaced, whatever the budgets, the annotation
// do-not-disrupt of the Node and of its pod, and terminationGracePeriod say, and though its
// kubelet, which is well, says that it is ready within a second (docs/design/disruption.md has
// what 1.15 reverses).
func TestRepairPolicies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status corev1.ConditionStatus
		pool   func(*karpenterv1.NodePool)
		node   map[string]string // annotations
	}{
		"Ready is False":              {status: corev1.ConditionFalse},
		"Ready is Unknown":            {status: corev1.ConditionUnknown},
		"budgets allow nothing":       {status: corev1.ConditionFalse, pool: func(np *karpenterv1.NodePool) { np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "0"}} }},
		"the node has do-not-disrupt": {status: corev1.ConditionFalse, node: map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}},
		"a terminationGracePeriod of one hour": {status: corev1.ConditionFalse, pool: func(np *karpenterv1.NodePool) {
			np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testkit.StartCluster(t)
			c := connect(t, cluster)
			installDefinitions(t, c)
			installPool(t, c, 4)
			if test.pool != nil {
				changePool(t, c, test.pool)
			}
			p := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeRepair=true")
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s", p)
				}
			})
			deployHeld(t, c)
			awaitRunning(t, c, 1)
			testkit.Eventually(t, patience, func() error { return initialized(t.Context(), c, 1) })
			before, err := observe(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			node, pod := &before.nodes[0], &before.pods[0]
			annotate(t, c, node, test.node)
			notReady(t, c, node, test.status)
			testkit.Eventually(t, patience, func() error {
				for _, gone := range []client.Object{pod, node} {
					var o client.Object = &corev1.Pod{}
					if gone == client.Object(node) {
						o = &corev1.Node{}
					}
					err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), o)
					if err == nil && o.GetUID() == gone.GetUID() {
						return fmt.Errorf("%s is still there", gone.GetName())
					}
					if client.IgnoreNotFound(err) != nil {
						return err
					}
				}
				return nil
			})
			awaitRunning(t, c, 1)
		})
	}
}

// deployHeld deploys one pod that must not be disrupted, and ends at once.
func deployHeld(t *testing.T, c client.Client) {
	t.Helper()
	for _, o := range exampleObjects(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		set(t, o, int64(1), "spec", "replicas")
		set(t, o, map[string]any{karpenterv1.DoNotDisruptAnnotationKey: karpenterv1.LabelValueTrue}, "spec", "template", "metadata", "annotations")
		set(t, o, int64(0), "spec", "template", "spec", "terminationGracePeriodSeconds")
		if err := demo.Apply(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
	}
}

func annotate(t *testing.T, c client.Client, node *corev1.Node, annotations map[string]string) {
	t.Helper()
	before := node.DeepCopy()
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
	}
	if err := c.Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// notReady has the Node say that it has not been ready for 31 minutes, until its kubelet says
// otherwise.
func notReady(t *testing.T, c client.Client, node *corev1.Node, status corev1.ConditionStatus) {
	t.Helper()
	before := node.DeepCopy()
	for i := range node.Status.Conditions {
		if ready := &node.Status.Conditions[i]; ready.Type == corev1.NodeReady {
			ready.Status, ready.LastTransitionTime = status, metav1.NewTime(time.Now().Add(-31*time.Minute))
		}
	}
	if err := c.Status().Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
