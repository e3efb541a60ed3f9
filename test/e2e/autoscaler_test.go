package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// groupPods run on the node of the group.
const groupPods = 3

// TestBesideClusterAutoscaler plays Cluster Autoscaler: it writes its status, marks the only node of its group, which
// has pods, evicts them and deletes the node. The controller launches a node for them as soon as the node is marked,
// and they run there in the end. Before that the group is translated.
func TestBesideClusterAutoscaler(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "group-1", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: "group-1", "eks.amazonaws.com/nodegroup": "group", "eks.amazonaws.com/capacityType": "SPOT",
				corev1.LabelInstanceTypeStable: "m5.xlarge", corev1.LabelTopologyZone: "us-east-1a", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			},
		},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("30")},
			Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("30")},
		},
	}
	create(t, c, node)
	create(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"},
		Data:       map[string]string{"status": "autoscalerStatus: Running\nnodeGroups:\n- {name: eks-group-1a2b, health: {cloudProviderTarget: 1, minSize: 0, maxSize: 5}}\n"},
	})
	deploy(t, c, groupPods)
	awaitRunning(t, c, groupPods)
	translated(t, cluster)

	p := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms")
	mark := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"`+translate.ToBeDeletedTaintKey+`","value":"1764072000","effect":"NoSchedule"}]}}`))
	if err := c.Patch(t.Context(), node, mark); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error { // none of the pods has been evicted yet
		var claims karpenterv1.NodeClaimList
		if err := c.List(t.Context(), &claims); err != nil {
			return err
		}
		if len(claims.Items) == 0 {
			return errors.New("no node is launched for the pods of the node that goes")
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error { return evictFrom(t, c, node.Name) })
	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c, groupPods)
	if t.Failed() {
		t.Logf("%s", p)
	}
}

// translated checks what the command says of the group.
func translated(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	p := start(t, "migrate", "node-groups", "--kubeconfig", cluster.Kubeconfig)
	if status := p.awaitEnd(); status != 0 {
		t.Fatalf("status %d: %s", status, p)
	}
	text := strings.Join(p.stdout, "\n")
	for _, want := range []string{
		"kind: NodePool", "kind: EC2NodeClass", `values: ["m5.xlarge"]`, `values: ["spot"]`, "raised to 20, the most that the groups may have",
		"(nodes: 1, groups: 1)", fmt.Sprintf("(nodes: 1, pods: %d)", groupPods), "role of the nodes: not known",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}

// evictFrom evicts all pods of a node; nil: none is left there.
func evictFrom(t *testing.T, c client.Client, node string) error {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace("default")); err != nil {
		return err
	}
	left := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != node {
			continue
		}
		left++
		if pod.DeletionTimestamp == nil {
			if err := c.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	if left > 0 {
		return fmt.Errorf("%d pods are left on %s", left, node)
	}
	return nil
}
