package candidacy

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// seer is a cloud that sees drift.
type seer struct {
	cloud.Provider
	sees string
	err  error
}

func (s *seer) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "g.test", Version: "v1", Kind: "Class"}}
}

func (s *seer) Drifted(context.Context, cloud.ClassRef, string) (string, error) { return s.sees, s.err }

// conditions returns the true ones of a claim that candidacy writes, with their reasons.
func conditions(t *testing.T, c client.Client) string {
	t.Helper()
	var claim karpenterv1.NodeClaim
	if err := c.Get(t.Context(), client.ObjectKey{Name: "c"}, &claim); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, cond := range claim.Status.Conditions {
		if cond.Type == karpenterv1.ConditionTypeDrifted || cond.Type == karpenterv1.ConditionTypeConsolidatable {
			out = append(out, cond.Type+"="+string(cond.Status)+" "+cond.Reason)
		}
	}
	return strings.Join(out, ", ")
}

func TestWhatStandsOnAClaim(t *testing.T) {
	t.Parallel()
	half := 30 * time.Second
	is := func(conditionType string, since time.Time) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: conditionType, LastTransitionTime: metav1.NewTime(since)}
	}
	for name, tc := range map[string]struct {
		change func(*karpenterv1.NodeClaim, *karpenterv1.NodePool, *seer)
		want   string
		again  time.Duration
	}{
		"consolidateAfter has passed": {func(*karpenterv1.NodeClaim, *karpenterv1.NodePool, *seer) {}, "Consolidatable=True Consolidatable", again},
		"a pod came ten seconds ago": {func(nc *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, _ *seer) {
			nc.Status.LastPodEventTime = metav1.NewTime(noon.Add(-10 * time.Second))
		}, "", 20 * time.Second},
		"it had passed, and a pod came": {func(nc *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, _ *seer) {
			nc.Status.Conditions = append(nc.Status.Conditions, is(karpenterv1.ConditionTypeConsolidatable, noon.Add(-time.Minute)))
			nc.Status.LastPodEventTime = metav1.NewTime(noon)
		}, "", half},
		"consolidateAfter is Never": {func(_ *karpenterv1.NodeClaim, np *karpenterv1.NodePool, _ *seer) {
			np.Spec.Disruption.ConsolidateAfter = karpenterv1.NillableDuration{}
		}, "", again},
		"not initialized": {func(nc *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, _ *seer) { nc.Status.Conditions = nil }, "", again},
		"another template": {func(_ *karpenterv1.NodeClaim, np *karpenterv1.NodePool, _ *seer) {
			np.Annotations[karpenterv1.NodePoolHashAnnotationKey] = "2"
		}, "Consolidatable=True Consolidatable, Drifted=True NodePoolDrifted", again},
		"what the cloud sees": {func(_ *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, s *seer) {
			s.sees = "ImageDrifted"
		}, "Consolidatable=True Consolidatable, Drifted=True ImageDrifted", again},
		"an instance that is gone": {func(_ *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, s *seer) { s.err = cloud.ErrNotFound }, "Consolidatable=True Consolidatable", again},
		"drifted no more": {func(nc *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, _ *seer) {
			nc.Status.Conditions = append(nc.Status.Conditions, is(karpenterv1.ConditionTypeDrifted, noon.Add(-time.Minute)))
		}, "Consolidatable=True Consolidatable", again},
		"of another's class": {func(nc *karpenterv1.NodeClaim, _ *karpenterv1.NodePool, _ *seer) {
			nc.Spec.NodeClassRef.Group = "other"
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hash := map[string]string{karpenterv1.NodePoolHashAnnotationKey: "1", karpenterv1.NodePoolHashVersionAnnotationKey: "v3"}
			class := &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}
			pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: hash}}
			pool.Spec.Template.Spec.NodeClassRef = class.DeepCopy()
			pool.Spec.Disruption.ConsolidateAfter.Duration = &half
			long := noon.Add(-time.Hour)
			claim := &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{}, Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"}},
				Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: class},
				Status: karpenterv1.NodeClaimStatus{Conditions: []metav1.Condition{
					is(karpenterv1.ConditionTypeInitialized, long), is(karpenterv1.ConditionTypeLaunched, long),
				}},
			}
			for key, value := range hash {
				claim.Annotations[key] = value
			}
			provider := &seer{}
			tc.change(claim, pool, provider)
			scheme := runtime.NewScheme()
			if err := karpenterv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim, pool).WithStatusSubresource(claim).Build()
			loop := &Controller{
				Client: c, Cloud: provider, Now: func() time.Time { return noon },
				Types: func(cloud.ClassRef) ([]*catalog.Type, error) { return nil, cloud.ErrNotFound },
			}
			for range 2 { // the second time changes nothing
				result, err := loop.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}})
				if err != nil || result.RequeueAfter != tc.again {
					t.Errorf("again after %s (%v), want %s", result.RequeueAfter, err, tc.again)
				}
				if got := conditions(t, c); got != tc.want {
					t.Errorf("conditions %q, want %q", got, tc.want)
				}
			}
		})
	}
}
