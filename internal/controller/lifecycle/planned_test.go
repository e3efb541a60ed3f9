package lifecycle

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// empty is a cloud that has nothing.
type empty struct{ ending }

// Types returns none.
func (*empty) Types(context.Context, cloud.ClassRef) ([]*catalog.Type, error) { return nil, nil }

// TestALaunchWithoutCapacityIsReportedOnItsPods: their owners look at the pods, and not at NodeClaims that
// come and go.
func TestALaunchWithoutCapacityIsReportedOnItsPods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c1", UID: "u1", CreationTimestamp: metav1.NewTime(now), Finalizers: []string{karpenterv1.TerminationFinalizer},
			Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"},
		},
		Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"}},
	}
	reported := record.NewFakeRecorder(20)
	api := fakeapi.New(t, claim).Build()
	l := &Controller{
		Client: api, Launches: api, Cloud: &empty{}, Now: func() time.Time { return now },
		Events: observe.NewRecorder(reported, time.Now), Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		Planned: func(claim string) []*corev1.Pod {
			return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1 of " + claim}}, {ObjectMeta: metav1.ObjectMeta{Name: "web-2 of " + claim}}}
		},
	}
	var later []func()
	l.follower = &apply.LaunchFollower{Now: l.Now}
	l.launches = &apply.LaunchRequests{Cloud: l.Cloud, Now: l.Now, Later: func(_ time.Duration, do func()) { later = append(later, do) }}
	for range 3 {
		if _, err := l.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
			t.Fatal(err)
		}
		if len(later) > 0 {
			later[0]()
			later = later[1:]
		}
	}
	close(reported.Events)
	var got []string
	for e := range reported.Events {
		got = append(got, e)
	}
	slices.Sort(got)
	const why = "none of 0 instance types is available that satisfies the claim and holds its requests"
	const onPod = "Warning InsufficientCapacityError NodeClaim c1 nominated for this pod failed to launch: " + why
	if diff := cmp.Diff([]string{onPod, onPod, "Warning InsufficientCapacityError " + why}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
