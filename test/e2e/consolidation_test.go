package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// densePods fill twelve nodes of four cpus; of sparsePods one is left on each, and
	// all fit on four.
	densePods, sparsePods = 36, 12
	sparseNodes           = 4
	// stillFor is how long nothing may happen any more before consolidation is over.
	stillFor = 8 * time.Second
)

// TestConsolidationPacksWhatIsLeft scales a Deployment down and watches from outside how
// the nodes that are left half empty are emptied: never more pods away than the
// PodDisruptionBudget allows, no claim made that did not have to be, and an end.
func TestConsolidationPacksWhatIsLeft(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, chaosCPUs)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Disruption.ConsolidationPolicy = karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "50%"}}
	})
	two := intstr.FromInt32(2)
	if err := c.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &two, Selector: &metav1.LabelSelector{}},
	}); err != nil {
		t.Fatal(err)
	}
	// However slowly the pods come, they are planned together: small nodes for single pods would be another test.
	p := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-launch-early=false", "--batch-idle-duration", "2s")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", p)
		}
	})
	deploy(t, c, densePods)
	awaitRunning(t, c, densePods)
	allowOneEach(t, c)
	deploy(t, c, sparsePods)
	awaitRunning(t, c, sparsePods)
	second := time.Second
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{Duration: &second}
	})

	w := &packWatch{client: c, claims: map[types.UID]bool{}}
	testkit.Eventually(t, 2*patience, func() error { return w.still(t, sparseNodes) })
	t.Logf("%d claims were made in all, %d are left", len(w.claims), len(w.last))
	testkit.Eventually(t, patience, func() error { // events are written when there is time
		var events corev1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == "ConsolidationCandidate" }) {
			return errors.New("no event reports consolidation")
		}
		return nil
	})
}

// allowOneEach has all pods but one of each node be the first to go.
func allowOneEach(t *testing.T, c client.Client) {
	t.Helper()
	p, err := observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	spared := map[string]bool{}
	for i := range p.pods {
		pod := &p.pods[i]
		if !spared[pod.Spec.NodeName] {
			spared[pod.Spec.NodeName] = true
			continue
		}
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.PodDeletionCost, "-100")
		if err := c.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

// packWatch looks at nodes that are being packed.
type packWatch struct {
	client client.Client
	claims map[types.UID]bool // all that were ever seen
	last   []string           // names of claims
	since  time.Time
}

// still returns nil once at most so many nodes are left, nothing has changed for a while and nothing is on its way out.
func (w *packWatch) still(t *testing.T, most int) error {
	t.Helper()
	p, err := observe(t.Context(), w.client)
	if err != nil {
		return err
	}
	if away := sparsePods - p.running(); away > 2 {
		t.Errorf("%d pods do not run, the PodDisruptionBudget allows 2", away)
	}
	var names []string
	busy := false
	for i := range p.claims {
		nc := &p.claims[i]
		names = append(names, nc.Name+" "+nc.Labels["node.kubernetes.io/instance-type"])
		w.claims[nc.UID] = true
		busy = busy || nc.DeletionTimestamp != nil || meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason)
	}
	if now := time.Now(); busy || fmt.Sprint(names) != fmt.Sprint(w.last) || p.running() != sparsePods {
		w.last, w.since = names, now
	}
	if len(names) > most || time.Since(w.since) < stillFor {
		return fmt.Errorf("%d nodes, want %d, and rest: %s", len(names), most, names)
	}
	return nil
}
