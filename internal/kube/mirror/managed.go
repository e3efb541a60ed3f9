package mirror

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// NewClass returns an empty object of a kind of node class: of its own type, or unstructured where the
// kind is one that a provider outside of this process defines.
func NewClass(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.Object, error) {
	if !scheme.Recognizes(kind) {
		class := &unstructured.Unstructured{}
		class.SetGroupVersionKind(kind)
		return class, nil
	}
	made, err := scheme.New(kind)
	if err != nil {
		return nil, err
	}
	class, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object of the API server", kind)
	}
	return class, nil
}
