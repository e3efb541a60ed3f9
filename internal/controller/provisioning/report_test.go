package provisioning

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// TestPriceAndBoundAreOfTheLastPlanWithLaunches: a decision without launches leaves them.
func TestPriceAndBoundAreOfTheLastPlanWithLaunches(t *testing.T) {
	t.Parallel()
	l := &Loop{Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	value := func(g prometheus.Gauge) float64 {
		var m dto.Metric
		if err := g.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetGauge().GetValue()
	}
	for _, p := range []plan.Plan{
		{Launches: []plan.Launch{{PriceHourly: 7}}, BoundHourly: 6},
		{Launches: []plan.Launch{{PriceHourly: 1}, {PriceHourly: 0.5}}, BoundHourly: 1.25},
		{},
	} {
		l.report(&cluster.Snapshot{}, &p, nil, time.Millisecond)
	}
	if price, bound := value(l.Metrics.PlanPriceHourlyDollars), value(l.Metrics.PlanBoundHourlyDollars); price != 1.5 || bound != 1.25 {
		t.Errorf("price %v, bound %v, want 1.5 and 1.25", price, bound)
	}
}
