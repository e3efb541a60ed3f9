package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Work shows how long the decision that is being made has taken so far: a decision that
// hangs is not seen in the durations of those that ended. It is a prometheus.Collector,
// and safe for concurrent use.
type Work struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	started map[string]time.Time // guarded by mu; by controller, zero while it rests
	ended   time.Time            // guarded by mu; start of the last one that ended
	now     func() time.Time     // guarded by mu
}

func newWork() *Work {
	return &Work{started: map[string]time.Time{}, desc: prometheus.NewDesc(namespace+"_scheduler_unfinished_work_seconds",
		"How long the decision that is being made has taken so far; 0: none is.", []string{"controller", "scheduling_id"}, nil)}
}

// Begin records that a controller starts to decide. The function that it returns records the end.
func (w *Work) Begin(controller string, now func() time.Time) (end func()) {
	start := now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[controller], w.now = start, now
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.started[controller], w.ended = time.Time{}, start
	}
}

// LastEnded returns when the last decision that ended had begun; zero: none has ended.
func (w *Work) LastEnded() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// Describe sends the description.
func (w *Work) Describe(ch chan<- *prometheus.Desc) { ch <- w.desc }

// Collect sends how long each controller has been deciding.
func (w *Work) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for controller, start := range w.started {
		seconds := 0.0
		if !start.IsZero() {
			seconds = w.now().Sub(start).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, seconds, controller, "")
	}
}
