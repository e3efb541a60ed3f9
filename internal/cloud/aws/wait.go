package aws

import (
	"context"
	"time"
)

// turnstile is a lock whose waiters give up when their context ends, so that a slow answer of AWS
// holds up no caller for longer than it wants to wait.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

// enter waits until the lock is free and takes it.
func (t turnstile) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave frees the lock.
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
