package lifecycle

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestAgeEndsNoNodeThatIsToStay: of a static pool nothing would launch another; disruption may be paused. What the
// cloud takes away is lost anyway.
func TestAgeEndsNoNodeThatIsToStay(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	now := began.Add(2 * time.Hour)
	for name, c := range map[string]struct {
		replicas  *int64
		reclaimed bool
		paused    string
		lives     bool
	}{
		"a pool that launches another":                   {},
		"a static pool":                                  {replicas: new(int64(3)), lives: true},
		"a static pool, and the cloud takes over":        {replicas: new(int64(3)), reclaimed: true},
		"disruption is paused":                           {paused: "incident 42", lives: true},
		"disruption is paused, and the cloud takes over": {paused: "incident 42", reclaimed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: karpenterv1.NodePoolSpec{Replicas: c.replicas}}
			claim := &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Name: "c1", UID: "u1", CreationTimestamp: began, Finalizers: []string{karpenterv1.TerminationFinalizer},
					Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"},
				},
				Spec: karpenterv1.NodeClaimSpec{
					NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"},
					ExpireAfter:  karpenterv1.NillableDuration{Duration: new(time.Hour)},
				},
				Status: karpenterv1.NodeClaimStatus{ProviderID: "test://1"},
			}
			for _, done := range []string{karpenterv1.ConditionTypeLaunched, karpenterv1.ConditionTypeRegistered, karpenterv1.ConditionTypeInitialized} {
				claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: done, Status: metav1.ConditionTrue, Reason: done, LastTransitionTime: began})
			}
			if c.reclaimed {
				claim.Annotations = map[string]string{
					translate.ReplaceByAnnotationKey: now.Format(time.RFC3339), translate.InterruptionAnnotationKey: "spot_interrupted",
				}
			}
			api := fakeapi.New(t, claim, pool).Build()
			l := &Controller{
				Client: api, Launches: api, Cloud: &ending{}, Now: func() time.Time { return now },
				Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
			}
			if c.paused != "" {
				l.Paused = func(string) string { return c.paused }
			}
			l.Events = observe.NewRecorder(record.NewFakeRecorder(20), l.Now)
			l.follower = &apply.LaunchFollower{Now: l.Now}
			l.launches = &apply.LaunchRequests{Cloud: l.Cloud, Now: l.Now, Later: func(time.Duration, func()) {}}
			result, err := l.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
			if err != nil {
				t.Fatal(err)
			}
			if c.paused != "" && c.lives && result.RequeueAfter != pausedRetry {
				t.Errorf("while disruption is paused it is looked at again after %s, want %s", result.RequeueAfter, pausedRetry)
			}
			if c.lives && c.paused == "" && result.RequeueAfter != 0 {
				t.Errorf("it is looked at again after %s, though only a change could end it", result.RequeueAfter)
			}
			if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			if lives := claim.DeletionTimestamp == nil; lives != c.lives {
				t.Errorf("it lives: %t, want %t", lives, c.lives)
			}
		})
	}
}
