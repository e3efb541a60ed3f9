package observe

import (
	"errors"
	"time"

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

// Reconcile records that a loop of ours begins to reconcile. The function that it returns records
// the end, with the error if there is one.
func (m *Metrics) Reconcile(controller string, now func() time.Time) (end func(error)) {
	r, start := &m.reconciles, now()
	r.atOnce.WithLabelValues(controller).Set(1)
	r.active.WithLabelValues(controller).Inc()
	failed := r.failed.WithLabelValues(controller)
	return func(err error) {
		r.active.WithLabelValues(controller).Dec()
		result := "success"
		if err != nil {
			result = "error"
			failed.Inc()
		}
		r.total.WithLabelValues(controller, result).Inc()
		r.seconds.WithLabelValues(controller).Observe(now().Sub(start).Seconds())
	}
}
