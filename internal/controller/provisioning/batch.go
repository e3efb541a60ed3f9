package provisioning

import (
	"context"
	"sync"
	"time"
)

// recheckEvery is how often pods that are still pending are looked at again when nothing
// happened.
const recheckEvery = 10 * time.Second

// batch gathers what happens close together, so that one plan answers all of it.
type batch struct {
	idle, longest time.Duration

	mu   sync.Mutex
	seen map[string]bool // guarded by mu; since the last window
	news chan struct{}
}

func newBatch(idle, longest time.Duration) *batch {
	return &batch{idle: idle, longest: longest, seen: map[string]bool{}, news: make(chan struct{}, 1)}
}

// trigger opens a window or keeps it open. What was seen in this window already does neither.
func (b *batch) trigger(id string) {
	b.mu.Lock()
	known := b.seen[id]
	b.seen[id] = true
	b.mu.Unlock()
	if known {
		return
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// wait returns when a window closes: nothing new for the idle time, or the longest time
// since its first trigger; or when it is time to look again anyway. False: ctx ended.
func (b *batch) wait(ctx context.Context) bool {
	recheck := time.NewTimer(recheckEvery)
	defer recheck.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-recheck.C:
		return true
	case <-b.news:
	}
	longest, idle := time.NewTimer(b.longest), time.NewTimer(b.idle)
	defer longest.Stop()
	defer idle.Stop()
	defer b.forget()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-longest.C:
			return true
		case <-idle.C:
			return true
		case <-b.news:
			idle.Reset(b.idle)
		}
	}
}

func (b *batch) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.seen)
}
