package repair

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// classless is a cloud that only knows its node classes.
type classless struct{ cloud.Provider }

func (classless) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}
}

// server is an API server with a Node that has been sick for an hour, and its claim. The
// write of that number, from 1, fails with that error.
func server(t *testing.T, failing int, failure error, others ...client.Object) client.Client {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"karpenter.test/class": "x", karpenterv1.NodePoolLabelKey: "p"}},
		Spec:       corev1.NodeSpec{ProviderID: "test://1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
		}},
	}
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Finalizers: []string{karpenterv1.TerminationFinalizer}},
		Status:     karpenterv1.NodeClaimStatus{ProviderID: "test://1"},
	}
	writes := 0
	fails := func() error {
		if writes++; writes == failing {
			return failure
		}
		return nil
	}
	return fakeapi.New(t, append(others, node, claim)...).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := fails(); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := fails(); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, opts...)
			},
		}).Build()
}

// TestRepairEndsWhateverTheNodeDoes looks again after each look, failed or not, as a controller
// does that was killed in between, with a Node that stays sick or is well after the first look. A
// claim that is going must have its deadline, or a pod could hold the drain for ever; one that
// lives must not, or the pods of a later drain would end at once.
func TestRepairEndsWhateverTheNodeDoes(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	written := apierrors.NewConflict(schema.GroupResource{Group: karpenterv1.Group, Resource: "nodeclaims"}, "c1", errors.New("written meanwhile"))
	for name, c := range map[string]struct {
		failing  int // the write that fails, from 1
		failure  error
		recovers bool
		lives    bool
	}{
		"the node stays sick":                                        {},
		"the node is well as soon as it is decided":                  {recovers: true},
		"the deadline is lost, and the node stays sick":              {failing: 1, failure: lost},
		"the deadline is lost, and the node is well again":           {failing: 1, failure: lost, recovers: true, lives: true},
		"another writes the claim first, and the node is well again": {failing: 1, failure: written, recovers: true},
		"the deletion is lost, and the node stays sick":              {failing: 2, failure: lost},
		"the deletion is lost, and the node is well again":           {failing: 2, failure: lost, recovers: true, lives: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := server(t, c.failing, c.failure)
			inspect(t, api)
			if c.recovers {
				heal(t, api)
			}
			for range 3 {
				inspect(t, api)
			}
			var claim karpenterv1.NodeClaim
			if err := api.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
				t.Fatal(err)
			}
			deadline, err := translate.Deadline(&claim)
			if lives := claim.DeletionTimestamp == nil; err != nil || lives != c.lives || deadline.Equal(noon) == c.lives {
				t.Errorf("the claim lives: %t, want %t; its deadline is %v, %v", lives, c.lives, deadline, err)
			}
		})
	}
}

// inspect has a new controller look after the Node once. A write that is lost is an error of its own.
func inspect(t *testing.T, api client.Client) {
	t.Helper()
	inspectPaused(t, api, nil)
}

// inspectPaused is inspect with what says why disruption is paused.
func inspectPaused(t *testing.T, api client.Client, paused func(pool string) string) {
	t.Helper()
	now := func() time.Time { return noon }
	c := &Controller{
		Client: api, Cloud: classless{}, Now: now, Policies: []cloud.RepairPolicy{{ConditionType: "Ready", ConditionStatus: "False"}},
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		Events: observe.NewRecorder(record.NewFakeRecorder(20), now), Paused: paused,
	}
	_, _ = c.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
}

// heal makes the Node ready.
func heal(t *testing.T, api client.Client) {
	t.Helper()
	var node corev1.Node
	if err := api.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := api.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
}

// TestANodeOfAStaticPoolIsNotRepaired: nothing would launch another.
func TestANodeOfAStaticPoolIsNotRepaired(t *testing.T) {
	t.Parallel()
	for _, static := range []bool{false, true} {
		pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		if static {
			pool.Spec.Replicas = new(int64(3))
		}
		api := server(t, 0, nil, pool)
		inspect(t, api)
		var claim karpenterv1.NodeClaim
		if err := api.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
			t.Fatal(err)
		}
		if lives := claim.DeletionTimestamp == nil; lives != static || len(claim.Annotations) > 0 == static {
			t.Errorf("static %t: the claim lives: %t, with annotations %v", static, lives, claim.Annotations)
		}
	}
}

// TestNoNodeIsRepairedWhileDisruptionIsPaused: it is when disruption is resumed.
func TestNoNodeIsRepairedWhileDisruptionIsPaused(t *testing.T) {
	t.Parallel()
	api := server(t, 0, nil, &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	for _, why := range []string{"incident 42", ""} {
		inspectPaused(t, api, func(pool string) string {
			if pool != "p" {
				t.Errorf("asked about pool %q", pool)
			}
			return why
		})
		var claim karpenterv1.NodeClaim
		if err := api.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
			t.Fatal(err)
		}
		if lives := claim.DeletionTimestamp == nil; lives != (why != "") || len(claim.Annotations) > 0 == lives {
			t.Errorf("paused by %q: the claim lives: %t, with annotations %v", why, lives, claim.Annotations)
		}
	}
}
