package podmetrics

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// TestAPodIsMeasuredOnce follows a pod from pending to running, with every event sent twice.
func TestAPodIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := noon
	m := observe.NewMetrics(prometheus.NewRegistry())
	l := &Loop{Metrics: m, Now: func() time.Time { return now }, waiting: map[types.UID]*wait{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", CreationTimestamp: metav1.NewTime(noon)}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	single := prometheus.NewPedanticRegistry()
	single.MustRegister(newGauges(l))
	at := func(after time.Duration, change func(), waits map[string]float64) {
		t.Helper()
		now = noon.Add(after)
		change()
		l.see(pod.DeepCopy())
		l.see(pod.DeepCopy())
		if diff := cmp.Diff(waits, shown(t, single)); diff != "" {
			t.Errorf("after %s single pods show (-want +got):\n%s", after, diff)
		}
	}
	at(0, func() {}, map[string]float64{"unbound": 0, "unstarted": 0})
	at(time.Second, func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}, map[string]float64{"unbound": 1, "unstarted": 1, "provisioning_unbound": 0, "provisioning_unstarted": 0, "provisioning_scheduling_undecided": 0})
	at(2*time.Second, func() {}, map[string]float64{
		"unbound": 2, "unstarted": 2, "provisioning_unbound": 1, "provisioning_unstarted": 1, "provisioning_scheduling_undecided": 1,
	})
	at(3*time.Second, m.SchedulerUnfinishedWork.Begin("test", l.Now), map[string]float64{
		"unbound": 3, "unstarted": 3, "provisioning_unbound": 2, "provisioning_unstarted": 2,
	})
	at(5*time.Second, func() {
		pod.Spec.NodeName = "n1"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	}, map[string]float64{"unstarted": 5, "provisioning_unstarted": 4})
	at(8*time.Second, func() {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)})
	}, map[string]float64{})
	for name, tc := range map[string]struct {
		metric  prometheus.Metric
		seconds float64
	}{
		"bound":               {m.PodsBoundDurationSeconds.WithLabelValues("true").(prometheus.Metric), 5},
		"bound since asked":   {m.PodsProvisioningBoundDurationSeconds.WithLabelValues("true").(prometheus.Metric), 4},
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

// shown returns the values of all metrics of single pods, without what their names share.
func shown(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(family.GetName(), "karpenter_pods_"), "_time_seconds")
		for _, m := range family.GetMetric() {
			got[name] = m.GetGauge().GetValue()
			if dynamic := m.GetLabel()[0]; strings.HasSuffix(name, "unbound") && (dynamic.GetName() != "dynamic_resources" || dynamic.GetValue() != "true") {
				t.Errorf("%s has no label dynamic_resources=true", name)
			}
		}
	}
	return got
}

func TestDocsNameTheMetricsOfSinglePods(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 10)
	newGauges(nil).Describe(descs)
	close(descs)
	for desc := range descs {
		_, name, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		labels := "name, namespace"
		if strings.HasSuffix(name, "unbound_time_seconds") {
			labels += ", dynamic_resources"
		}
		if row := "| `" + name + "` | gauge, object | " + labels + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/reference/metrics.md has no row that starts with\n\t%s", row)
		}
	}
}
