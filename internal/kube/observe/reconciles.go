package observe

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// reconciles are controller-runtime's metrics of controllers. Loops of ours that are no controllers
// of controller-runtime are shown in them too, under Karpenter's names.
type reconciles struct {
	total, failed  *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	active, atOnce *prometheus.GaugeVec
}

// newReconciles returns the metrics that controller-runtime has registered, or registers the same.
func newReconciles(reg prometheus.Registerer) reconciles {
	controller := []string{"controller"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return shared(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "controller_runtime_" + name, Help: help}, controller))
	}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "controller_runtime_" + name, Help: help}, labels))
	}
	// The helps are controller-runtime's: the registry takes two for the same only if they are equal.
	return reconciles{
		total:  counter("reconcile_total", "Total number of reconciliations per controller", []string{"controller", "result"}),
		failed: counter("reconcile_errors_total", "Total number of reconciliation errors per controller", controller),
		seconds: shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "Length of time per reconciliation per controller", Buckets: durationBuckets(),
		}, controller)),
		active: gauge("active_workers", "Number of currently used workers per controller"),
		atOnce: gauge("max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller"),
	}
}

// shared registers a collector and returns it, or the one that is registered under its name.
func shared[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// durationBuckets are 45 thresholds from 5 ms to 10 min: fine where a person waits,
// coarse above.
func durationBuckets() []float64 {
	return []float64{
		0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8,
		1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9,
		10, 12.5, 15, 20, 25, 30, 40, 50, 60, 90, 120, 180, 240, 300, 450, 600,
	}
}
