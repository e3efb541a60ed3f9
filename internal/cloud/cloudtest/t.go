package cloudtest

import (
	"context"
	"fmt"
	"time"
)

// T is what a test needs of *testing.T, so that a command can run the tests, too. Fatal, Fatalf and
// Skip end the test's goroutine.
type T interface {
	Helper()
	Name() string
	// Context is that of the test; it is over when the test is, before what Cleanup was given runs.
	Context() context.Context
	Cleanup(f func())
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// pollEvery is the pause between two checks of eventually.
const pollEvery = 20 * time.Millisecond

// eventually repeats a check until it returns nil, and fails the test if that takes too long.
func eventually(t T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
			t.Fatal(fmt.Sprintf("not so after %s: %v", patience, err))
		case <-tick.C:
		}
	}
}
