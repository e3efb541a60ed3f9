package operator

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// startHeapUsual is how large the heap may grow before garbage is collected while the caches are filled, where no limit
	// on memory is known.
	startHeapUsual = 512 << 20
	// startHeapMost is the same with a limit: until the caches of 5,000 nodes are filled there are four collections, not nine.
	startHeapMost = 1280 << 20
)

// startHeap returns how large the heap may grow while the caches are filled, with a limit on memory; 0 or less: there
// is none.
func startHeap(limit int64) uint64 {
	if limit > 0 {
		return min(startHeapMost, uint64(limit)/2)
	}
	return startHeapUsual
}

// paceCollector has garbage collected seldom, when the heap has that many bytes, until one of end and endAfterCycle is
// called. What is read to fill the caches is garbage at once, and little of the heap stays: collecting it as often as
// later costs a third of the time. Who has set GOGC is obeyed.
func paceCollector(heap uint64) *collectorPace {
	p := &collectorPace{heap: heap}
	if os.Getenv("GOGC") != "" {
		p.ended = true
		return p
	}
	p.usual = debug.SetGCPercent(100)
	p.adjust()
	p.await()
	return p
}

// collectorPace adjusts the collector after each cycle.
type collectorPace struct {
	heap  uint64
	usual int

	mu sync.Mutex
	// ends says that the pace ends with the next cycle, ended that it has. Both are guarded by mu.
	ends, ended bool
}

// await has the pace adjusted after the next cycle, and so on.
func (p *collectorPace) await() {
	runtime.AddCleanup(new([16]byte), func(p *collectorPace) {
		if p.adjust() {
			p.await()
		}
	}, p)
}

// adjust has the next cycle begin when the heap has grown to what it may; it reports whether that goes on.
func (p *collectorPace) adjust() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends && !p.ended {
		p.stop()
	}
	if p.ended {
		return false
	}
	debug.SetGCPercent(percentFor(p.heap, liveHeap(), p.usual))
	return true
}

// endAfterCycle has garbage collected as usual after the next cycle. The runtime begins one after two minutes if the
// heap does not grow until then. So what comes right after the caches are filled needs no cycle of its own.
func (p *collectorPace) endAfterCycle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = true
}

// end has garbage collected as usual at once.
func (p *collectorPace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.stop()
	}
}

// stop is called with the lock held.
func (p *collectorPace) stop() {
	p.ended = true
	debug.SetGCPercent(p.usual)
}

// percentFor returns by how much the heap may grow beyond what is live, in percent, until it has so many bytes.
func percentFor(heap, live uint64, usual int) int {
	live = max(live, 1<<20)
	if heap <= live {
		return usual
	}
	return max(usual, int((heap-live)*100/live))
}

// liveHeap returns how many bytes the last cycle left.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
