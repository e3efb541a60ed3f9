package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	drainedNodes, drainedPods = 3, 6
	drainedGroup              = "old"
)

// TestMigrateDrain drains a group of three nodes. What would be done changes nothing; a pod that must not be evicted
// keeps its node; a drain that is killed goes on when it is started again; and never are more pods away than
// their PodDisruptionBudget allows.
func TestMigrateDrain(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: operator.Scheme()})
	noError(t, err)
	installDefinitions(t, c)
	for i := range drainedNodes {
		create(t, c, groupNode(fmt.Sprintf("%s-%d", drainedGroup, i+1)))
	}
	createWorkload(t, c, "web", drainedPods, 1000)
	// Each node has two of the pods: a drain that asks nobody takes both at once.
	noError(t, c.Patch(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxUnavailable":1}}`))))
	awaitRunning(t, c, drainedPods)
	drain := func(args ...string) *process {
		return start(t, append([]string{"migrate", "drain", "--kubeconfig", cluster.Kubeconfig, "--group", drainedGroup}, args...)...)
	}
	demand(t, drain("--yes"), 1, "no NodePool can launch nodes")

	installPool(t, c, chaosCPUs)
	controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms")
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })
	demand(t, drain(), 0, fmt.Sprintf("nothing was changed: add --yes to drain %d nodes", drainedNodes))
	if left, cordoned := groupState(t, c); left != drainedPods || cordoned > 0 {
		t.Fatalf("%d pods on the group and %d cordoned nodes, want %d and none", left, cordoned, drainedPods)
	}
	kept := holdOne(t, c, karpenterv1.LabelValueTrue)
	away := watchAway(t, c)
	demand(t, drain("--yes"), 1, "1 of 3 nodes are kept: "+kept.Spec.NodeName+" by default/"+kept.Name)
	if left, cordoned := groupState(t, c); left == 0 || cordoned != drainedNodes-1 {
		t.Errorf("%d pods on the group and %d cordoned nodes, want some and %d", left, cordoned, drainedNodes-1)
	}
	hold(t, c, kept, "null")
	killed := drain("--yes")
	testkit.Eventually(t, patience, func() error {
		if !strings.Contains(killed.String(), "evicted") && killed.running() {
			return errors.New("nothing is evicted yet")
		}
		return nil
	})
	killed.kill()
	demand(t, drain("--yes"), 0, "drained")
	if left, cordoned := groupState(t, c); left > 0 || cordoned != drainedNodes {
		t.Errorf("%d pods on the group and %d cordoned nodes, want none and %d", left, cordoned, drainedNodes)
	}
	awaitRunning(t, c, drainedPods)
	if most := away(); most != 1 {
		t.Errorf("%d pods were away at once, the PodDisruptionBudget allows one", most)
	}
	demand(t, drain("--yes"), 0, "drained")
}

// groupNode returns a node that no NodePool has.
func groupNode(name string) *corev1.Node {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("30")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name, "eks.amazonaws.com/nodegroup": drainedGroup, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"},
		},
		Status: corev1.NodeStatus{Allocatable: room, Capacity: room},
	}
}

// demand waits for the end of a process with this status and words in what it printed.
func demand(t *testing.T, p *process, status int, words string) {
	t.Helper()
	if got := p.awaitEnd(); got != status || !strings.Contains(p.String(), words) {
		t.Fatalf("status %d, want %d and %q:\n%s", got, status, words, p)
	}
}

// groupState returns how many pods are on nodes of the group, and how many of these nodes are cordoned.
func groupState(t *testing.T, c client.Client) (left, cordoned int) {
	t.Helper()
	var nodes corev1.NodeList
	var pods corev1.PodList
	noError(t, c.List(t.Context(), &nodes, client.HasLabels{"eks.amazonaws.com/nodegroup"}))
	noError(t, c.List(t.Context(), &pods, client.InNamespace("default")))
	for i := range nodes.Items {
		if nodes.Items[i].Spec.Unschedulable {
			cordoned++
		}
		for k := range pods.Items {
			if pods.Items[k].Spec.NodeName == nodes.Items[i].Name {
				left++
			}
		}
	}
	return left, cordoned
}

// holdOne gives one pod of the node that would be drained first an annotation that forbids its eviction.
func holdOne(t *testing.T, c client.Client, value string) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	noError(t, c.List(t.Context(), &pods, client.InNamespace("default")))
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	hold(t, c, &pods.Items[0], `"`+value+`"`)
	return &pods.Items[0]
}

func hold(t *testing.T, c client.Client, pod *corev1.Pod, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, karpenterv1.DoNotDisruptAnnotationKey, value)
	noError(t, c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// watchAway watches the pods of the workload, all of which run, and returns how many were missing at most: not
// ready, or being ended.
func watchAway(t *testing.T, c client.WithWatch) (most func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var pods corev1.PodList
	noError(t, c.List(ctx, &pods, client.InNamespace("default")))
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
	noError(t, err)
	healthy := map[types.UID]bool{}
	for i := range pods.Items {
		healthy[pods.Items[i].UID] = true
	}
	least := len(healthy)
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			p, is := e.Object.(*corev1.Pod)
			if !is {
				continue
			}
			if e.Type != watch.Deleted && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, isReady) {
				healthy[p.UID] = true
			} else {
				delete(healthy, p.UID)
			}
			least = min(least, len(healthy))
		}
	})
	return func() int {
		cancel()
		w.Stop()
		done.Wait()
		return len(pods.Items) - least
	}
}
