package translate

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestPoolsThatNobodyChecksCountAsReady: what a controller said of the NodePool as it is now stands.
func TestPoolsThatNobodyChecksCountAsReady(t *testing.T) {
	t.Parallel()
	const generation = 3
	said := func(status metav1.ConditionStatus, of int64) []metav1.Condition {
		return []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: status, ObservedGeneration: of, Reason: "Test"}}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		ready      bool
	}{
		"nothing was said":                   {nil, true},
		"it is unknown":                      {said(metav1.ConditionUnknown, generation), true},
		"it was not ready before a change":   {said(metav1.ConditionFalse, generation-1), true},
		"it is not ready":                    {said(metav1.ConditionFalse, generation), false},
		"it is ready":                        {said(metav1.ConditionTrue, generation), true},
		"it was ready before it was changed": {said(metav1.ConditionTrue, generation-1), true},
	} {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: generation}, Status: karpenterv1.NodePoolStatus{Conditions: c.conditions}}
		before := np.DeepCopy()
		got := meta.FindStatusCondition(Checked(np).Status.Conditions, karpenterv1.ConditionTypeReady)
		if got == nil || (got.Status == metav1.ConditionTrue) != c.ready || got.ObservedGeneration != generation {
			t.Errorf("%s: %+v, want ready: %t", name, got, c.ready)
		}
		if len(np.Status.Conditions) != len(before.Status.Conditions) || len(before.Status.Conditions) > 0 && np.Status.Conditions[0] != before.Status.Conditions[0] {
			t.Errorf("%s: the NodePool of the cache was changed", name)
		}
	}
}
