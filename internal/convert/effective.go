package convert

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

// DefaultClass is the name of the node class that a NodePool without a reference refers to.
const DefaultClass = "default"

// defaultExpireAfter is the default that v1 gives expireAfter of a template.
const defaultExpireAfter = "720h"

// IsOlder reports whether an API version is one that All brings to v1.
func IsOlder(apiVersion string) bool {
	switch apiVersion {
	case "karpenter.sh/v1alpha5", "karpenter.sh/v1beta1", "karpenter.k8s.aws/v1alpha1", "karpenter.k8s.aws/v1beta1":
		return true
	}
	return false
}

// ClassKind returns the kind of node class that a provider's references mean if they do not say.
func ClassKind(provider string) (kind schema.GroupVersionKind, ok bool) {
	switch provider {
	case "aws":
		return awsv1.GroupVersion.WithKind("EC2NodeClass"), true
	case "kwok":
		return kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass"), true
	case "clusterapi":
		return clusterapiv1alpha1.GroupVersion.WithKind(clusterapiv1alpha1.Kind), true
	}
	return kind, false
}

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

// kubeletAnnotation holds the kubelet's configuration of v1beta1 on NodePools and NodeClaims that
// Karpenter has converted.
const kubeletAnnotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"

// Kubelet returns the kubelet's configuration that a NodePool or a NodeClaim has in place of that of
// its node class, as JSON: what its field holds, or what Karpenter has kept of it; empty: none.
func Kubelet(field *runtime.RawExtension, annotations map[string]string) string {
	if field != nil && len(field.Raw) > 0 {
		return string(field.Raw)
	}
	if kept := annotations[kubeletAnnotation]; strings.HasPrefix(kept, "{") && json.Valid([]byte(kept)) {
		return kept
	}
	return ""
}
