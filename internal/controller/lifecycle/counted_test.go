package lifecycle

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// ending is a cloud whose instances are gone when they have been asked to go once.
type ending struct {
	cloud.Provider
	asked int
}

// ClassKinds returns one.
func (*ending) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}
}

// Terminate takes note.
func (e *ending) Terminate(context.Context, string) error {
	if e.asked++; e.asked > 1 {
		return cloud.ErrNotFound
	}
	return nil
}

// TestTheEndOfAClaimIsCounted: dashboards made for Karpenter show why claims went, and how long
// it took.
func TestTheEndOfAClaimIsCounted(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: kind, LastTransitionTime: began}
	}
	for name, c := range map[string]struct {
		change   func(*karpenterv1.NodeClaim)
		after    time.Duration
		searches int
		pause    time.Duration // between them
		want     map[string]float64
	}{
		"it did not launch": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Status.Conditions = []metav1.Condition{is(karpenterv1.ConditionTypeLaunched, metav1.ConditionUnknown)}
			},
			pause:    6 * time.Minute, // which the launch that is asked for first may take
			searches: 2,
			want:     map[string]float64{"disrupted_total{p launch_timeout graceful}": 1},
		},
		"it did not join": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Status.ProviderID = "test://1"
				nc.Status.Conditions = []metav1.Condition{
					is(karpenterv1.ConditionTypeLaunched, metav1.ConditionTrue), is(karpenterv1.ConditionTypeRegistered, metav1.ConditionUnknown),
				}
			},
			after:    15*time.Minute + time.Second,
			searches: 1,
			want:     map[string]float64{"disrupted_total{p registration_timeout graceful}": 1},
		},
		"its time is over": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Spec.ExpireAfter.Duration = new(time.Hour)
				nc.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: time.Minute}
			},
			after:    time.Hour + time.Second,
			searches: 1,
			want:     map[string]float64{"disrupted_total{p expired eventual}": 1},
		},
		"it is gone": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.DeletionTimestamp, nc.Status.ProviderID = &began, "test://1"
				nc.Status.Conditions = []metav1.Condition{is(karpenterv1.ConditionTypeLaunched, metav1.ConditionTrue)}
			},
			searches: 3,
			pause:    5 * time.Second,
			want: map[string]float64{
				"terminated_total{p}": 1, "termination_duration_seconds{p}": 5, "instance_termination_duration_seconds{p}": 5,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &karpenterv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Name: "c1", UID: "u1", CreationTimestamp: began, Finalizers: []string{karpenterv1.TerminationFinalizer},
					Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"},
				},
				Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"}},
			}
			c.change(claim)
			now := began.Add(c.after)
			metrics := prometheus.NewRegistry()
			api := fakeapi.New(t, claim).Build()
			l := &Controller{
				Client: api, Launches: api, Cloud: &ending{}, Now: func() time.Time { return now },
				Metrics: observe.NewMetrics(metrics), Log: slog.New(slog.DiscardHandler),
			}
			l.Events = observe.NewRecorder(record.NewFakeRecorder(20), l.Now)
			l.follower = &apply.LaunchFollower{Now: l.Now}
			l.launches = &apply.LaunchRequests{Cloud: l.Cloud, Now: l.Now, Later: func(time.Duration, func()) {}}
			for range c.searches {
				if _, err := l.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
					t.Fatal(err)
				}
				now = now.Add(c.pause)
			}
			if diff := cmp.Diff(c.want, testkit.Gathered(t, metrics, "karpenter_nodeclaims_")); diff != "" {
				t.Errorf("what is counted (-want +got):\n%s", diff)
			}
		})
	}
}
