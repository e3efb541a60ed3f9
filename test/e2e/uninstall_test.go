package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const uninstalledPods = 6

// TestUninstallKeepsNodes: without the controller nothing of it is left but the nodes, and their pods run on.
func TestUninstallKeepsNodes(t *testing.T) {
	t.Parallel()
	cluster, c, p := installedCluster(t)
	uninstall := func(args ...string) *process {
		return start(t, append([]string{"uninstall", "--kubeconfig", cluster.Kubeconfig}, args...)...)
	}
	paused := pauseAll(t, c)
	demand(t, uninstall(), 0, "nothing was changed")
	demand(t, uninstall("--yes"), 1, "stop it first")
	noError(t, c.Get(t.Context(), client.ObjectKeyFromObject(paused), paused))
	if status := p.stop(); status != 0 {
		t.Fatalf("the controller ended with status %d", status)
	}
	before := nodesOf(t, c)
	tainted := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"effect":"PreferNoSchedule"},{"key":"example.com/other","effect":"PreferNoSchedule"}]}}`, translate.PreferOthersTaintKey))
	noError(t, c.Patch(t.Context(), &corev1.Node{ObjectMeta: before[0].ObjectMeta}, tainted))
	held := hooked(t, cluster, c)
	demand(t, uninstall("--definitions", "--yes"), 0, "removed 1 hooks in Cluster API")
	demandReleased(t, c, held)

	testkit.Eventually(t, patience, func() error {
		if err := c.List(t.Context(), &karpenterv1.NodeClaimList{}); err == nil {
			return errors.New("NodeClaims are still a kind")
		}
		return nil
	})
	demandGone(t, c, paused)
	awaitPods(t, c, uninstalledPods)
	after := nodesOf(t, c)
	if len(after) != len(before) {
		t.Fatalf("%d nodes are left of %d", len(after), len(before))
	}
	for i := range after {
		n := &after[i]
		if n.UID != before[i].UID || n.DeletionTimestamp != nil || len(n.Finalizers) > 0 || len(n.OwnerReferences) > 0 {
			t.Errorf("node %s: another one, or it has a finalizer or an owner: %+v", n.Name, n.ObjectMeta)
		}
		for _, taint := range n.Spec.Taints {
			if strings.HasPrefix(taint.Key, "dovetail.sh/") || strings.HasPrefix(taint.Key, "karpenter.sh/") {
				t.Errorf("node %s has taint %s", n.Name, taint.Key)
			}
		}
		if n.Name == before[0].Name && len(n.Spec.Taints) != 1 {
			t.Errorf("node %s has taints %v, want the one of others", n.Name, n.Spec.Taints)
		}
	}
	demand(t, uninstall("--yes"), 0, "")
}

// pauseAll pauses disruption, as dovetail pause does.
func pauseAll(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: mirror.PauseConfigMap}}
	noError(t, c.Create(t.Context(), m))
	return m
}

// demandGone demands that an object is there no more.
func demandGone(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		t.Errorf("%s %s/%s is left: %v", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName(), err)
	}
}

// TestUninstallRemovesNodes: the controller drains and ends all nodes, then nothing but definitions is left.
func TestUninstallRemovesNodes(t *testing.T) {
	t.Parallel()
	cluster, c, p := installedCluster(t)
	paused := pauseAll(t, c)
	demand(t, start(t, "uninstall", "--kubeconfig", cluster.Kubeconfig, "--remove-nodes", "--yes"), 0, "all nodes are gone")
	demandGone(t, c, paused)
	if left := nodesOf(t, c); len(left) > 0 {
		t.Errorf("%d nodes are left", len(left))
	}
	var pools karpenterv1.NodePoolList
	if err := c.List(t.Context(), &pools); err != nil || len(pools.Items) > 0 {
		t.Errorf("%d NodePools are left, %v", len(pools.Items), err)
	}
	p.stop()
	demand(t, start(t, "uninstall", "--kubeconfig", cluster.Kubeconfig), 0, "definitions")
}

// installedCluster returns a cluster with a controller that holds a lease and nodes with pods.
func installedCluster(t *testing.T) (*testkit.Cluster, client.Client, *process) {
	t.Helper()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 2)
	p := controller(t, cluster.Kubeconfig, "--leader-election-namespace=default", "--batch-idle-duration", "300ms")
	deploy(t, c, uninstalledPods)
	awaitRunning(t, c, uninstalledPods)
	return cluster, c, p
}

// nodesOf returns all nodes, sorted by name.
func nodesOf(t *testing.T, c client.Client) []corev1.Node {
	t.Helper()
	var nodes corev1.NodeList
	noError(t, c.List(t.Context(), &nodes))
	return nodes.Items
}

// awaitPods returns when so many pods run, without asking for kinds of ours.
func awaitPods(t *testing.T, c client.Client, want int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var pods corev1.PodList
		if err := c.List(t.Context(), &pods, client.InNamespace("default")); err != nil {
			return err
		}
		n := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d pods run, want %d", n, want)
		}
		return nil
	})
}
