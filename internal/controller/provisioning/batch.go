package provisioning

import (
	"sync"
	"time"
)

// recheckEvery is how often pods that are still pending are looked at again when nothing
// happened.
const recheckEvery = 10 * time.Second

// batch gathers what happens close together, so that one plan answers all of it.
type batch struct {
	idle, longest time.Duration
	now           func() time.Time
	triggers      chan struct{}

	mu   sync.Mutex      // protects everything below
	seen map[string]bool // since the last window
	// opened is when the window's first trigger came, zero while none has; last when its last.
	opened, last time.Time
	// closed is when the last window closed.
	closed time.Time
}

func newBatch(idle, longest time.Duration, now func() time.Time) *batch {
	return &batch{idle: idle, longest: longest, now: now, triggers: make(chan struct{}, 1), seen: map[string]bool{}, closed: now()}
}

// trigger opens a window or keeps it open. What was seen in this window already does neither.
func (b *batch) trigger(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[id] {
		return
	}
	b.seen[id] = true
	b.last = b.now()
	if b.opened.IsZero() {
		b.opened = b.last
		select {
		case b.triggers <- struct{}{}:
		default:
		}
	}
}

// left returns how long it takes until the window may close: nothing new for the idle
// time, or the longest time since its first trigger; or until it is time to look again
// anyway. Zero or less: now.
func (b *batch) left() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := b.closed.Add(recheckEvery)
	if !b.opened.IsZero() {
		due = b.last.Add(b.idle)
		if most := b.opened.Add(b.longest); most.Before(due) {
			due = most
		}
	}
	return due.Sub(b.now())
}

// next closes the window, and returns when it was opened. What comes from now on is for the next.
func (b *batch) next() (opened time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.seen)
	opened, b.closed = b.opened, b.now()
	if opened.IsZero() {
		opened = b.closed
	}
	b.opened = time.Time{}
	return opened
}
