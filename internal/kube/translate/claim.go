package translate

import (
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// ClassLabel returns the label that names a node's class.
func ClassLabel(ref *karpenterv1.NodeClassReference) string {
	return karpenterv1.NodeClassLabelKey(ref.Group, strings.ToLower(ref.Kind))
}

// NodeClaim returns the claim that carries out a launch from a pool.
func NodeClaim(np *karpenterv1.NodePool, l *plan.Launch, v Vocabulary) *karpenterv1.NodeClaim {
	t := convert.Template(np)
	labels := launchLabels(l.Requirements, v)
	maps.Copy(labels, t.Labels)
	labels[karpenterv1.NodePoolLabelKey] = np.Name
	labels[ClassLabel(t.Spec.NodeClassRef)] = t.Spec.NodeClassRef.Name
	annotations := maps.Clone(t.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[karpenterv1.NodePoolHashAnnotationKey] = PoolHash(np)
	annotations[karpenterv1.NodePoolHashVersionAnnotationKey] = karpenterv1.NodePoolHashVersion
	annotations[karpenterv1.NodeClaimMinValuesRelaxedAnnotationKey] = strconv.FormatBool(l.MinValuesRelaxed)
	if l.Replaces != "" {
		annotations[ReplacesAnnotationKey] = l.Replaces
	}
	block := true
	requirements := maps.Clone(l.Requirements)
	delete(requirements, karpenterv1.NodeRegisteredLabelKey)
	delete(requirements, karpenterv1.NodeInitializedLabelKey)
	return &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: np.Name + "-", Labels: labels, Annotations: annotations,
			Finalizers: []string{karpenterv1.TerminationFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: karpenterv1.GroupVersion.String(), Kind: "NodePool", Name: np.Name, UID: np.UID, BlockOwnerDeletion: &block,
			}},
		},
		Spec: karpenterv1.NodeClaimSpec{
			Taints: t.Spec.Taints, StartupTaints: t.Spec.StartupTaints,
			Requirements:           RequirementList(requirements),
			Resources:              karpenterv1.ResourceRequirements{Requests: ResourceList(l.Requests)},
			NodeClassRef:           t.Spec.NodeClassRef,
			TerminationGracePeriod: t.Spec.TerminationGracePeriod,
			ExpireAfter:            t.Spec.ExpireAfter,
			Kubelet:                kubelet(np),
		},
	}
}

// kubelet returns the kubelet's configuration that the claims of a pool have in place of their class's.
func kubelet(np *karpenterv1.NodePool) *runtime.RawExtension {
	config := convert.Kubelet(np.Spec.Template.Spec.Kubelet, np.Annotations)
	if config == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: []byte(config)}
}

// launchLabels chooses values for the custom labels that requirements leave open: those that
// neither type nor offering will decide. A list gives its first value; a range its
// lowest; "exists" gives "0" or the first integer that is not excluded. Where a key
// need not have a value it gets none: a label could bring DaemonSet pods that the plan has
// not counted.
func launchLabels(r label.Requirements, v Vocabulary) map[string]string {
	labels := map[string]string{}
	for key, q := range r {
		if v.WellKnown[key] || v.Restricted(key) || q.AllowsAbsence() {
			continue
		}
		switch q.Operator() {
		case label.OpIn:
			labels[key] = q.Values()[0]
		default:
			n, _, bounded, _ := q.Bounds()
			if !bounded {
				n = 0
			}
			for i := range int64(len(q.Values())) + 1 { // of so many, one at least is not excluded
				if text := strconv.FormatInt(n+i, 10); q.Allows(text) {
					labels[key] = text
					break
				}
			}
		}
	}
	return labels
}
