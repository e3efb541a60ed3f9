// Package loop has the two forms of the controllers' loops: Run searches again and again, at
// times of the loop's own choosing, and Controller reconciles the objects of one kind when they
// change. The packages beside it are the loops. It imports nothing of the project. Read loop.go,
// then controller.go.
package loop

import (
	"context"
	"time"
)

// Reconciler is a loop that can be driven from outside, one iteration at a time.
type Reconciler interface {
	// Reconcile runs one iteration. It wants the next after the pause; zero: at the next event.
	Reconcile(ctx context.Context) (pause time.Duration)
}

// Triggered is a Reconciler that is also triggered by events.
type Triggered interface {
	Reconciler
	// Triggers returns the channel that receives a value when an event has come.
	Triggers() <-chan struct{}
}

// Run reconciles at once, then after each pause that reconcile asks for and at each event, until the
// context ends. Events may be nil.
func Run(ctx context.Context, reconcile func(context.Context) time.Duration, events <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-events:
		}
		if pause := reconcile(ctx); pause > 0 {
			timer.Reset(pause)
		}
	}
}
