package loop

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queueTick is the shortest time between two looks of a queue at the clock while it has nothing
// to do. The metrics workqueue_unfinished_work_seconds and
// workqueue_longest_running_processor_seconds are up to this old, which is less than the usual
// time between two scrapes.
const queueTick = 10 * time.Second

// NewQueue makes the queue of a controller, for controller.Options. It is client-go's with the
// metrics of all queues. The default queue of controller-runtime wakes the process every half
// second for each controller, which was about half of what an idle process took, and offers no
// way to change that.
func NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name, Clock: slowTicker{},
	})
}

// slowTicker is the real clock, whose tickers tick every queueTick at most.
type slowTicker struct{ clock.RealClock }

// NewTicker returns a ticker.
func (c slowTicker) NewTicker(d time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(max(d, queueTick))
}
