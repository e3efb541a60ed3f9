package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	fixedSeeds = 330
	lanes      = 16
	// bareMost is how many scenarios are judged without nominations too, for comparison.
	bareMost = 50
	// shrunkMost is how many failing scenarios are made smaller: it takes long.
	shrunkMost = 2
	// fidelityLeast is the share of pods, in percent, that must be bound as planned when
	// they are nominated.
	fidelityLeast = 99
	// failedDir has scenarios that failed once and must hold.
	failedDir = "testdata/failed"
)

// allKinds are those of constraints that there are.
func allKinds() []kind {
	return slices.Concat(nodeKinds, volumeKinds, stateKinds, topologyKinds, daemonKinds, preferenceKinds, lastKinds)
}

// enabled are the kinds of constraints that scenarios have.
func enabled(t *testing.T) []kind {
	every := allKinds()
	kinds := every
	if names := os.Getenv("ORACLE_KINDS"); names != "" {
		kinds = nil
		for name := range strings.SplitSeq(names, ",") {
			i := slices.IndexFunc(every, func(k kind) bool { return k.name == name })
			if i < 0 {
				t.Fatalf("ORACLE_KINDS: no kind is called %q", name)
			}
			kinds = append(kinds, every[i])
		}
	}
	return kinds
}

// blockSize is how many kinds the scenarios have that together have all pairs.
const blockSize = 4

// covering returns blocks of numbers below n in which every pair occurs.
func covering(n int) (blocks [][]int) {
	missing := map[[2]int]bool{}
	for i := range n {
		for j := range i {
			missing[[2]int{j, i}] = true
		}
	}
	gain := func(block []int, k int) (g int) {
		for _, other := range block {
			if missing[[2]int{min(k, other), max(k, other)}] {
				g++
			}
		}
		return g
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			if !missing[[2]int{i, j}] {
				continue
			}
			block := []int{i, j}
			for len(block) < min(blockSize, n) {
				best, most := -1, -1
				for k := range n {
					if g := gain(block, k); !slices.Contains(block, k) && g > most {
						best, most = k, g
					}
				}
				block = append(block, best)
			}
			slices.Sort(block)
			for a := range block {
				for b := a + 1; b < len(block); b++ {
					delete(missing, [2]int{block[a], block[b]})
				}
			}
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// ofSeed returns the scenario of a seed: the first seeds have all pairs of kinds, the
// others two to four of them at random.
func ofSeed(seed uint64, kinds []kind) *scenario {
	blocks := covering(len(kinds))
	var chosen []kind
	if seed < uint64(len(blocks)) {
		for _, k := range blocks[seed] {
			chosen = append(chosen, kinds[k])
		}
		return generate(seed, chosen)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	some := rng.Perm(len(kinds))[:min(len(kinds), 2+rng.IntN(3))]
	slices.Sort(some)
	for _, k := range some {
		chosen = append(chosen, kinds[k])
	}
	return generate(seed, chosen)
}

// TestEveryPairOfKindsIsCovered counts which kinds of constraints meet in a scenario of
// the fixed seeds.
func TestEveryPairOfKindsIsCovered(t *testing.T) {
	t.Parallel()
	kinds := allKinds()
	pairs, triples := map[string]bool{}, map[string]bool{}
	for seed := range uint64(fixedSeeds) {
		has := ofSeed(seed, kinds).Kinds
		slices.Sort(has)
		for a := range has {
			for b := a + 1; b < len(has); b++ {
				pairs[has[a]+" "+has[b]] = true
				for c := b + 1; c < len(has); c++ {
					triples[has[a]+" "+has[b]+" "+has[c]] = true
				}
			}
		}
	}
	n := len(kinds)
	t.Logf("%d kinds of constraints: %d of %d pairs, %d of %d triples", n, len(pairs), n*(n-1)/2, len(triples), n*(n-1)*(n-2)/6)
	for _, a := range kinds {
		for _, b := range kinds {
			if a.name < b.name && !pairs[a.name+" "+b.name] {
				t.Errorf("no scenario has %s and %s", a.name, b.name)
			}
		}
	}
}

// scenarios returns those to judge: what the environment asks for, or the kept ones and
// the fixed seeds.
func scenarios(t *testing.T) (all []*scenario) {
	if path := os.Getenv("ORACLE_FILE"); path != "" {
		return []*scenario{mustRead(t, path)}
	}
	kinds := enabled(t)
	if text := os.Getenv("ORACLE_SEED"); text != "" {
		return []*scenario{ofSeed(number(t, "ORACLE_SEED", text), kinds)}
	}
	first, n := uint64(0), uint64(fixedSeeds)
	if text := os.Getenv("ORACLE_SEEDS"); text != "" {
		first, n = uint64(time.Now().UnixNano()), number(t, "ORACLE_SEEDS", text)
		t.Logf("fresh seeds from %d", first)
	}
	all = readAll(t, failedDir)
	for seed := first; seed < first+n; seed++ {
		all = append(all, ofSeed(seed, kinds))
	}
	return all
}

// readAll returns the scenarios kept in a directory, by name of file.
func readAll(t *testing.T, dir string) (all []*scenario) {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		all = append(all, mustRead(t, path))
	}
	return all
}

func mustRead(t *testing.T, path string) *scenario {
	t.Helper()
	s, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(t *testing.T, name, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// counts sums up outcomes.
type counts struct {
	mu                                            sync.Mutex
	scenarios, placed, asPlanned, pending, failed int // guarded by mu
	refused, later, shrunk                        int // guarded by mu
}

// add counts an outcome and reports whether its scenario shall be made smaller.
func (y *counts) add(o *outcome) (shrink bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.scenarios++
	y.placed += o.placed
	y.asPlanned += o.asPlanned
	y.pending += o.pending
	y.refused += o.refused
	y.later += o.later
	if len(o.failures) == 0 {
		return false
	}
	y.failed++
	y.shrunk++
	return y.shrunk <= shrunkMost
}

func (y *counts) fidelity() float64 { return 100 * float64(y.asPlanned) / float64(max(1, y.placed)) }

// TestPlansHoldBeforeTheScheduler judges many scenarios with nominations, then some of them
// without, and prints what share of the pods went where they were planned.
func TestPlansHoldBeforeTheScheduler(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	w, err := newWorld(t.Context(), cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	all := scenarios(t)
	began := time.Now()
	var nominated, bare counts
	each(t, w, all, func(l *lane, s *scenario) {
		o, err := l.judge(t.Context(), s, manner{nominations: true, idle: idleLong})
		if err != nil {
			t.Errorf("seed %d %v: %v", s.Seed, s.Kinds, err)
			return
		}
		if shrink := nominated.add(&o); len(o.failures) > 0 {
			report(t, l, s, o.failures, shrink)
		}
	})
	if len(all) > bareMost {
		all = all[len(all)-bareMost:]
	}
	each(t, w, all, func(l *lane, s *scenario) {
		o, err := l.judge(t.Context(), s, manner{idle: idleLong})
		if err != nil {
			t.Errorf("seed %d %v, without nominations: %v", s.Seed, s.Kinds, err)
			return
		}
		_ = bare.add(&o)
	})
	if nominated.placed > 1000 && nominated.fidelity() < fidelityLeast {
		t.Errorf("%.1f %% of the pods are where they were planned, at least %d %% should be", nominated.fidelity(), fidelityLeast)
	}
	fmt.Printf("oracle: %d scenarios in %s: %d failed; %d pods placed, %d refused (%d of them placed once claims were answered); as planned with nominations %.1f %% of %d, without %.1f %% of %d (%d Pending)\n",
		nominated.scenarios, time.Since(began).Round(time.Second), nominated.failed, nominated.placed, nominated.refused, nominated.later,
		nominated.fidelity(), nominated.placed, bare.fidelity(), bare.placed, bare.pending)
}

// each has the lanes work through the scenarios.
func each(t *testing.T, w *world, all []*scenario, do func(*lane, *scenario)) {
	t.Helper()
	work := make(chan *scenario)
	var group sync.WaitGroup
	for range min(lanes, len(all)) {
		group.Go(func() {
			l, err := w.newLane(t.Context(), int(w.runs.Add(1)))
			if err != nil {
				t.Errorf("make a lane: %v", err)
				for range work { // let the others end
				}
				return
			}
			for s := range work {
				do(l, s)
			}
		})
	}
	for _, s := range all {
		work <- s
	}
	close(work)
	group.Wait()
}

// report keeps a scenario that failed, as small as it can be, and prints what happened.
func report(t *testing.T, l *lane, s *scenario, failures []string, shrink bool) {
	if shrink {
		s, failures = smallest(t.Context(), s, failures, func(ctx context.Context, s *scenario) []string {
			o, err := l.judge(ctx, s, manner{nominations: true, idle: idleShort})
			if err != nil {
				return nil
			}
			return o.failures
		})
	}
	path := fmt.Sprintf("%s/%d.yaml", failedDir, s.Seed)
	text, err := yaml.Marshal(s)
	if err == nil {
		err = os.MkdirAll(failedDir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Errorf("keep %s: %v", path, err)
	}
	t.Errorf("seed %d %v:\n  %s\n  again: ORACLE_FILE=%s go test -v ./test/oracle", s.Seed, s.Kinds, strings.Join(failures, "\n  "), path)
}
