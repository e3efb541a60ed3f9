package mirror_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// TestLifecycleChanged: which changes of a claim reconcile it.
func TestLifecycleChanged(t *testing.T) {
	t.Parallel()
	set := func(of string) func(*karpenterv1.NodeClaim) {
		return func(nc *karpenterv1.NodeClaim) {
			nc.Status.Conditions = append(nc.Status.Conditions, metav1.Condition{Type: of, Status: metav1.ConditionTrue})
		}
	}
	for name, c := range map[string]struct {
		change func(*karpenterv1.NodeClaim)
		want   bool
	}{
		"a pod came":           {func(nc *karpenterv1.NodeClaim) { nc.Status.LastPodEventTime = metav1.NewTime(time.Unix(99, 0)) }, false},
		"it is consolidatable": {set(karpenterv1.ConditionTypeConsolidatable), false},
		"it has drifted":       {set(karpenterv1.ConditionTypeDrifted), false},
		"another wrote":        {func(nc *karpenterv1.NodeClaim) { nc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}} }, false},
		"it is launched":       {set(karpenterv1.ConditionTypeLaunched), true},
		"it goes":              {func(nc *karpenterv1.NodeClaim) { nc.DeletionTimestamp = &metav1.Time{Time: time.Unix(99, 0)} }, true},
		"a pod came and it goes": {func(nc *karpenterv1.NodeClaim) {
			nc.Status.LastPodEventTime, nc.Finalizers = metav1.NewTime(time.Unix(99, 0)), nil
		}, true},
		"it has another label":       {func(nc *karpenterv1.NodeClaim) { nc.Labels = map[string]string{"team": "a"} }, true},
		"nothing, it is sent anew":   {func(nc *karpenterv1.NodeClaim) { nc.ResourceVersion = "1" }, true},
		"its Node has another name":  {func(nc *karpenterv1.NodeClaim) { nc.Status.NodeName = "n" }, true},
		"a step of disruption began": {func(nc *karpenterv1.NodeClaim) { nc.Annotations = map[string]string{"step": "s"} }, true},
	} {
		before := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1", Finalizers: []string{"karpenter.sh/termination"}}}
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		c.change(after)
		if got := mirror.LifecycleChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: passed on: %v, want %v", name, got, c.want)
		}
	}
}
