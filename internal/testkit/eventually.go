package testkit

import (
	"context"
	"testing"
	"time"
)

// pollEvery is how often Eventually looks.
const pollEvery = 50 * time.Millisecond

// Eventually calls check until it returns nil, at least once and at short intervals. The
// test ends with check's last error when within has passed or the test's context is over.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not so after %s: %v", within, err)
		case <-tick.C:
		}
	}
}
