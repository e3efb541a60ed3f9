package translate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Node returns the core's form of a Node, its NodeClaim, or both; at least one is given.
// What depends on its pods is left to the mirror, which knows them.
func Node(node *corev1.Node, nc *karpenterv1.NodeClaim, now time.Time) cluster.Node {
	var m cluster.Node
	if nc != nil {
		m = claimNode(nc, now)
	}
	if node == nil {
		return m
	}
	managed := nc != nil
	registered := !managed || node.Labels[karpenterv1.NodeRegisteredLabelKey] == karpenterv1.LabelValueTrue
	m.Name = node.Name
	m.Ready, m.Registered = NodeReady(node), registered
	m.DoNotRepair = node.Annotations[karpenterv1.DoNotRepairAnnotationKey] == karpenterv1.LabelValueTrue
	m.Initialized = !managed || node.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue
	if !managed {
		m.Pool = node.Labels[karpenterv1.NodePoolLabelKey]
		m.Created = node.CreationTimestamp.Time
		m.Deleting = node.DeletionTimestamp != nil || AutoscalerDeletes(node)
	}
	if registered {
		m.Labels = node.Labels
		m.Taints = Taints(keptTaints(node.Spec.Taints, nc, m.Initialized, m.Rebooting))
	} else if i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }); i >= 0 {
		m.Taints = append(m.Taints, Taints(node.Spec.Taints[i:i+1])...) // it stays when the node registers
	}
	m.Capacity = reported(node.Status.Capacity, m.Capacity, m.Initialized)
	m.Allocatable = reported(node.Status.Allocatable, m.Allocatable, m.Initialized)
	m.InFlight = nil
	m.DeletionCandidate = slices.ContainsFunc(node.Spec.Taints, isDeletionCandidateTaint)
	m.SoftTaint = slices.ContainsFunc(node.Spec.Taints, isPreferOthersTaint)
	m.DisruptedTaint = slices.ContainsFunc(node.Spec.Taints, IsDisruptedTaint)
	if hold := NodeHold(node, now); hold.Active {
		m.DoNotDisrupt = "annotation " + hold.Key + " on the node"
	}
	return m
}

// claimNode is a claim whose Node is still to come.
func claimNode(nc *karpenterv1.NodeClaim, now time.Time) cluster.Node {
	m := cluster.Node{
		Name: nc.Name, Claim: nc.Name, Pool: nc.Labels[karpenterv1.NodePoolLabelKey],
		Labels: nc.Labels, Taints: Taints(nc.Spec.Taints), Created: nc.CreationTimestamp.Time,
		Capacity: Quantities(nc.Status.Capacity), Allocatable: Quantities(nc.Status.Allocatable),
		Deleting:   nc.DeletionTimestamp != nil || meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInstanceTerminating),
		Disruption: disruption(nc),
	}
	m.Expires, m.Reclaimed = Expires(nc), Reclaimed(nc)
	if nc.Status.ProviderID == "" {
		m.InFlight = inFlightClaim(nc)
	}
	m.LastPodEvent = nc.Status.LastPodEventTime.Time
	if c := trueCondition(nc, karpenterv1.ConditionTypeInitialized); c != nil && c.LastTransitionTime.After(m.LastPodEvent) {
		m.LastPodEvent = c.LastTransitionTime.Time
	}
	if c := trueCondition(nc, karpenterv1.ConditionTypeDisruptionReason); c != nil && (!m.Rebooting || m.Deleting) {
		m.DisruptionReason, m.DisruptedSince = c.Reason, c.LastTransitionTime.Time
	}
	if hold := NodeHold(nc, now); hold.Active {
		m.DoNotDisrupt = "annotation " + hold.Key + " on the claim"
	}
	return m
}

// AilingSince returns from when on the conditions of a Node count for its repair: since it was created,
// or was last rebooted.
func AilingSince(node *corev1.Node, nc *karpenterv1.NodeClaim) time.Time {
	since := node.CreationTimestamp.Time
	if nc == nil {
		return since
	}
	c := meta.FindStatusCondition(nc.Status.Conditions, karpenterv1.ConditionTypeRebooting)
	if c != nil && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(since) {
		return c.LastTransitionTime.Time
	}
	return since
}

// trueCondition returns a condition that is True, or nil.
func trueCondition(nc *karpenterv1.NodeClaim, conditionType string) *metav1.Condition {
	if c := meta.FindStatusCondition(nc.Status.Conditions, conditionType); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// inFlightClaim returns what is known of a NodeClaim before the cloud has answered. If a
// requirement cannot be read, no pod can be planned for the result.
func inFlightClaim(nc *karpenterv1.NodeClaim) *cluster.InFlightClaim {
	r, err := ClaimRequirements(nc)
	if err != nil {
		return &cluster.InFlightClaim{}
	}
	return &cluster.InFlightClaim{
		Requirements: r.Intersect(label.OfLabels(nc.Labels)), Types: r[label.InstanceType].Values(),
		Accepted: nc.Annotations[ProvisionalIDAnnotationKey] != "",
	}
}

// keptTaints leaves out the taints that are removed before the node takes pods, or takes them again
// after a reboot, and soft taints of autoscalers: they are for kube-scheduler, which has found no node before a pod asks us for one.
func keptTaints(taints []corev1.Taint, nc *karpenterv1.NodeClaim, initialized, rebooting bool) []corev1.Taint {
	starting := nc != nil && (!initialized || rebooting)
	if !starting && !slices.ContainsFunc(taints, isSoftTaint) {
		return taints
	}
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return isSoftTaint(t) || rebooting && isSilentTaint(t) || starting && (IsEphemeralTaint(t) || t.Key == karpenterv1.RebootingTaintKey || slices.ContainsFunc(nc.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) }))
	})
}

func isSoftTaint(t corev1.Taint) bool { return isPreferOthersTaint(t) || isDeletionCandidateTaint(t) }

// isSilentTaint reports whether a taint says that the kubelet of a node does not report or is not ready, be it with
// the effect NoExecute.
func isSilentTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

// reported returns what a node says of itself; until it is initialized, its claim's
// estimate stands in for what is missing or zero.
func reported(status corev1.ResourceList, estimate quantity.List, initialized bool) quantity.List {
	l := Quantities(status)
	if !initialized {
		for name, amount := range estimate {
			if l[name] == 0 {
				l[name] = amount
			}
		}
	}
	return l
}

// NodeReady reports whether the kubelet says that the node is ready.
func NodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ConsolidateAfter returns how long after the last pod event a pool's nodes may be
// consolidated; negative: never.
func ConsolidateAfter(np *karpenterv1.NodePool) time.Duration {
	if d := np.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		return *d
	}
	return -1
}
