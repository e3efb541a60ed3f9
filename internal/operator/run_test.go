package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// terminationMost is within what time SIGTERM has to end the process.
const terminationMost = 10 * time.Second

// TestWhatHangsDoesNotKeepTheProcess asks what never ends to end, and what ends in order.
func TestWhatHangsDoesNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		runs func(ctx context.Context, release <-chan struct{}) error
		want time.Duration
		err  error // nil: any
		ok   bool
	}{
		"what hangs is left":               {func(_ context.Context, release <-chan struct{}) error { <-release; return nil }, endPatience, nil, false},
		"what ends is waited for":          {func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); time.Sleep(time.Second); return nil }, time.Second, nil, true},
		"and its error is returned":        {func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return broken }, 0, broken, false},
		"what ends by itself is not asked": {func(context.Context, <-chan struct{}) error { return broken }, -time.Hour, broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := within(ctx, endPatience, func() error { return c.runs(ctx, release) })
				if took := time.Since(began) - time.Hour; took != c.want || took > terminationMost {
					t.Errorf("it took %s, want %s", took, c.want)
				}
				if (err == nil) != c.ok || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}
