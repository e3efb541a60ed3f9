package translate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// RefillAfterAnnotationKey is on a CapacityBuffer: for so long the room must have been short before
// nodes are launched for it again. Nothing is launched for a short burst of pods then.
const RefillAfterAnnotationKey = "dovetail.sh/refill-after"

// BufferSource is what a CapacityBuffer names.
type BufferSource struct {
	// Template is the pod's; nil: there is no such object.
	Template *corev1.PodTemplateSpec
	// Scale is the number of replicas of a workload; nil: it is no workload.
	Scale *int64
	// Class is the runtime class that the template names, nil if there is none; Ranges are those of
	// the namespace, by name.
	Class  *nodev1.RuntimeClass
	Ranges []*corev1.LimitRange
}

// Buffer is what a CapacityBuffer comes to.
type Buffer struct {
	// Chunks is for how many pods it asks for room, and Constraints those of each.
	Chunks      int64
	Constraints *cluster.Constraints
}

// ReadBuffer returns what a CapacityBuffer comes to, given what it names.
func ReadBuffer(cb *autoscalingv1beta1.CapacityBuffer, from BufferSource, v Vocabulary) Buffer {
	p := bufferPod(cb.Namespace, from)
	sh := PodConstraints(p, v)
	sh.Preferences = nil // room that is there need not be what a pod would prefer
	if len(sh.Spread)+len(sh.Affinity)+len(sh.AntiAffinity) == 0 {
		sh.Labels = nil // so that no rule of a pod counts what kube-scheduler does not know of
	}
	size := buffer.Size{Replicas: wide(cb.Spec.Replicas), Percentage: wide(cb.Spec.Percentage), Scale: from.Scale, Requests: sh.Requests, Limits: Quantities(cb.Spec.Limits)}
	return Buffer{Chunks: size.Chunks(), Constraints: sh}
}

// bufferPod returns the pod that the API server would make of the template, without its volume
// claims: these would be other ones for each pod.
func bufferPod(namespace string, from BufferSource) *corev1.Pod {
	template := from.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: template.Labels}, Spec: template.Spec}
	p.Spec.NodeName, p.Spec.Volumes = "", nil
	Admit(p, from.Class, from.Ranges)
	return p
}

func wide(n *int32) *int64 {
	if n == nil {
		return nil
	}
	is := int64(*n)
	return &is
}

// RefillAfter returns for how long the room of a buffer must be short before nodes are launched for
// it again; 0: it does not say. The error says what is wrong with the annotation.
func RefillAfter(cb *autoscalingv1beta1.CapacityBuffer) (time.Duration, error) {
	text, says := cb.Annotations[RefillAfterAnnotationKey]
	if !says {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("annotation %s: %q is no duration, such as 5m", RefillAfterAnnotationKey, text)
	}
	return d, nil
}

// LaunchAfter returns until when no node is launched for a buffer. A buffer about which nothing was
// planned yet does not wait.
func LaunchAfter(cb *autoscalingv1beta1.CapacityBuffer, now time.Time) time.Time {
	wait, err := RefillAfter(cb)
	if err != nil || wait == 0 {
		return time.Time{}
	}
	for i := range cb.Status.Conditions {
		switch c := &cb.Status.Conditions[i]; {
		case c.Type != autoscalingv1beta1.ConditionTypeProvisioning:
		case c.Status == metav1.ConditionTrue: // until now it was not short
			return now.Add(wait)
		case c.Reason == buffer.RequiresNewCapacity:
			return c.LastTransitionTime.Add(wait)
		}
	}
	return time.Time{}
}
