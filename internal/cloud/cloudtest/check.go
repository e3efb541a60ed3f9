package cloudtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Verdict is what became of one test.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "PASS"
	Failed  Verdict = "FAIL"
	Skipped Verdict = "SKIP"
)

// Result is the verdict of one test, and why.
type Result struct {
	Name    string   `json:"name"`
	Verdict Verdict  `json:"verdict"`
	Why     []string `json:"why,omitempty"`
}

// Check runs one test without the package testing: for a command.
func Check(ctx context.Context, name string, test func(t T)) Result {
	c := &checker{name: name}
	ctx, cancel := context.WithCancel(ctx)
	c.ctx = ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				c.Errorf("panic: %v", p)
			}
		}()
		test(c)
	}()
	<-done
	cancel() // as of a *testing.T, before what was to be cleaned up
	c.cleanUp()
	return c.result()
}

// checker is the T of Check.
type checker struct {
	name string
	ctx  context.Context //nolint:containedctx // T returns one, as *testing.T does

	mu       sync.Mutex
	failed   bool
	skipped  bool
	why      []string
	cleanups []func()
}

func (c *checker) result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Result{Name: c.name, Verdict: Passed, Why: c.why}
	switch {
	case c.failed:
		r.Verdict = Failed
	case c.skipped:
		r.Verdict = Skipped
	}
	return r
}

// cleanUp runs what Cleanup was given, the last first, each in a goroutine that it may end.
func (c *checker) cleanUp() {
	c.mu.Lock()
	cleanups := slices.Clone(c.cleanups)
	c.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
}

func (c *checker) note(failed bool, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || failed
	c.why = append(c.why, strings.TrimSpace(text))
}

// Helper has no meaning here.
func (c *checker) Helper() {}

// Name returns the test's name.
func (c *checker) Name() string { return c.name }

// Context returns the test's context.
func (c *checker) Context() context.Context { return c.ctx }

// Cleanup has f run after the test.
func (c *checker) Cleanup(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleanups = append(c.cleanups, f)
}

// Error fails the test.
func (c *checker) Error(args ...any) { c.note(true, fmt.Sprintln(args...)) }

// Errorf fails the test.
func (c *checker) Errorf(format string, args ...any) { c.note(true, fmt.Sprintf(format, args...)) }

// Fatal fails and ends the test.
func (c *checker) Fatal(args ...any) {
	c.Error(args...)
	runtime.Goexit()
}

// Fatalf fails and ends the test.
func (c *checker) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

// Skip ends the test without a verdict on the provider.
func (c *checker) Skip(args ...any) {
	c.note(false, fmt.Sprintln(args...))
	c.mu.Lock()
	c.skipped = true
	c.mu.Unlock()
	runtime.Goexit()
}
