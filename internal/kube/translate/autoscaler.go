package translate

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// This file reads what Cluster Autoscaler and its users write on pods and Nodes, so that both
// autoscalers can work in one cluster while node groups are migrated.

// The names that Cluster Autoscaler uses.
const (
	autoscalerDomain = "cluster-autoscaler.kubernetes.io/"
	// SafeToEvictAnnotationKey with the value "false" on a pod keeps its node from being scaled down.
	SafeToEvictAnnotationKey = autoscalerDomain + "safe-to-evict"
	// ScaleDownDisabledAnnotationKey with the value "true" on a Node keeps it from being scaled down.
	ScaleDownDisabledAnnotationKey = autoscalerDomain + "scale-down-disabled"
	// ScaleUpDelayAnnotationKey on a pod says for how long after its creation nothing is launched for it.
	ScaleUpDelayAnnotationKey = autoscalerDomain + "pod-scale-up-delay"
	// ToBeDeletedTaintKey is on the nodes that Cluster Autoscaler is about to delete, with the effect NoSchedule.
	ToBeDeletedTaintKey = "ToBeDeletedByClusterAutoscaler"
	// DeletionCandidateTaintKey is on the nodes that it may delete later, with the effect PreferNoSchedule.
	DeletionCandidateTaintKey = "DeletionCandidateOfClusterAutoscaler"
	// AutoscalerStartupTaintPrefix starts the keys of taints that are removed before a node takes pods.
	AutoscalerStartupTaintPrefix = "startup-taint." + autoscalerDomain
)

// AutoscalerRules are how what is meant for Cluster Autoscaler is read. The zero value is the default.
type AutoscalerRules struct {
	// IgnoreAnnotations: the three annotations above have no effect.
	IgnoreAnnotations bool
	// Cutoff is the priority below which nothing is launched for a pod; nil: there is none.
	Cutoff *int32
}

// BlocksDisruption returns the annotation by which a pod keeps its node from voluntary disruption at
// the time; empty: by none.
func (r AutoscalerRules) BlocksDisruption(pod *corev1.Pod, now time.Time) string {
	switch hold := DoNotDisrupt(pod, now); {
	case !Active(pod):
		return ""
	case hold.Active:
		return hold.Key
	case !r.IgnoreAnnotations && pod.Annotations[SafeToEvictAnnotationKey] == "false" && !OwnedByDaemonSet(pod) && !Mirror(pod):
		return SafeToEvictAnnotationKey + "=false"
	default:
		return ""
	}
}

// NodeBlocks reports whether a Node is kept from voluntary disruption.
func (r AutoscalerRules) NodeBlocks(node *corev1.Node) bool {
	return !r.IgnoreAnnotations && node.Annotations[ScaleDownDisabledAnnotationKey] == "true"
}

// ScaleUpDelay returns for how long after a pod's creation nothing is launched for it. unread says why
// the annotation cannot be read; the delay is 0 then.
func (r AutoscalerRules) ScaleUpDelay(pod *corev1.Pod) (delay time.Duration, unread string) {
	text, has := pod.Annotations[ScaleUpDelayAnnotationKey]
	if !has || r.IgnoreAnnotations {
		return 0, ""
	}
	delay, err := time.ParseDuration(text)
	if err != nil || delay < 0 {
		return 0, fmt.Sprintf("annotation %s is %q and counts as 0s: it must be a duration such as 90s", ScaleUpDelayAnnotationKey, text)
	}
	return delay, ""
}

// Excluded returns why nothing is launched at the time for a pod that needs a node; false: it may be.
func (r AutoscalerRules) Excluded(pod *corev1.Pod, now time.Time) (cluster.ExcludedPod, bool) {
	if delay, _ := r.ScaleUpDelay(pod); now.Before(pod.CreationTimestamp.Add(delay)) {
		return cluster.ExcludedPod{PodRef: PodRef(pod), Delay: delay}, true
	}
	if priority := ptr.Deref(pod.Spec.Priority, 0); r.Cutoff != nil && priority < *r.Cutoff {
		return cluster.ExcludedPod{PodRef: PodRef(pod), Priority: priority, Cutoff: *r.Cutoff}, true
	}
	return cluster.ExcludedPod{}, false
}

// AutoscalerDeletes reports whether Cluster Autoscaler is about to delete a Node.
func AutoscalerDeletes(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == ToBeDeletedTaintKey && t.Effect == corev1.TaintEffectNoSchedule {
			return true
		}
	}
	return false
}

func isDeletionCandidateTaint(t corev1.Taint) bool {
	return t.Key == DeletionCandidateTaintKey && t.Effect == corev1.TaintEffectPreferNoSchedule
}

func isAutoscalerStartupTaint(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, AutoscalerStartupTaintPrefix)
}
