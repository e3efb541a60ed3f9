package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Taints returns the core's form of taints.
func Taints(taints []corev1.Taint) []cluster.Taint {
	out := make([]cluster.Taint, 0, len(taints))
	for _, t := range taints {
		out = append(out, cluster.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// Tolerations returns the core's form of tolerations.
func Tolerations(tolerations []corev1.Toleration) []cluster.Toleration {
	out := make([]cluster.Toleration, 0, len(tolerations))
	for i := range tolerations {
		out = append(out, toleration(&tolerations[i]))
	}
	return out
}

func toleration(t *corev1.Toleration) cluster.Toleration {
	return cluster.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)}
}

// IsUnregisteredTaint reports whether a taint says that a node is not open to pods yet. A node joins with
// the effect NoExecute. From its adoption until it opens the effect is NoSchedule.
func IsUnregisteredTaint(t corev1.Taint) bool { return t.Key == karpenterv1.UnregisteredTaintKey }

// IsEphemeralTaint reports whether a taint goes away by itself while a node starts, so
// that pods may be meant for the node already.
func IsEphemeralTaint(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, karpenterv1.ReadinessTaintPrefix) || isAutoscalerStartupTaint(t) || IsUnregisteredTaint(t) ||
		slices.ContainsFunc(karpenterv1.KnownEphemeralTaints(), func(known corev1.Taint) bool { return known.MatchTaint(&t) })
}
