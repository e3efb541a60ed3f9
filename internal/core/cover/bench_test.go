package cover

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkScenarios solves every scenario with the effort that suits its size and prints
// one table: what a packing costs, what it must cost at least, and the processor time of
// the best of three runs, and of a single pass.
func BenchmarkScenarios(b *testing.B) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush() //nolint:errcheck // it goes to a person
	fmt.Fprintln(w, "scenario\titems\tclasses\tbins opened\tprice $/h\tbound $/h\tratio\tcpu ms\tallocs\tone pass\tcpu ms\t")
	for _, path := range scenarios(b) {
		p := readProblem(b, path)
		items := 0
		for _, c := range p.Classes {
			items += c.Count
		}
		s, took, allocs := measured(p, Default(items))
		one, tookOne, _ := measured(p, Effort{})
		opened := 0
		for _, pat := range s.Patterns {
			opened += pat.Times
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.3f\t%.3f\t%.4f\t%.2f\t%d\t%.4f\t%.2f\t\n", strings.TrimSuffix(filepath.Base(path), ".json.gz"), items, len(p.Classes),
			opened, s.Price, s.Bound, s.Price/s.Bound, took.Seconds()*1000, allocs, one.Price/one.Bound, tookOne.Seconds()*1000)
	}
}

// measured solves the problem three times on one processor and returns the answer, the
// least processor time, and how often memory was taken.
func measured(p *Problem, e Effort) (s Solution, took time.Duration, allocs uint64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for i := range 3 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := processorTime()
		s = Solve(p, e)
		if t := processorTime() - start; i == 0 || t < took {
			took = t
		}
		runtime.ReadMemStats(&after)
		allocs = after.Mallocs - before.Mallocs
	}
	return s, took, allocs
}

// processorTime returns what the process has used so far.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
