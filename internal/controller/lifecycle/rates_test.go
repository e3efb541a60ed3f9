package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestANewClaimIsWrittenWithTheClientForLaunches: the other client may have a queue of writes, for which
// neither this claim nor the launches behind it may wait.
func TestANewClaimIsWrittenWithTheClientForLaunches(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c1", UID: "u1", CreationTimestamp: metav1.NewTime(now), Finalizers: []string{karpenterv1.TerminationFinalizer},
			Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"},
		},
		Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"}},
	}
	api := fakeapi.New(t, claim).Build()
	busy := interceptor.NewClient(api, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("this client is for other writes")
		},
	})
	l := &Controller{
		Client: busy, Launches: api, Cloud: &empty{}, Now: func() time.Time { return now },
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	}
	l.follower = &apply.LaunchFollower{Now: l.Now}
	l.launches = &apply.LaunchRequests{Cloud: l.Cloud, Now: l.Now, Later: func(time.Duration, func()) {}}
	if _, err := l.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(claim.Status.Conditions, karpenterv1.ConditionTypeLaunched); c == nil || c.Status != metav1.ConditionUnknown {
		t.Errorf("condition Launched is %v, want Unknown", c)
	}
}
