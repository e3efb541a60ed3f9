package lifecycle_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// attach attaches a volume to the node, as far as the API shows it.
func (w *world) attach(t *testing.T, node *corev1.Node, name string) *storagev1.VolumeAttachment {
	t.Helper()
	volume := "pv-" + name
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.test", NodeName: node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
	must(t, w.Create(t.Context(), attachment))
	return attachment
}

func givesVolumeUp(t *testing.T, w *world) {
	claim := w.claim(t, "stuck-volume", func(c *karpenterv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: 7 * time.Second}
	})
	node := w.ready(t, claim)
	attachment := w.attach(t, node, "stuck")
	must(t, w.Delete(t.Context(), claim))
	w.gone(t, node, claim)
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(attachment), attachment))
}

func expires(t *testing.T, w *world) {
	age := 20 * time.Second // long enough to get a pod going first
	claim := w.claim(t, "expires", func(c *karpenterv1.NodeClaim) { c.Spec.ExpireAfter.Duration = &age })
	node := w.ready(t, claim)
	pod := w.pod(t, node, "expires")
	budget := w.budget(t, "expires")
	w.draining(t, node)
	w.stays(t, pod)
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if lived := claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time); lived < age {
		t.Errorf("the claim was deleted after %s, before its time", lived)
	}
	w.event(t, claim, "DisruptionTerminating")
	must(t, w.Delete(t.Context(), budget))
	w.gone(t, pod, node, claim)
	how := []string{"expired", "", claim.Labels[karpenterv1.CapacityTypeLabelKey], "", "graceful"}
	if n, pods := count(t, w.Metrics.NodeClaimsDisrupted.WithLabelValues(how...)), count(t, w.Metrics.PodsDisruptionInitiated.WithLabelValues(how...)); n != 1 || pods != 1 {
		t.Errorf("counted %v claims and %v pods that expired, want one each", n, pods)
	}
}

// breaks makes the Node say of itself that it is broken, or no longer.
func (w *world) breaks(t *testing.T, node *corev1.Node, status corev1.ConditionStatus) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		before := node.DeepCopy()
		others := node.Status.Conditions[:0:0]
		for _, c := range node.Status.Conditions {
			if c.Type != "Broken" {
				others = append(others, c)
			}
		}
		node.Status.Conditions = append(others, corev1.NodeCondition{Type: "Broken", Status: status, LastTransitionTime: metav1.Now()})
		return w.Status().Patch(t.Context(), node, client.StrategicMergeFrom(before))
	})
}

func repairs(t *testing.T, w *world) {
	claim := w.claim(t, "repair", func(c *karpenterv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Hour}
	})
	node := w.ready(t, claim)
	held := w.pod(t, node, "repair-held", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	})
	guarded := w.pod(t, node, "repair")
	w.budget(t, "repair")
	w.breaks(t, node, corev1.ConditionTrue)
	w.gone(t, held, guarded, node, claim)
	w.event(t, held, "Disrupted")
	w.event(t, claim, "DisruptionTerminating")
	if n := count(t, w.Metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues("broken", "", claim.Labels[karpenterv1.CapacityTypeLabelKey], "", "forceful")); n != 1 {
		t.Errorf("nodeclaims_unhealthy_disrupted_total is %v, want 1", n)
	}
	stopsRepair(t, w)
}

// stopsRepair follows repairs in one story, since more sick nodes at once would stop both.
func stopsRepair(t *testing.T, w *world) {
	t.Helper()
	inPool := func(c *karpenterv1.NodeClaim) { c.Labels = map[string]string{karpenterv1.NodePoolLabelKey: "sick"} }
	first, second := w.claim(t, "sick-1", inPool), w.claim(t, "sick-2", inPool)
	one, two := w.ready(t, first), w.ready(t, second)
	w.breaks(t, one, corev1.ConditionTrue)
	w.breaks(t, two, corev1.ConditionTrue)
	w.event(t, one, "NodeRepairBlocked")
	w.event(t, first, "NodeRepairBlocked")
	w.event(t, two, "NodeRepairBlocked")
	w.breaks(t, two, corev1.ConditionFalse)
	w.breaks(t, one, corev1.ConditionTrue) // that it is looked at again
	w.gone(t, one, first)
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(second), second))
	if second.DeletionTimestamp != nil {
		t.Error("the node that recovered was replaced")
	}
}
