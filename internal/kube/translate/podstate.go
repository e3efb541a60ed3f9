package translate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
)

// evictedReason is the reason of condition DisruptionTarget on pods that the eviction API
// ends.
const evictedReason = "EvictionByEvictionAPI"

// stuckAfter is how long past its deletion time a terminating pod is still waited for:
// by then its kubelet has had its chance.
const stuckAfter = time.Minute

// Terminal reports whether the pod has ended for good.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// Terminating reports whether the pod has a deletion timestamp: its containers are being ended.
func Terminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// Active reports whether the pod has neither ended nor begun to end.
func Active(pod *corev1.Pod) bool { return !Terminal(pod) && !Terminating(pod) }

// Evicted reports whether the pod is ended by the eviction API.
func Evicted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Status == corev1.ConditionTrue && c.Reason == evictedReason
		}
	}
	return false
}

// OwnedByDaemonSet reports whether the pod goes wherever its DaemonSet's nodes are.
func OwnedByDaemonSet(pod *corev1.Pod) bool { return ownedBy(pod, "apps/v1", "DaemonSet") }

// Mirror reports whether the pod is a static pod's image in the API: it lives and ends
// with its node.
func Mirror(pod *corev1.Pod) bool { return ownedBy(pod, "v1", "Node") }

// Critical reports whether the pod's priority class is one of the system's two.
func Critical(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical"
}

// Reschedulable reports whether the pod, or its like, will want another node when this one
// goes. A terminating pod of a StatefulSet does: its successor waits for its end.
func Reschedulable(pod *corev1.Pod) bool {
	comesBack := Active(pod) || Terminating(pod) && !Terminal(pod) && ownedBy(pod, "apps/v1", "StatefulSet")
	return comesBack && !OwnedByDaemonSet(pod) && !Mirror(pod)
}

// CountReschedulable returns how many of the pods will want another node.
func CountReschedulable(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if Reschedulable(&pods[i]) {
			n++
		}
	}
	return n
}

// Hold is what a do-not-disrupt annotation means at one instant. The zero Hold is that
// of something without one.
type Hold struct {
	// Active: what has the annotation may not be disrupted now.
	Active bool
	// Until is when the hold ends or ended; zero if it has no end that is known.
	Until time.Time
	// Invalid: the annotation cannot be read, so it has no effect.
	Invalid bool
	// Key is that of the annotation; empty: there is none. It is an older spelling if IsOlder.
	Key     string
	IsOlder bool
}

// DoNotDisrupt reads a pod's do-not-disrupt annotation: "true" is valid for ever, a positive Go
// duration counts from the pod's start on.
func DoNotDisrupt(pod *corev1.Pod, now time.Time) Hold {
	if pod.Status.StartTime == nil {
		return holdOf(pod, time.Time{}, now)
	}
	return holdOf(pod, pod.Status.StartTime.Time, now)
}

// NodeHold reads the do-not-disrupt annotation of a Node or claim. A duration counts
// from its creation on.
func NodeHold(o metav1.Object, now time.Time) Hold {
	return holdOf(o, o.GetCreationTimestamp().Time, now)
}

// holdOf reads the annotation of something that began at start; zero: it is still to begin.
func holdOf(o metav1.Object, start, now time.Time) Hold {
	hold := Hold{Key: karpenterv1.DoNotDisruptAnnotationKey}
	text, has := o.GetAnnotations()[hold.Key]
	if !has {
		return olderHold(o)
	}
	if text == karpenterv1.LabelValueTrue {
		hold.Active = true
		return hold
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d <= 0:
		hold.Invalid = true
	case start.IsZero():
		hold.Active = true
	default:
		hold.Until = start.Add(d)
		hold.Active = now.Before(hold.Until)
	}
	return hold
}

// olderHold reads the annotation as versions before v1 spelled it, which know no value but "true".
func olderHold(o metav1.Object) Hold {
	key := karpenterv1.DoNotConsolidateAnnotationKey
	if _, isPod := o.(*corev1.Pod); isPod {
		key = karpenterv1.DoNotEvictAnnotationKey
	}
	if o.GetAnnotations()[key] != karpenterv1.LabelValueTrue {
		return Hold{}
	}
	return Hold{Active: true, Key: key, IsOlder: true}
}

// IsDisruptedTaint reports whether a taint says that its node is being removed, in whatever version.
func IsDisruptedTaint(t corev1.Taint) bool {
	return t.Key == karpenterv1.DisruptedTaintKey || t.Key == karpenterv1.OlderDisruptedTaintKey
}

// DoNotDisruptActive reports whether the pod's annotation forbids its disruption now.
func DoNotDisruptActive(pod *corev1.Pod, now time.Time) bool { return DoNotDisrupt(pod, now).Active }

// Disruptable reports whether the pod lets its node be disrupted now.
func Disruptable(pod *corev1.Pod, now time.Time) bool {
	return !Active(pod) || !DoNotDisruptActive(pod, now)
}

// ToleratesDisrupted reports whether the pod tolerates the disrupted taint: it wants to stay on a
// node that is being removed.
func ToleratesDisrupted(pod *corev1.Pod) bool {
	for i := range pod.Spec.Tolerations {
		one := [...]cluster.Toleration{toleration(&pod.Spec.Tolerations[i])} // one by one: nothing is allocated
		if fit.Tolerates(one[:], cluster.Taint{Key: karpenterv1.DisruptedTaintKey, Effect: cluster.NoSchedule}) ||
			fit.Tolerates(one[:], cluster.Taint{Key: karpenterv1.OlderDisruptedTaintKey, Value: "disrupting", Effect: cluster.NoSchedule}) {
			return true
		}
	}
	return false
}

// Evictable reports whether the eviction API may be asked to remove the pod now.
func Evictable(pod *corev1.Pod, now time.Time) bool {
	return Active(pod) && !ToleratesDisrupted(pod) && !Mirror(pod) && !DoNotDisruptActive(pod, now)
}

// Drainable reports whether a drain has to evict the pod or wait for it. It is false for static
// pods, for pods that tolerate the disrupted taint, and for those stuck in termination.
func Drainable(pod *corev1.Pod, now time.Time) bool {
	stuck := Terminating(pod) && now.Sub(pod.DeletionTimestamp.Time) > stuckAfter
	return !ToleratesDisrupted(pod) && !stuck && !Mirror(pod)
}

// WaitingEviction reports whether a drain has to wait for the pod, which may be one that must not
// be evicted yet.
func WaitingEviction(pod *corev1.Pod, now time.Time) bool {
	return !Terminal(pod) && Drainable(pod, now)
}

func ownedBy(pod *corev1.Pod, apiVersion, kind string) bool {
	for _, o := range pod.OwnerReferences {
		if o.APIVersion == apiVersion && o.Kind == kind {
			return true
		}
	}
	return false
}

// VolumeClaims returns the names of the volume claims that the pod uses, those made for
// it alone included.
func VolumeClaims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}
