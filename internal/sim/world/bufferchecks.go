package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

const (
	// bufferShort is for how long buffers may lack room after the storm, and bufferShortStormy in it, while
	// nothing keeps the product from launching.
	bufferShort, bufferShortStormy = 10 * time.Minute, time.Hour
	// bufferRest is after what time without a change of load no node is launched for a buffer any more: a
	// launch's time, and the ten minutes of rest that were promised.
	bufferRest = 15 * time.Minute
)

// chunks returns for how many pods a buffer asks for room, and what each requests.
func (b *buffers) chunks(of *buffer) (n int, spec corev1.PodSpec) {
	cb, there := cluster.Find[*autoscalingv1beta1.CapacityBuffer](b.w.api, cluster.Namespace, of.name)
	if !there {
		return 0, spec
	}
	if cb.Spec.Replicas != nil {
		n = int(*cb.Spec.Replicas)
	}
	if cb.Spec.Percentage != nil {
		n = max(n, (of.burst.Replicas*int(*cb.Spec.Percentage)+99)/100)
	}
	if t, named := cluster.Find[*corev1.PodTemplate](b.w.api, cluster.Namespace, of.template); named {
		return n, t.Template.Spec
	}
	return n, b.specOf(of.burst)
}

// missing returns how many chunks have no room on a Node: those of the buffer that lacks most, beside no other's.
// Chunks of one buffer are alike, so that is exact; whether all buffers fit beside each other is not judged.
func (b *buffers) missing() (most int) {
	for _, of := range b.all {
		n, spec := b.chunks(of)
		spec.Tolerations = []corev1.Toleration{{Key: karpenterv1.DisruptedTaintKey, Operator: corev1.TolerationOpExists}} // until the node goes
		pods := make([]*corev1.Pod, n)
		for i := range pods {
			pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chunks", Name: fmt.Sprint(i)}, Spec: spec}
		}
		most = max(most, n-b.w.cluster.Scheduler.FitTogether(pods))
	}
	return most
}

// check: the room is there again within the time of a launch.
func (b *buffers) check() {
	w := b.w
	most := bufferShort
	if w.chaos.stormy {
		most = bufferShortStormy
	} else if b.loadChanges() {
		b.lastLoad = w.at
	}
	missing := b.missing()
	if lasts(w, &b.shortSince, missing > 0 && !b.isBlocked()) > most {
		w.fail("buffers lack room for %d pods since %s%s", missing, w.at.Sub(b.shortSince), b)
	}
}

// isBlocked reports whether something keeps the product from launching: nothing is to be had, or the pool that
// has room for all is not as it was made, or the product does not run, or pods come first, or a node comes back from
// its reboot.
func (b *buffers) isBlocked() bool {
	w := b.w
	np, there := cluster.Find[*karpenterv1.NodePool](w.api, "", w.chaos.pools[0].Name)
	return len(w.cloud.stock) > 0 || len(w.reboots.underway) > 0 || !w.acts() || !there || np.DeletionTimestamp != nil || len(np.Spec.Limits) > 0
}

// loadChanges reports whether pods come and go, or nodes go which the product did not choose, so that buffers
// may lack room.
func (b *buffers) loadChanges() bool {
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](b.w.api) {
		why, chosen := conditionOf(nc, karpenterv1.ConditionTypeDisruptionReason)
		if nc.DeletionTimestamp != nil && (!chosen || why.Reason != forMoney && why.Reason != "Empty") {
			return true
		}
	}
	return slices.ContainsFunc(b.w.workloads.All, func(a *cluster.Workload) bool { return b.w.workloads.RollsOut(a) })
}

// launched: no node is launched for a buffer when nothing has changed.
func (b *buffers) launched(i *instance) {
	w := b.w
	if !b.on || w.chaos.stormy || w.at.Sub(b.lastLoad) < bufferRest || w.statics.isStatic(i.ordered.Labels[karpenterv1.NodePoolLabelKey]) {
		return
	}
	if nc := w.checks.claimOf(i); nc == nil || nc.Annotations[replacesKey] != "" {
		return
	}
	if slices.ContainsFunc(cluster.All[*corev1.Pod](w.api), b.mayAsk) {
		return
	}
	w.fail("instance %s is launched for a buffer, and nothing has changed for %s", i.ID, w.at.Sub(b.lastLoad))
}

// mayAsk reports whether a pod may have asked for a node: it has none, or is on one that goes.
func (b *buffers) mayAsk(pod *corev1.Pod) bool {
	if pod.Labels[cluster.AppLabel] == "" {
		return false
	}
	node, there := cluster.Find[*corev1.Node](b.w.api, "", pod.Spec.NodeName)
	return !there || node.DeletionTimestamp != nil || b.w.at.Sub(b.w.checks.boundAt[cluster.KeyOf(pod)]) < blind
}

// atRest: each buffer says how many chunks it has, and that there is room for them.
func (b *buffers) atRest() {
	for _, of := range b.all {
		cb, there := cluster.Find[*autoscalingv1beta1.CapacityBuffer](b.w.api, cluster.Namespace, of.name)
		n, _ := b.chunks(of)
		switch {
		case !there || cb.Status.Replicas == nil || int(*cb.Status.Replicas) != n:
			b.w.fail("at rest, buffer %s does not say that it asks for room for %d pods", of.name, n)
		case n > 0 && b.shortSince.IsZero() && !meta.IsStatusConditionTrue(cb.Status.Conditions, autoscalingv1beta1.ConditionTypeProvisioning):
			b.w.fail("at rest, buffer %s does not say that there is room for its %d pods", of.name, n)
		}
	}
}

// ask reports whether a buffer asks for room, for which a node without pods may stay.
func (b *buffers) ask() bool {
	return slices.ContainsFunc(b.all, func(of *buffer) bool {
		n, _ := b.chunks(of)
		return n > 0
	})
}

// String returns what each buffer asks for and says.
func (b *buffers) String() (all string) {
	for _, of := range b.all {
		n, spec := b.chunks(of)
		all += fmt.Sprintf(", %s asks for %d pods of %s", of.name, n, spec.Containers[0].Resources.Requests.Cpu())
		if cb, there := cluster.Find[*autoscalingv1beta1.CapacityBuffer](b.w.api, cluster.Namespace, of.name); there {
			for i := range cb.Status.Conditions {
				all += " (" + cb.Status.Conditions[i].Message + ")"
			}
		}
	}
	return all
}
