package termination

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestPodsThatAreEndingAreWaitedFor was found by the world (seeds 3046 and 104388): with our
// clock 90 seconds ahead of the API server's, pods that had just been evicted counted as
// stuck, and the instance was ended under them, with their volumes.
func TestPodsThatAreEndingAreWaitedFor(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ended time.Duration // when the pod is to have ended, after the Node was deleted
		ahead time.Duration // how far our clock is
		waits time.Duration // how long the pod is waited for once it was seen
	}{
		"clocks agree":               {5 * time.Second, 5 * time.Second, time.Minute},
		"ours is ahead":              {5 * time.Second, 95 * time.Second, time.Minute},
		"ours is behind":             {5 * time.Second, -55 * time.Second, 2 * time.Minute},
		"it was stuck before":        {-2 * time.Minute, 0, 0},
		"it was stuck, we are ahead": {-2 * time.Minute, 90 * time.Second, 0},
	} {
		deleted, end := metav1.NewTime(began), metav1.NewTime(began.Add(c.ended))
		finalizers := []string{karpenterv1.TerminationFinalizer}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", DeletionTimestamp: &deleted, Finalizers: finalizers, Labels: map[string]string{"karpenter.test/class": "x"}},
			Spec:       corev1.NodeSpec{ProviderID: "test://1"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		claim := &karpenterv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "c1", DeletionTimestamp: &deleted, Finalizers: finalizers},
			Status:     karpenterv1.NodeClaimStatus{ProviderID: "test://1"},
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID("a"), DeletionTimestamp: &end, Finalizers: []string{"test/holds"}},
			Spec:       corev1.PodSpec{NodeName: "n1"},
		}
		now := began.Add(c.ahead)
		instances := &ending{}
		loop := &Controller{
			Client: fakeapi.New(t, node, claim, pod).Build(), Cloud: instances, Now: func() time.Time { return now },
			Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		}
		loop.Events = observe.NewRecorder(record.NewFakeRecorder(100), loop.Now)
		loop.evictor = apply.NewEvictor(loop.Client, loop.Now, loop.reportEviction)
		var waited time.Duration
		for first := now; now.Sub(first) < 8*time.Minute; now = now.Add(time.Second) {
			if _, err := loop.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}); err != nil {
				t.Fatal(err)
			}
			if instances.asked == 0 {
				waited = now.Sub(first)
			}
		}
		if waited < c.waits || waited > c.waits+20*time.Second {
			t.Errorf("%s: the instance was ended after %s, want %s and a little", name, waited, c.waits)
		}
		if len(loop.endings.since) > 0 {
			t.Errorf("%s: the Node is gone, its pods are remembered", name)
		}
	}
}
