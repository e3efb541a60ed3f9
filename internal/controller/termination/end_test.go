package termination

import (
	"context"
	"log/slog"
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
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// ending is a cloud whose instances are gone when they have been asked to go once.
type ending struct {
	classless
	asked int
}

// Terminate takes note.
func (e *ending) Terminate(context.Context, string) error {
	if e.asked++; e.asked > 1 {
		return cloud.ErrNotFound
	}
	return nil
}

// TestTheEndOfANodeIsCounted: dashboards made for Karpenter show each drain and each end once.
func TestTheEndOfANodeIsCounted(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	finalizers := []string{karpenterv1.TerminationFinalizer}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", CreationTimestamp: metav1.NewTime(began.Add(-time.Hour)), DeletionTimestamp: &began, Finalizers: finalizers,
			Labels: map[string]string{"karpenter.test/class": "x", karpenterv1.NodePoolLabelKey: "p", corev1.LabelTopologyZone: "z"},
		},
		Spec:   corev1.NodeSpec{ProviderID: "test://1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", DeletionTimestamp: &began, Finalizers: finalizers},
		Status:     karpenterv1.NodeClaimStatus{ProviderID: "test://1"},
	}
	now := began.Time
	metrics := prometheus.NewRegistry()
	c := &Controller{
		Client: fakeapi.New(t, node, claim).Build(), Cloud: &ending{}, Now: func() time.Time { return now },
		Metrics: observe.NewMetrics(metrics), Log: slog.New(slog.DiscardHandler),
	}
	c.Events = observe.NewRecorder(record.NewFakeRecorder(20), c.Now)
	c.evictor = apply.NewEvictor(c.Client, c.Now, c.reportEviction)
	for range 10 {
		if _, err := c.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(5 * time.Second)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	for _, o := range []apply.EvictionOutcome{
		{Result: apply.Evicted, Code: 200}, {Result: apply.Evicted, Code: 200}, {Result: apply.Gone, Code: 404}, {Result: apply.Held}, {Result: apply.Forced},
	} {
		o.Pod, o.Node, o.Reason, o.Object = cluster.PodRef{Namespace: "ns", Name: "a", UID: "u"}, "n1", "Drifted", pod
		c.reportEviction(t.Context(), o)
	}
	want := map[string]float64{
		"nodes_drained_total{p}":                1,
		"nodes_terminated_total{p z}":           1,
		"nodes_termination_duration_seconds{p}": 10,
		"nodes_lifetime_duration_seconds{p}":    3610,
		"pods_eviction_requests_total{200}":     2,
		"pods_eviction_requests_total{404}":     1,
		"pods_drained_total{Drifted}":           2,
	}
	if diff := cmp.Diff(want, testkit.Gathered(t, metrics, "karpenter_")); diff != "" {
		t.Errorf("what is counted (-want +got):\n%s", diff)
	}
}
