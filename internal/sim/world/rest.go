package world

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// movesFor is how long it takes at most until the successor of an evicted pod runs, if there is room.
const movesFor = 3 * time.Minute

// atRest: some time after the last fault, all is as it should be.
func (c *checks) atRest() {
	w := c.w
	if w.opts.Calm < restIn {
		return
	}
	moving := w.at.Sub(c.lastEviction) < movesFor
	for _, a := range w.workloads.All {
		if a.Gang > 0 {
			continue // gangs judge them
		}
		running := 0
		for _, pod := range w.api.PodsOf(a.Name) {
			switch {
			case pod.DeletionTimestamp == nil && cluster.IsReady(pod) && w.cloud.kubeletUp(pod.Spec.NodeName), c.fitsNowhere(pod):
				running++
			case moving && w.at.Sub(pod.CreationTimestamp.Time) < movesFor:
				running++
			case pod.Spec.NodeName == "":
				w.fail("at rest, pod %s of %d milli-cpus is pending since %s", pod.Name, a.CPUMilli, w.at.Sub(pod.CreationTimestamp.Time))
			}
		}
		if running != a.Replicas && !moving {
			w.fail("at rest, %d of %d pods of %s run", running, a.Replicas, a.Name)
		}
	}
	for _, node := range cluster.All[*corev1.Node](w.api) {
		i := w.cloud.byNode[node.Name]
		switch {
		case node.DeletionTimestamp != nil: // a young one is what isIdle judges
			if w.at.Sub(node.DeletionTimestamp.Time) > idleFor && w.at.Sub(c.lastHeld) > idleFor && !c.heldFor(node.Name) {
				w.fail("at rest, node %s is being deleted since %s", node.Name, w.at.Sub(node.DeletionTimestamp.Time))
			}
		case i == nil || c.claimOf(i) == nil:
			w.fail("at rest, node %s has no claim", node.Name)
		case cluster.HasTaint(node, karpenterv1.DisruptedTaintKey):
			if !c.expiring(c.claimOf(i)) {
				w.fail("at rest, node %s is closed and stays", node.Name)
			}
		case node.Labels[karpenterv1.NodeInitializedLabelKey] != "true" && !c.isYoung(c.claimOf(i)):
			w.fail("at rest, node %s is not initialized", node.Name)
		}
	}
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](w.api) {
		if i := c.instanceOf(nc); nc.DeletionTimestamp == nil && (i == nil || i.state != joined) && !c.isYoung(nc) {
			w.fail("at rest, claim %s has no node", nc.Name)
		}
	}
	for _, i := range w.cloud.live() {
		if c.claimOf(i) == nil {
			w.fail("at rest, instance %s has no claim", i.ID)
		}
	}
	w.statics.atRest()
	w.buffers.atRest()
	w.gangs.atRest()
	w.reboots.atRest()
	c.isIdle()
}

// expiring reports whether a node has just been closed because it expires, which happens at
// rest, too.
func (c *checks) expiring(nc *karpenterv1.NodeClaim) bool {
	why := meta.FindStatusCondition(nc.Status.Conditions, karpenterv1.ConditionTypeDisruptionReason)
	return why != nil && why.Reason == "Expired" && c.w.at.Sub(why.LastTransitionTime.Time) < idleFor
}

// isYoung reports whether a claim is so new that isIdle judges whether it may be.
func (c *checks) isYoung(nc *karpenterv1.NodeClaim) bool {
	return c.w.at.Sub(nc.CreationTimestamp.Time) < idleFor
}

// isIdle: launches and evictions have stopped, and no node is left that has no pods, unless nodes
// expire or their pool's budget is spent.
func (c *checks) isIdle() {
	if c.w.at.Sub(c.lastExpired) < 2*idleFor {
		return
	}
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](c.w.api) {
		if nc.Spec.ExpireAfter.Duration != nil {
			return
		}
	}
	for _, last := range []time.Time{c.lastLaunch, c.lastEviction} {
		if c.w.at.Sub(last) < idleFor {
			c.w.fail("at rest, it is not idle: %s %s ago", c.why, c.w.at.Sub(last))
		}
	}
	spent := map[string]bool{} // by drains that are held for good
	for _, node := range cluster.All[*corev1.Node](c.w.api) {
		if node.DeletionTimestamp != nil {
			spent[node.Labels[karpenterv1.NodePoolLabelKey]] = true
		}
	}
	for _, node := range cluster.All[*corev1.Node](c.w.api) {
		pool := node.Labels[karpenterv1.NodePoolLabelKey]
		if !spent[pool] && !c.w.statics.isStatic(pool) && !c.w.buffers.ask() && !slices.ContainsFunc(c.w.api.PodsOn(node.Name), keepsNode) {
			c.w.fail("at rest, node %s has no pods and stays", node.Name)
		}
	}
}

// keepsNode reports whether a node may stay for a pod: one of a workload, or a tenant's. A tenant's whose requests wrap
// around in the sums of kube-scheduler runs where nobody else would have it, and there is no other node that holds it.
func keepsNode(pod *corev1.Pod) bool {
	return pod.Labels[cluster.AppLabel] != "" || pod.Labels[hostile] != ""
}
