package provisioning

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

// window returns when the batch's next window closes, driven as the loop drives it.
func window(t *testing.T, b *batch) time.Duration {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = loop.Run(ctx, func(context.Context) time.Duration {
		left := b.left()
		if left <= 0 {
			b.next()
			cancel()
		}
		return left
	}, b.triggers)
	return time.Since(start)
}

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
				b := newBatch(time.Second, 10*time.Second, time.Now)
				for i, at := range tc.at {
					id := "pod"
					if !tc.same {
						id = fmt.Sprint(id, i)
					}
					time.AfterFunc(at, func() { b.trigger(id) })
				}
				if took := window(t, b); took != tc.want {
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
		b := newBatch(time.Second, 10*time.Second, time.Now)
		for range 2 {
			b.trigger("pod")
			if took := window(t, b); took != time.Second {
				t.Errorf("closed after %s", took)
			}
		}
	})
}
