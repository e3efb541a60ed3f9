package loop_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

// TestStaleObjects: an object that is not what the API server has is looked at again ever more
// seldom, be it that a write or that a read shows it, until all is well.
func TestStaleObjects(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", nil)
	var onGet, onDo error
	c := &loop.Controller[*corev1.Node]{
		Client: interceptor.NewClient(
			fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).Build(),
			interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if onGet != nil {
					return onGet
				}
				return c.Get(ctx, key, obj, opts...)
			}}),
		Do: func(context.Context, *corev1.Node) (reconcile.Result, error) { return reconcile.Result{}, onDo },
	}
	pauses := func(times int) (pauses []time.Duration) {
		for range times {
			result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
			if err != nil {
				t.Fatal(err)
			}
			pauses = append(pauses, result.RequeueAfter)
		}
		return pauses
	}
	s := time.Second
	onDo = conflict
	if got, want := pauses(7), []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}; !slices.Equal(got, want) {
		t.Errorf("writes that conflict: pauses %v, want %v", got, want)
	}
	onDo = nil
	if got, want := pauses(1), []time.Duration{0}; !slices.Equal(got, want) {
		t.Errorf("a write that succeeds: pauses %v, want %v", got, want)
	}
	onGet = conflict
	if got, want := pauses(2), []time.Duration{s, 2 * s}; !slices.Equal(got, want) {
		t.Errorf("reads that conflict: pauses %v, want %v", got, want)
	}
}
