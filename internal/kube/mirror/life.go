package mirror

import (
	"reflect"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// OfLife passes the news of claims, but for what says no more of one than whether its machine is
// a candidate for disruption: when pods last came or went, Consolidatable and Drifted. A loop
// that takes it must try a write again by itself that one of those has overtaken.
func OfLife() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isClaim := e.ObjectOld.(*karpenterv1.NodeClaim)
		after, _ := e.ObjectNew.(*karpenterv1.NodeClaim)
		// A cache that tells everything again does so for those who missed something.
		return !isClaim || before.ResourceVersion == after.ResourceVersion || !sameLife(before, after)
	}}
}

// sameLife compares what changes most first, and then in the strict way, which is much faster
// than Kubernetes' own.
func sameLife(before, after *karpenterv1.NodeClaim) bool {
	was, is := lifeOf(before), lifeOf(after)
	return slices.EqualFunc(was.Status.Conditions, is.Status.Conditions, sameCondition) &&
		(reflect.DeepEqual(&was, &is) || apiequality.Semantic.DeepEqual(&was, &is))
}

func sameCondition(a, b metav1.Condition) bool {
	if !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		return false
	}
	a.LastTransitionTime = b.LastTransitionTime
	return a == b
}

func lifeOf(claim *karpenterv1.NodeClaim) karpenterv1.NodeClaim {
	life := *claim
	life.ResourceVersion, life.ManagedFields, life.Status.LastPodEventTime = "", nil, metav1.Time{}
	life.Status.Conditions = slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c metav1.Condition) bool {
		return c.Type == karpenterv1.ConditionTypeConsolidatable || c.Type == karpenterv1.ConditionTypeDrifted
	})
	return life
}
