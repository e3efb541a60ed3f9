package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

// TestReadInstalledWithoutDefinitions: the kinds whose definitions were just deleted have no objects, also while
// discovery still names them.
func TestReadInstalledWithoutDefinitions(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(operator.Scheme()).
		WithIndex(&corev1.ConfigMap{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}}).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kind, err := c.GroupVersionKindFor(list)
			if err != nil {
				return err
			}
			if strings.Contains(kind.Group, "karpenter") || strings.Contains(kind.Group, "cluster.x-k8s.io") {
				return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, "", "", 0, true)
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	in, err := ReadInstalled(t.Context(), c, Management{Client: c}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if left := in.Left(); len(left) > 0 {
		t.Errorf("Left() = %v, want none", left)
	}
}
