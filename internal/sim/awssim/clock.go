package awssim

import (
	"context"
	"sync"
	"time"
)

// Clock is the time a Sim lives in.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or when ctx ends. Latency and long polls use it.
	Sleep(ctx context.Context, d time.Duration)
}

// systemClock is the computer's own.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() } //nolint:forbidigo // this is the clock that is handed in

func (systemClock) Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Manual is a clock that stands still until it is moved. Nobody waits on it: a sleep
// returns at once.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a clock that stands at now.
func NewManual(now time.Time) *Manual { return &Manual{now: now} }

// Now returns where the clock stands.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock on.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// Sleep returns at once.
func (m *Manual) Sleep(context.Context, time.Duration) {}
