package loop

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAnIdleQueueSleeps checks that no ticker of a queue's clock wakes the process more often
// than every ten seconds, and that its other times are the real ones.
func TestAnIdleQueueSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := func(c clock.WithTicker, period time.Duration) int {
			ticker := c.NewTicker(period)
			defer ticker.Stop()
			end, n := time.After(time.Minute+time.Nanosecond), 0
			for {
				select {
				case <-ticker.C():
					n++
				case <-end:
					return n
				}
			}
		}
		if n := ticks(clock.RealClock{}, 500*time.Millisecond); n != 120 {
			t.Fatalf("the real clock ticks %d times in a minute", n)
		}
		if n := ticks(slowTicker{}, 500*time.Millisecond); n != 6 {
			t.Errorf("the clock of a queue ticks %d times in a minute", n)
		}
		if n := ticks(slowTicker{}, 30*time.Second); n != 2 {
			t.Errorf("a ticker of 30 s ticks %d times in a minute", n)
		}
	})
}

// TestAQueueKeepsItsTimes has an object come back after an error and after a pause: neither waits
// for a tick.
func TestAQueueKeepsItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue("times", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute))
		defer q.ShutDown()
		var request reconcile.Request
		start := time.Now()
		q.AddRateLimited(request)
		q.Get()
		q.Done(request)
		if after := time.Since(start); after != 100*time.Millisecond {
			t.Errorf("a request after an error came back after %v", after)
		}
		start = time.Now()
		q.AddAfter(request, 3*time.Second)
		q.Get()
		q.Done(request)
		if after := time.Since(start); after != 3*time.Second {
			t.Errorf("a request with a pause came back after %v", after)
		}
	})
}

// TestAQueueHasMetrics checks that the queue is in the registry of controller-runtime, as
// Karpenter's are.
func TestAQueueHasMetrics(t *testing.T) {
	q := NewQueue("counted", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	q.Add(reconcile.Request{})
	q.AddRateLimited(reconcile.Request{})
	families, err := crmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "controller" && l.GetValue() == "counted" {
					found[f.GetName()] = true
				}
			}
		}
	}
	for _, name := range []string{
		"workqueue_depth", "workqueue_adds_total", "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds",
		"workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds", "workqueue_retries_total",
	} {
		if !found[name] {
			t.Errorf("the queue has no metric %s", name)
		}
	}
}
