package world

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "play this seed alone, with its journal")
	seeds = flag.Uint64("seeds", 12, "how many seeds to play")
	from  = flag.Uint64("from", 1, "the first of them")
	// Long are the runs of a soak.
	stormy = flag.Duration("stormy", 2*time.Hour, "how long faults rage")
	calm   = flag.Duration("calm", time.Hour, "how long the world then has to come to rest")
)

// TestSeed plays one seed, with everything that happens in the log.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -seed")
	}
	r := Run(*seed, Options{Stormy: *stormy, Calm: *calm, Journal: t.Output()})
	t.Logf("%+v", r)
	if r.Violation != "" {
		t.Error(r.Violation)
	}
}

// TestSeeds plays several seeds.
func TestSeeds(t *testing.T) {
	for s := *from; s < *from+*seeds; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			r := Run(s, Options{Stormy: *stormy, Calm: *calm})
			if r.Violation != "" {
				t.Errorf("%s\nrepeat: go test ./internal/world -run TestSeed -v -seed=%d -stormy=%s -calm=%s", r.Violation, s, *stormy, *calm)
			}
		})
	}
}

// TestOneSeedIsOneHistory: neither the order of maps nor the number of processors changes
// what happens.
func TestOneSeedIsOneHistory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for s := uint64(1); s <= 3; s++ {
		opts := Options{Stormy: time.Hour, Calm: 10 * time.Minute}
		runtime.GOMAXPROCS(1)
		first := Run(s, opts)
		runtime.GOMAXPROCS(2)
		for range 2 {
			if again := Run(s, opts); again.Hash != first.Hash {
				t.Errorf("seed %d: hash %x after %d events, then %x after %d", s, first.Hash, first.Events, again.Hash, again.Events)
			}
		}
	}
}
