package translate

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// PodGroupOf returns the name of the PodGroup that the pod is of, which need not exist; empty: none.
func PodGroupOf(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// Gang returns the gang of a PodGroup, without its pods. Pods of a PodGroup that is none are
// scheduled one by one.
func Gang(g *schedulingv1beta1.PodGroup) (gang cluster.Gang, is bool) {
	policy := g.Spec.SchedulingPolicy.Gang
	if policy == nil {
		return cluster.Gang{}, false
	}
	return cluster.Gang{Namespace: g.Namespace, Name: g.Name, Created: g.CreationTimestamp.Time, Minimum: int(policy.MinCount)}, true
}
