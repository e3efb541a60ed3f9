package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestReboot demands what Karpenter 1.15's suite does of reboots in place: a node with a fault that a
// reboot mends keeps its claim and its protected pod; one that two reboots do not mend is replaced.
func TestReboot(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 4)
	changePool(t, c, func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
	})
	process := controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeRepair=true")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", process)
		}
	})
	w := &ward{T: t, client: c}
	w.fill()
	w.rebootInPlace()
	w.rebootInVain()
}

// rebooting waits for a claim whose reboot has come as far as that reason says.
func (w *ward) rebooting(claim *karpenterv1.NodeClaim, reason string) {
	w.Helper()
	testkit.Eventually(w, 2*patience, func() error {
		if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claims := len(w.picture().claims); claims != wardNodes {
			w.Fatalf("there are %d claims while %s reboots", claims, claim.Name)
		}
		if c := meta.FindStatusCondition(claim.Status.Conditions, karpenterv1.ConditionTypeRebooting); c == nil || c.Reason != reason {
			return fmt.Errorf("condition Rebooting is %+v", c)
		}
		return nil
	})
}

// rebootInPlace: the pod must not be disrupted, so it is there through the reboot, which begins when the
// minute of the policy is over.
func (w *ward) rebootInPlace() {
	w.hold(true)
	ill := w.oldest(1)[0]
	claim, boot, before := w.claimOf(ill), ill.Status.NodeInfo.BootID, w.podOn(ill)
	w.condition(ill, "KWOKRebootRequired", corev1.ConditionTrue)
	w.rebooting(claim, "RebootRequested")
	c := meta.FindStatusCondition(claim.Status.Conditions, karpenterv1.ConditionTypeRebooting)
	why := meta.FindStatusCondition(claim.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason)
	if !strings.Contains(c.Message, "KWOKRebootRequired") || why == nil || why.Reason != "Unhealthy" || claim.Annotations[karpenterv1.RebootGraceAnnotationKey] != "1m0s" {
		w.Errorf("conditions are %+v and %+v, annotations %v", c, why, claim.Annotations)
	}
	w.reread(ill)
	w.condition(ill, "KWOKRebootRequired", corev1.ConditionFalse)
	w.rebooting(claim, "RebootSucceeded")
	w.well()
	w.reread(ill)
	if ill.Status.NodeInfo.BootID == boot || ill.Labels[karpenterv1.NodeInitializedLabelKey] != "true" {
		w.Errorf("boot ID is %q, labels are %v", ill.Status.NodeInfo.BootID, ill.Labels)
	}
	if slices.ContainsFunc(ill.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpenterv1.RebootingTaintKey }) {
		w.Errorf("the node has taints %v", ill.Spec.Taints)
	}
	if after := w.podOn(ill); after != before {
		w.Errorf("the pod's UID is %s, and was %s", after, before)
	}
	w.hold(false)
}

// rebootInVain: the fault stays, so the node is rebooted twice and then replaced.
func (w *ward) rebootInVain() {
	ill := w.oldest(2)[1] // the oldest was rebooted already
	boots := map[string]bool{ill.Status.NodeInfo.BootID: true}
	w.condition(ill, "KWOKRebootRequired", corev1.ConditionTrue)
	testkit.Eventually(w, 4*patience, func() error {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(ill), ill)
		switch {
		case err != nil:
			return client.IgnoreNotFound(err)
		case ill.DeletionTimestamp != nil:
			return nil
		}
		boots[ill.Status.NodeInfo.BootID] = true
		return errors.New("the node is not deleted yet")
	})
	if len(boots) != 3 {
		w.Errorf("the node had boot IDs %v, want the first and two more", boots)
	}
	w.gone(ill)
}

// podOn returns the UID of the one pod on a node.
func (w *ward) podOn(node *corev1.Node) types.UID {
	w.Helper()
	for _, pod := range w.picture().pods {
		if pod.Spec.NodeName == node.Name {
			return pod.UID
		}
	}
	return ""
}

func (w *ward) reread(node *corev1.Node) {
	w.Helper()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		w.Fatal(err)
	}
}
