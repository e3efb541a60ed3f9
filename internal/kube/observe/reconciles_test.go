package observe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers the metrics of controllers
)

// TestLoopsAreShownAmongControllers: in the very metrics of controller-runtime, which has them
// registered before us.
func TestLoopsAreShownAmongControllers(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	const controller = "of.this.test"
	now := noon
	clock := func() time.Time { return now }
	m := &Metrics{reconciles: newReconciles(metrics.Registry)}
	for _, err := range []error{nil, errors.New("conflict")} {
		end := m.Reconcile(controller, clock)
		now = now.Add(3 * time.Second)
		end(err)
	}
	m.Reconcile(controller, clock) // does not end
	want := map[string]float64{
		"reconcile_total success": 1, "reconcile_total error": 1, "reconcile_errors_total": 1,
		"reconcile_time_seconds": 6, "active_workers": 1, "max_concurrent_reconciles": 1,
	}
	if diff := cmp.Diff(want, reconcilesOf(t, metrics.Registry, controller)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// reconcilesOf returns what the metrics of controllers say of one of them.
func reconcilesOf(t *testing.T, from prometheus.Gatherer, controller string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "controller_runtime_"
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := m.GetLabel()
			key, isOne := strings.CutPrefix(family.GetName(), prefix)
			if !isOne || len(labels) == 0 || labels[0].GetValue() != controller {
				continue
			}
			if len(labels) > 1 {
				key += " " + labels[1].GetValue()
			}
			got[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return got
}
