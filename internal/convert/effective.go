package convert

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// DefaultClass is the name of the node class that a NodePool without a reference refers to.
const DefaultClass = "default"

// defaultExpireAfter is the default that v1 gives expireAfter of a template.
const defaultExpireAfter = "720h"

// Template returns the template of a NodePool as v1 has it: with the expireAfter that v1beta1 has
// elsewhere. The older field holds unless the newer one has been set to something of its own.
func Template(np *karpenterv1.NodePool) karpenterv1.NodeClaimTemplate {
	t := np.Spec.Template
	if old := np.Spec.Disruption.ExpireAfter; old != nil && isUnset(t.Spec.ExpireAfter) {
		t.Spec.ExpireAfter = *old
	}
	return t
}

// isUnset reports whether a template's expireAfter may be what the API server has put there. What is
// read of the API server is never empty: "Never" is only ever somebody's will.
func isUnset(d karpenterv1.NillableDuration) bool { return d.String() == defaultExpireAfter }

// Complete fills in what a reference to a node class leaves out, with what the provider's default
// kind of node class is: v1beta1 needs no group and no kind, and a NodePool no reference at all.
// It returns ref itself if nothing is missing, or if the rest is of another provider.
func Complete(ref *karpenterv1.NodeClassReference, kind schema.GroupVersionKind) *karpenterv1.NodeClassReference {
	if ref == nil {
		return &karpenterv1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: DefaultClass}
	}
	full := *ref
	if group, _, ok := strings.Cut(ref.APIVersion, "/"); ok && full.Group == "" {
		full.Group = group
	}
	if (full.Group == "" || full.Group == kind.Group) && (full.Kind == "" || full.Kind == kind.Kind) {
		full.Group, full.Kind = kind.Group, kind.Kind
	}
	if full == *ref {
		return ref
	}
	return &full
}
