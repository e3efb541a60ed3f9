package world

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// handling is how long an item waits for a worker.
const handling = 2 * time.Millisecond

// queue is a work queue whose items are worked on by events of the world.
type queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T] // of which nothing else is used
	p                                       *process
	limiter                                 workqueue.TypedRateLimiter[T]
	work                                    func(item T)
	ready                                   map[T]bool      // and an event will work on it
	waiting                                 map[T]time.Time // until then
	now                                     T               // what Get returns
}

func newQueue[T comparable](p *process, limiter workqueue.TypedRateLimiter[T]) *queue[T] {
	return &queue[T]{p: p, limiter: limiter, ready: map[T]bool{}, waiting: map[T]time.Time{}}
}

// Add has an item worked on soon.
func (q *queue[T]) Add(item T) {
	if q.ready[item] || q.p.dead {
		return
	}
	q.ready[item] = true
	q.p.after(q.p.w.between(0, handling), func() { q.turn(item) })
}

func (q *queue[T]) turn(item T) {
	if !q.p.running {
		q.p.after(50*time.Millisecond, func() { q.turn(item) })
		return
	}
	delete(q.ready, item)
	q.now = item
	q.p.act(func() { q.work(item) })
}

// AddAfter has an item worked on after a pause.
func (q *queue[T]) AddAfter(item T, pause time.Duration) {
	if m := q.p.w.opts.Mutant; m != nil && m.Pause != nil {
		pause = m.Pause(pause)
	}
	if pause <= 0 {
		q.Add(item)
		return
	}
	at := q.p.w.at.Add(pause)
	if had, ok := q.waiting[item]; ok && !had.After(at) {
		return
	}
	q.waiting[item] = at
	q.p.after(pause, func() {
		if !q.waiting[item].Equal(at) {
			return
		}
		delete(q.waiting, item)
		q.Add(item)
	})
}

// AddRateLimited has an item worked on after a pause that grows.
func (q *queue[T]) AddRateLimited(item T) { q.AddAfter(item, q.limiter.When(item)) }

// Forget ends the growth of an item's pause.
func (q *queue[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues returns how often an item has been put back.
func (q *queue[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }

// Get returns the item whose turn it is.
func (q *queue[T]) Get() (item T, shutdown bool) { return q.now, false }

// Done does nothing: who works is done before the next begins.
func (q *queue[T]) Done(T) {}

// Len returns how many items wait for a worker.
func (q *queue[T]) Len() int { return len(q.ready) }

// ShutDown does nothing: the process is dead.
func (q *queue[T]) ShutDown() {}

// ShutDownWithDrain does nothing either.
func (q *queue[T]) ShutDownWithDrain() {}

// ShuttingDown reports whether the process is dead.
func (q *queue[T]) ShuttingDown() bool { return q.p.dead }
