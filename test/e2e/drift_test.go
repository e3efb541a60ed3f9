package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// rollPods fill rollNodes nodes of four cpus, three on each.
	rollPods, rollNodes = 15, 5
)

// TestDriftRollsAPoolUnderItsBudget changes the template of a pool of five nodes that may
// be disrupted one at a time, with a PodDisruptionBudget over all pods, and watches from
// outside: never more than one node on its way out, never a node deleted before its
// replacement takes pods, never more than one pod away. The controller is killed in the
// middle of the second replacement.
func TestDriftRollsAPoolUnderItsBudget(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	delayRegistration(t, c, "3s") // longer than a mark must stand
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "1"}}
	})
	one := intstr.FromInt32(1)
	if err := c.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{}},
	}); err != nil {
		t.Fatal(err)
	}
	args := []string{"--disable-leader-election=true", "--batch-idle-duration", "300ms"}
	first := controller(t, cluster.Kubeconfig, args...)
	deploy(t, c, rollPods)
	awaitRunning(t, c, rollPods)
	testkit.Eventually(t, patience, func() error { return initialized(t.Context(), c, rollNodes) })

	old := claimNames(t, c)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Template.Labels = map[string]string{"generation": "two"}
	})
	watch := &rollWatch{client: c, old: old}
	testkit.Eventually(t, patience, func() error { return watch.until(t, rollNodes-1, true) })
	first.kill()
	second := controller(t, cluster.Kubeconfig, args...)
	testkit.Eventually(t, 2*patience, func() error { return watch.until(t, 0, false) })
	awaitRunning(t, c, rollPods)
	testkit.Eventually(t, patience, func() error { return initialized(t.Context(), c, rollNodes) })
	if t.Failed() {
		t.Logf("%s", second)
	}
}

// rollWatch looks at a pool that is being rolled.
type rollWatch struct {
	client client.Client
	old    map[types.UID]bool
}

// until returns nil once at most so many of the old claims are left, and, if asked for,
// one of them is on its way out. It fails the test when a promise is broken.
func (w *rollWatch) until(t *testing.T, left int, going bool) error {
	t.Helper()
	p, err := observe(t.Context(), w.client)
	if err != nil {
		return err
	}
	if away := rollPods - p.running(); away > 1 {
		t.Errorf("%d pods do not run, the PodDisruptionBudget allows 1", away)
	}
	out, remaining := 0, 0
	for i := range p.claims {
		nc := &p.claims[i]
		is := func(condition string) bool { return meta.IsStatusConditionTrue(nc.Status.Conditions, condition) }
		if !w.old[nc.UID] {
			continue
		}
		remaining++
		if is(karpenterv1.ConditionTypeInstanceTerminating) || nc.DeletionTimestamp != nil && !p.hasNode(nc) {
			continue // the budget counts neither
		}
		if is(karpenterv1.ConditionTypeDisruptionReason) || nc.DeletionTimestamp != nil {
			out++
		}
		if nc.DeletionTimestamp != nil {
			w.checkReplaced(t, p, nc)
		}
	}
	if out > 1 {
		t.Errorf("%d nodes are on their way out, the budget allows 1", out)
	}
	if remaining > left || going && out == 0 {
		return fmt.Errorf("%d old claims are left, %d are on their way out", remaining, out)
	}
	return nil
}

// hasNode reports whether the Node of a claim was there after its claim was seen.
func (p *picture) hasNode(nc *karpenterv1.NodeClaim) bool {
	return slices.ContainsFunc(p.nodes, func(n corev1.Node) bool { return n.Name == nc.Status.NodeName })
}

// checkReplaced fails the test if a claim goes before its replacement takes pods.
func (w *rollWatch) checkReplaced(t *testing.T, p *picture, gone *karpenterv1.NodeClaim) {
	t.Helper()
	var step string
	if _, err := fmt.Sscan(gone.Annotations[translate.StepAnnotationKey], &step); err != nil {
		t.Errorf("claim %s goes without a step", gone.Name)
		return
	}
	for i := range p.claims {
		nc := &p.claims[i]
		if nc.Annotations[translate.ReplacesAnnotationKey] == step && meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInitialized) {
			return
		}
	}
	t.Errorf("claim %s goes, and none of those that replace it takes pods", gone.Name)
}

// initialized returns an error unless exactly so many claims are there, all initialized
// and none on its way out, and no node is closed.
func initialized(ctx context.Context, c client.Client, want int) error {
	p, err := observe(ctx, c)
	if err != nil {
		return err
	}
	for i := range p.claims {
		nc := &p.claims[i]
		if !meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInitialized) || nc.DeletionTimestamp != nil {
			return fmt.Errorf("claim %s is not initialized, or goes", nc.Name)
		}
		if meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason) {
			return fmt.Errorf("claim %s is on its way out", nc.Name)
		}
	}
	if len(p.claims) != want || len(p.nodes) != want {
		return fmt.Errorf("%d claims and %d nodes, want %d", len(p.claims), len(p.nodes), want)
	}
	for i := range p.nodes {
		for _, taint := range p.nodes[i].Spec.Taints {
			if taint.Key == karpenterv1.DisruptedTaintKey {
				return fmt.Errorf("node %s is closed", p.nodes[i].Name)
			}
		}
	}
	return nil
}

func claimNames(t *testing.T, c client.Client) map[types.UID]bool {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for i := range p.claims {
		uids[p.claims[i].UID] = true
	}
	return uids
}

// changePool changes the only NodePool.
func changePool(t *testing.T, c client.Client, change func(*karpenterv1.NodePool)) {
	t.Helper()
	var pools karpenterv1.NodePoolList
	if err := c.List(t.Context(), &pools); err != nil || len(pools.Items) != 1 {
		t.Fatalf("%d NodePools, want 1: %v", len(pools.Items), err)
	}
	before := pools.Items[0].DeepCopy()
	change(&pools.Items[0])
	if err := c.Patch(t.Context(), &pools.Items[0], client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
