package e2e

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestScalingDownEmptiesTheNodeThatConsolidationWouldRemove has one node with three pods and another
// with one, and scales their Deployment down by one. Kubernetes by itself takes a pod from the node
// that has several of them; with the gate PodDeletionCostManagement it is the lone one that goes.
func TestScalingDownEmptiesTheNodeThatConsolidationWouldRemove(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 4)
	pool := &karpenterv1.NodePool{}
	pool.Name = "general"
	only := `{"spec": {"disruption": {"consolidateAfter": "1h"}, "template": {"spec": {"requirements": [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]}}}}`
	if err := c.Patch(t.Context(), pool, client.RawPatch(types.MergePatchType, []byte(only))); err != nil {
		t.Fatal(err)
	}
	controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "PodDeletionCostManagement=true")

	deploy(t, c, 3)
	awaitRunning(t, c, 3)
	deploy(t, c, 4)
	awaitRunning(t, c, 4)
	var lone types.UID
	testkit.Eventually(t, 2*patience, func() error { // costs are decided once a minute
		p, err := observe(t.Context(), c)
		if err != nil {
			return err
		}
		lone, err = loneOne(p)
		return err
	})
	deploy(t, c, 3)
	awaitRunning(t, c, 3)
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.pods {
		if p.pods[i].UID == lone {
			t.Errorf("the pod that has node %s for itself is left, and one of three others is gone", p.pods[i].Spec.NodeName)
		}
	}
}

// loneOne returns the pod that has a node for itself, if it is the first to go by its cost.
func loneOne(p *picture) (types.UID, error) {
	on := map[string][]*corev1.Pod{}
	for i := range p.pods {
		on[p.pods[i].Spec.NodeName] = append(on[p.pods[i].Spec.NodeName], &p.pods[i])
	}
	if len(on) != 2 {
		return "", fmt.Errorf("the pods are on %d nodes, want 2", len(on))
	}
	var lone types.UID
	least, others := 0, 0
	for _, pods := range on {
		for _, pod := range pods {
			cost, err := strconv.Atoi(pod.Annotations[corev1.PodDeletionCost])
			if err != nil {
				cost = 0 // Kubernetes takes none for that
			}
			if len(pods) == 1 {
				lone, least = pod.UID, cost
			} else {
				others = min(others, cost)
			}
		}
	}
	if lone == "" || least >= others {
		return "", fmt.Errorf("the lone pod costs %d, the others at least %d", least, others)
	}
	return lone, nil
}
