package aws

import (
	"context"
	"time"
)

// turnstile lets one in at a time. Unlike at a mutex, who waits can give up, so that one
// slow answer of AWS holds nobody for longer than its own patience.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

// enter waits until nobody else is in.
func (t turnstile) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave lets the next one in.
func (t turnstile) leave() { <-t }

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
