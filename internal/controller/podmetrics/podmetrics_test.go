package podmetrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/observe"
)

// TestAPodIsMeasuredOnce follows a pod from pending to running, with every event told twice.
func TestAPodIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := noon
	m := observe.NewMetrics(prometheus.NewRegistry())
	l := &Loop{Metrics: m, Now: func() time.Time { return now }, waiting: map[types.UID]*wait{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", CreationTimestamp: metav1.NewTime(noon)}}
	at := func(after time.Duration, change func()) {
		now = noon.Add(after)
		change()
		l.see(pod.DeepCopy())
		l.see(pod.DeepCopy())
	}
	at(time.Second, func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	})
	at(5*time.Second, func() {
		pod.Spec.NodeName = "n1"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	})
	at(8*time.Second, func() {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)})
	})
	for name, tc := range map[string]struct {
		metric  prometheus.Metric
		seconds float64
	}{
		"bound":               {m.PodsBoundDurationSeconds, 5},
		"bound since asked":   {m.PodsProvisioningBoundDurationSeconds, 4},
		"running":             {m.PodsStartupDurationSeconds, 8},
		"running since asked": {m.PodsProvisioningStartupDurationSeconds, 7},
	} {
		var out dto.Metric
		if err := tc.metric.Write(&out); err != nil {
			t.Fatal(err)
		}
		count, sum := out.GetHistogram().GetSampleCount(), out.GetHistogram().GetSampleSum()
		if out.Summary != nil {
			count, sum = out.GetSummary().GetSampleCount(), out.GetSummary().GetSampleSum()
		}
		if count != 1 || sum != tc.seconds {
			t.Errorf("%s: %d pods, %v s; want one, %v s", name, count, sum, tc.seconds)
		}
	}
	if len(l.waiting) != 0 {
		t.Errorf("%d pods are still waited for", len(l.waiting))
	}
}
