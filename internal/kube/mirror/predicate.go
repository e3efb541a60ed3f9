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

// LifecycleChanged passes all events of NodeClaims except updates that concern disruption
// candidacy alone: lastPodEventTime and the conditions Consolidatable and Drifted. A controller
// that uses it must retry by itself a write that such an update made stale.
func LifecycleChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isClaim := e.ObjectOld.(*karpenterv1.NodeClaim)
		after, _ := e.ObjectNew.(*karpenterv1.NodeClaim)
		// A resync repeats an unchanged object for those who missed something.
		return !isClaim || before.ResourceVersion == after.ResourceVersion || !sameLifecycle(before, after)
	}}
}

// sameLifecycle compares the conditions first, which change most, then strictly, and only then
// with Kubernetes' own comparison, which is much slower.
func sameLifecycle(before, after *karpenterv1.NodeClaim) bool {
	was, is := lifecycleOf(before), lifecycleOf(after)
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

// lifecycleOf returns a copy of a NodeClaim without what concerns disruption candidacy alone.
func lifecycleOf(claim *karpenterv1.NodeClaim) karpenterv1.NodeClaim {
	c := *claim
	c.ResourceVersion, c.ManagedFields, c.Status.LastPodEventTime = "", nil, metav1.Time{}
	c.Status.Conditions = slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c metav1.Condition) bool {
		return c.Type == karpenterv1.ConditionTypeConsolidatable || c.Type == karpenterv1.ConditionTypeDrifted
	})
	return c
}
