package operator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestAControllerInAnotherNamespaceIsReportedOnce looks several times while leases come and go.
func TestAControllerInAnotherNamespaceIsReportedOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	lease := func(namespace, name, holder string, age time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-age))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: new(int32(15))},
		}
	}
	const name = "karpenter-leader-election"
	other := lease("karpenter", name, "karpenter-1", 5*time.Second)
	api := fake.NewClientBuilder().WithScheme(Scheme()).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithObjects(
			lease("kube-system", name, "karpenter-2", time.Second), // our own
			lease("karpenter", "other", "somebody", time.Second),
			lease("old", name, "gone", time.Minute), other).
		Build()
	var log strings.Builder
	handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	o := &others{api: api, lease: name, namespace: "kube-system", log: slog.New(handler)}
	o.check(t.Context(), now)
	o.check(t.Context(), now)
	if err := api.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	o.check(t.Context(), now)
	if err := api.Create(t.Context(), lease("karpenter", name, "karpenter-1", 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	o.check(t.Context(), now)
	line := `level=ERROR msg="another controller of Karpenter's API runs in this cluster: stop one of the two, or run both in one namespace" ` +
		`own_lease=kube-system/karpenter-leader-election error="karpenter-1 holds lease karpenter/karpenter-leader-election"` + "\n"
	if diff := cmp.Diff(line+line, log.String()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}
