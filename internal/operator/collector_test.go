package operator

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestPaceCollector is alone in its process: it changes how garbage is collected.
func TestPaceCollector(t *testing.T) {
	t.Setenv("GOGC", "") // not parallel
	usual := gcPercent()
	pace := paceCollector(8 << 30)
	if got := gcPercent(); got <= usual {
		t.Errorf("while the caches are filled the percentage is %d, no more than %d", got, usual)
	}
	before := gcPercent()
	ballast := make([]byte, 256<<20)
	testkit.Eventually(t, time.Minute, func() error {
		runtime.GC()
		if gcPercent() >= before {
			return errors.New("the pace does not follow the heap")
		}
		return nil
	})
	runtime.KeepAlive(ballast)
	before = gcPercent()
	pace.endAfterCycle()
	if got := gcPercent(); got != before {
		t.Errorf("before another cycle the percentage is %d, not %d", got, before)
	}
	awaitUsual := func() {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			runtime.GC()
			if got := gcPercent(); got != usual {
				return fmt.Errorf("afterwards the percentage is %d, not %d", got, usual)
			}
			return nil
		})
	}
	awaitUsual()
	pace.end()
	another := paceCollector(8 << 30)
	another.end()
	another.end()
	if got := gcPercent(); got != usual {
		t.Errorf("after an end at once it is %d, not %d", got, usual)
	}
	awaitUsual()
	t.Setenv("GOGC", "50")
	defer paceCollector(8 << 30).end()
	if got := gcPercent(); got != usual {
		t.Errorf("with GOGC it is changed to %d", got)
	}
}

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, tc := range []struct {
		heap, live uint64
		want       int
	}{{512 * mb, 0, 51_100}, {512 * mb, 128 * mb, 300}, {512 * mb, 256 * mb, 100}, {512 * mb, 400 * mb, 100}, {512 * mb, 600 * mb, 100}, {0, 4 * mb, 100}} {
		if got := percentFor(tc.heap, tc.live, 100); got != tc.want {
			t.Errorf("with %d of %d live: %d %%, not %d %%", tc.live, tc.heap, got, tc.want)
		}
	}
	for limit, want := range map[int64]uint64{0: startHeapUsual, -1: startHeapUsual, 256 * mb: 128 * mb, 8 << 30: startHeapMost} {
		if got := startHeap(limit); got != want {
			t.Errorf("with a limit of %d: %d, not %d", limit, got, want)
		}
	}
}
