package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestWhatOfANodePoolCallsForAPlan: another spec does, a pause, a condition; a status that counts the nodes does not.
func TestWhatOfANodePoolCallsForAPlan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*karpenterv1.NodePool)
		calls  bool
	}{
		"nothing": {func(*karpenterv1.NodePool) {}, false},
		"what its nodes have": {func(np *karpenterv1.NodePool) {
			np.Status.Nodes, np.Status.Resources = new(int64(2)), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		}, false},
		"its spec":                {func(np *karpenterv1.NodePool) { np.Generation++ }, true},
		"its labels":              {func(np *karpenterv1.NodePool) { np.Labels = map[string]string{"team": "a"} }, true},
		"a pause":                 {func(np *karpenterv1.NodePool) { np.Annotations = map[string]string{"paused": "true"} }, true},
		"a condition":             {func(np *karpenterv1.NodePool) { np.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		"its deletion":            {func(np *karpenterv1.NodePool) { np.DeletionTimestamp = &metav1.Time{Time: atNoon()} }, true},
		"another one of its name": {func(np *karpenterv1.NodePool) { np.UID = "other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(atNoon)
			np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", Generation: 1}}
			np.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
			upsert(s, np)
			calls := 0
			s.OnWork(func(string) { calls++ })
			changed := np.DeepCopy()
			changed.ResourceVersion = "2"
			tc.change(changed)
			upsert(s, changed)
			if calls > 0 != tc.calls {
				t.Errorf("calls for a plan %d times, want %v", calls, tc.calls)
			}
		})
	}
}
