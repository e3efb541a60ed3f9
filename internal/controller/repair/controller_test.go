package repair

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// classless is a cloud that only knows its node classes.
type classless struct{ cloud.Provider }

func (classless) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}
}

// server is an API server with a Node that has been sick for an hour, and its claim. The
// write of that number, from 1, is lost on its way.
func server(t *testing.T, lost int) client.Client {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"karpenter.test/class": "x"}},
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
		if writes++; writes == lost {
			return errors.New("connection reset")
		}
		return nil
	}
	return fakeapi.New(t, node, claim).
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

// TestRepairHealsAfterALostWrite looks again after each look, failed or not, as a
// controller does that was killed in between. A claim that lives must never have a
// deadline: it would end the pods of a later drain at once.
func TestRepairHealsAfterALostWrite(t *testing.T) {
	t.Parallel()
	for lost := range 4 { // the first loses none
		api, now := server(t, lost), func() time.Time { return noon }
		var claim karpenterv1.NodeClaim
		for range 4 {
			c := &Controller{
				Client: api, Cloud: classless{}, Now: now, Policies: []cloud.RepairPolicy{{ConditionType: "Ready", ConditionStatus: "False"}},
				Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
				Events: observe.NewRecorder(record.NewFakeRecorder(20), now),
			}
			_, _ = c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n1"}}) // a lost write is an error
			if err := api.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
				t.Fatal(err)
			}
			if deadline, _ := translate.Deadline(&claim); claim.DeletionTimestamp == nil && !deadline.IsZero() {
				t.Errorf("write %d lost: the claim lives and has deadline %s", lost, deadline)
			}
		}
		deadline, err := translate.Deadline(&claim)
		if err != nil || claim.DeletionTimestamp == nil || !deadline.Equal(noon) {
			t.Errorf("write %d lost: the claim was deleted at %v, with deadline %v, %v", lost, claim.DeletionTimestamp, deadline, err)
		}
	}
}

func TestSnakeCase(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"Ready": "ready", "DiskPressure": "disk_pressure", "ACMEBroken": "acme_broken", "KernelReady2": "kernel_ready2", "": "",
	} {
		if got := snakeCase(words); got != want {
			t.Errorf("snakeCase(%q) = %q, want %q", words, got, want)
		}
	}
}
