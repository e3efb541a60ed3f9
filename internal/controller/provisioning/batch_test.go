package provisioning

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestBatchWindow has triggers come at certain times and wants the window to close at a
// certain time after the start. Time is synctest's: nothing waits.
func TestBatchWindow(t *testing.T) {
	t.Parallel()
	every := func(pause time.Duration, n int) (at []time.Duration) {
		for i := range n {
			at = append(at, time.Duration(i)*pause)
		}
		return at
	}
	for name, tc := range map[string]struct {
		at   []time.Duration
		same bool // every trigger has the same id
		want time.Duration
	}{
		"one trigger: the idle time later":             {at: every(0, 1), want: time.Second},
		"each new one keeps it open":                   {at: every(900*time.Millisecond, 4), want: 2700*time.Millisecond + time.Second},
		"but no longer than the longest time":          {at: every(500*time.Millisecond, 60), want: 10 * time.Second},
		"one that was seen already does not":           {at: every(900*time.Millisecond, 4), same: true, want: time.Second},
		"none at all: time to look at what is refused": {want: recheckEvery},
		"a late one opens it":                          {at: []time.Duration{3 * time.Second}, want: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBatch(time.Second, 10*time.Second)
				start := time.Now()
				for i, at := range tc.at {
					id := "pod"
					if !tc.same {
						id = fmt.Sprint(id, i)
					}
					time.AfterFunc(at, func() { b.trigger(id) })
				}
				if !b.wait(t.Context()) {
					t.Fatal("the context ended")
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("closed after %s, want %s", took, tc.want)
				}
			})
		})
	}
}

// TestBatchForgetsBetweenWindows: the same pod may ask again.
func TestBatchForgetsBetweenWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatch(time.Second, 10*time.Second)
		for range 2 {
			start := time.Now()
			b.trigger("pod")
			if !b.wait(t.Context()) || time.Since(start) != time.Second {
				t.Errorf("closed after %s", time.Since(start))
			}
		}
	})
}

func TestBatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBatch(time.Second, 10*time.Second)
		time.AfterFunc(500*time.Millisecond, cancel)
		b.trigger("pod")
		if b.wait(ctx) {
			t.Error("a window was reported after the context ended")
		}
	})
}
