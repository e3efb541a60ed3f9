package whatif

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/drift"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// withPools returns the objects with NodePools in the place of those before, and with NodeClaims that are drifted
// as the controller would find them.
func (in *Input) withPools(before, pools []*karpenterv1.NodePool) []client.Object {
	byName := map[string]*karpenterv1.NodePool{}
	changed := map[string]bool{}
	for _, np := range pools {
		byName[np.Name] = np
		at := slices.IndexFunc(before, func(o *karpenterv1.NodePool) bool { return o.Name == np.Name })
		if changed[np.Name] = at < 0 || len(differences(before[at], np)) > 0; !changed[np.Name] {
			continue
		}
		if np.Annotations == nil {
			np.Annotations = map[string]string{}
		}
		np.Annotations[karpenterv1.NodePoolHashAnnotationKey] = translate.PoolHash(np)
		np.Annotations[karpenterv1.NodePoolHashVersionAnnotationKey] = karpenterv1.NodePoolHashVersion
	}
	out := make([]client.Object, 0, len(in.Objects)+len(pools))
	for _, np := range pools {
		out = append(out, np)
	}
	for _, o := range in.Objects {
		switch o := o.(type) {
		case *karpenterv1.NodePool:
		case *karpenterv1.NodeClaim:
			if name := o.Labels[karpenterv1.NodePoolLabelKey]; changed[name] {
				out = append(out, in.judged(o, byName[name]))
				continue
			}
			out = append(out, o)
		default:
			out = append(out, o)
		}
	}
	return out
}

// judged returns a NodeClaim with the condition Drifted as the controller would write it. What its provider has
// found stays.
func (in *Input) judged(nc *karpenterv1.NodeClaim, np *karpenterv1.NodePool) *karpenterv1.NodeClaim {
	nc = nc.DeepCopy()
	set := condition.ForNodeClaim(nc)
	v, err := translate.Drift(nc, np, in.From.TypesFor(np), in.At)
	if err != nil || nc.DeletionTimestamp != nil { // the NodePool says itself what is wrong with it
		return nc
	}
	if had := set.Get(karpenterv1.ConditionTypeDrifted); had.Status == metav1.ConditionTrue && !slices.Contains([]string{drift.PoolDrifted, drift.RequirementsDrifted, drift.TypeGone}, had.Reason) {
		v.Provider = had.Reason
	}
	if reason := drift.Reason(v); reason != "" {
		set.Set(metav1.Condition{Type: karpenterv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: reason, Message: reason}, in.At)
	} else {
		set.Clear(karpenterv1.ConditionTypeDrifted)
	}
	return nc
}
