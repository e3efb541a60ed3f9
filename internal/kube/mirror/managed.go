package mirror

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// ManagesClaim reports whether a claim is for one of a provider's node class kinds. Other
// claims are somebody else's.
func ManagesClaim(kinds []schema.GroupVersionKind, nc *karpenterv1.NodeClaim) bool {
	ref := nc.Spec.NodeClassRef
	return ref != nil && slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
}

// ManagesNode reports whether a Node says that it is of one of a provider's node classes.
func ManagesNode(kinds []schema.GroupVersionKind, node *corev1.Node) bool {
	return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool {
		_, has := node.Labels[karpenterv1.NodeClassLabelKey(k.Group, strings.ToLower(k.Kind))]
		return has
	})
}
