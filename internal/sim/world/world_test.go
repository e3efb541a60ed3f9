package world

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	seed      = flag.Uint64("seed", 0, "play this seed alone, with its journal in the log")
	shrink    = flag.Bool("shrink", false, "with -seed: look for less that fails in the same way")
	without   = flag.String("without", "", "faults that do not happen, comma separated")
	with      = flag.String("with", "", "things that there are for sure which seeds draw in some worlds, comma separated")
	decisions = flag.String("decisions", "", "with -seed: a directory for the product's journal, for dovetail replay")
	seeds     = flag.Uint64("seeds", 4, "how many seeds to play")
	from      = flag.Uint64("from", 1, "the first of them")
	stormy    = flag.Duration("stormy", 40*time.Minute, "how long faults rage")
	calm      = flag.Duration("calm", restIn, "how long the world then has to come to rest; less than 90 minutes: it need not")
	nodes     = flag.Int("nodes", 6, "about how many nodes the load needs; 0: the seed decides")
	ordinary  = flag.Bool("ordinary", false, "every fault, as seldom as on a bad day of a real cluster, and a load that follows the hour")
)

// heapMost bounds the heap of worlds that are played side by side.
const heapMost = 1 << 30

// TestMain has garbage collected less often: a world is small and makes much of it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(heapMost)
	os.Exit(m.Run())
}

func options() Options {
	o := Options{Stormy: *stormy, Calm: *calm, Nodes: *nodes, Ordinary: *ordinary}
	for f := range strings.SplitSeq(*without, ",") {
		o.Without = append(o.Without, Fault(f))
	}
	for f := range strings.SplitSeq(*with, ",") {
		o.With = append(o.With, Fault(f))
	}
	return o
}

// command returns what repeats a run.
func command(seed uint64, o *Options) string {
	return fmt.Sprintf("go test ./internal/sim/world -run 'TestSeed$' -v -args -seed=%d -stormy=%s -calm=%s -nodes=%d -ordinary=%v -with=%s -without=%s",
		seed, o.Stormy, o.Calm, o.Nodes, o.Ordinary, listOf(o.With), listOf(o.Without))
}

func listOf(faults []Fault) string {
	var names []string
	for _, f := range faults {
		if f != "" {
			names = append(names, string(f))
		}
	}
	return strings.Join(names, ",")
}

// TestSeed plays one seed, with everything that happens in the log.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -seed")
	}
	o := options()
	if *shrink {
		var r Result
		o, r = Shrink(*seed, o)
		t.Logf("after %d events: %s\n%s", r.Events, r.Violation, command(*seed, &o))
	}
	o.Journal, o.Decisions = t.Output(), *decisions
	r := Run(*seed, o)
	t.Logf("%+v", r)
	if r.Violation != "" {
		t.Errorf("after %d events: %s", r.Events, r.Violation)
	}
}

// seedsShort is how many seeds TestSeeds plays at most with -short.
const seedsShort = 2

// TestSeeds plays several seeds.
func TestSeeds(t *testing.T) {
	t.Parallel()
	n := *seeds
	if testing.Short() {
		n = min(n, seedsShort)
	}
	for s := *from; s < *from+n; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			play(t, s, options())
		})
	}
}

func play(t *testing.T, seed uint64, o Options) {
	t.Helper()
	r := Run(seed, o)
	t.Logf("%s of a cluster, %.1f node hours, %d events: %v", r.Lasted, r.NodeHours, r.Events, r.Stats)
	if r.Violation != "" {
		t.Errorf("after %d events: %s\n%s\n-shrink looks for less that fails in the same way", r.Events, r.Violation, command(seed, &o))
	}
}

// TestWhatOnceFailed plays the seeds of testdata/failed.txt.
func TestWhatOnceFailed(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	file, err := os.Open("testdata/failed.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		s, o, err := readFailed(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if testkit.Raced { // races show early; the whole is played without the detector
			o.Stormy = min(o.Stormy, racedStorm)
		}
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			play(t, s, o)
		})
	}
}

// readFailed reads a line of failed.txt. Of what only some worlds have, there is what the line names.
func readFailed(line string) (seed uint64, o Options, err error) {
	var storm, rest string
	if _, err := fmt.Sscan(line, &seed, &storm, &rest); err != nil {
		return 0, o, err
	}
	if o.Stormy, err = time.ParseDuration(storm); err != nil {
		return 0, o, err
	}
	if o.Calm, err = time.ParseDuration(rest); err != nil {
		return 0, o, err
	}
	for _, f := range []Fault{StaticPools, Buffers, Gangs, Reboots, LateIDs, LateFailures, StuckLaunches, LateNotices} {
		if slices.Contains(strings.Fields(line), string(f)) {
			o.With = append(o.With, f)
		} else {
			o.Without = append(o.Without, f)
		}
	}
	return seed, o, nil
}

// racedStorm is how long storms of kept seeds last at most under the race detector.
const racedStorm = 20 * time.Minute

// TestOneSeedIsOneHistory: neither the order of maps nor the number of processors changes
// what happens.
func TestOneSeedIsOneHistory(t *testing.T) { //nolint:paralleltest // it changes GOMAXPROCS
	had := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(had)
	o := Options{Stormy: 30 * time.Minute}
	for s := *from; s < *from+2; s++ {
		runtime.GOMAXPROCS(1)
		first := Run(s, o)
		runtime.GOMAXPROCS(2)
		if again := Run(s, o); again.Hash != first.Hash {
			t.Errorf("seed %d: hash %x after %d events, then %x after %d", s, first.Hash, first.Events, again.Hash, again.Events)
		}
	}
}
