// Package measure is how one solver is measured in a process of its own, and what that
// process reports. Both sides are measured by the same code.
package measure

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// Report is what a process says of the one scenario that it solved.
type Report struct {
	Cost
	Plan *scenario.Plan
	// Others are what consolidation would do at other prices of an eviction.
	Others []*scenario.Plan
	// FirstFitPrice is what first-fit-decreasing alone would have paid, in dollars per
	// hour; 0: not asked.
	FirstFitPrice float64
	// Pace is what parts of consolidation took; nil: not asked.
	Pace *Pace
	// Note says what a reader of the figures must know; empty: nothing.
	Note string
}

// Pace is what parts of consolidation took, in seconds of CPU time.
type Pace struct {
	// First is until the first nodes to go are known, Nothing until it is known that no more
	// are to; 0: it did not come to that.
	First, Nothing float64
}

// Cost is what solving took.
type Cost struct {
	// Runs is how often the same was solved. Seconds are the mean over all runs: CPU is
	// user time of all threads together.
	Runs                    int
	CPUSeconds, WallSeconds float64
	// Allocs and AllocBytes are those of the first run.
	Allocs, AllocBytes uint64
	// PeakBytes is the most memory that the process ever had, at the end of the first run;
	// StartBytes what it had at most before that run, with everything read and converted.
	PeakBytes, StartBytes int64
}

// Solves of less than this are repeated, because the system counts time in ticks.
const (
	cpuEnough = 500 * time.Millisecond
	runsMax   = 50
)

var once = flag.Bool("once", false, "solve once, and leave out what is only measured")

// Once reports whether only the answer is wanted.
func Once() bool { return *once }

// Repeat measures what prepare returns, with preparations made anew for each run and not
// counted.
func Repeat(prepare func() (solve func() error, err error)) (Cost, error) {
	var c Cost
	var cpu, wall time.Duration
	for c.Runs == 0 || !Once() && cpu < cpuEnough && c.Runs < runsMax {
		solve, err := prepare()
		if err != nil {
			return c, err
		}
		if c.Runs == 0 {
			if c.StartBytes, err = peakBytes(); err != nil {
				return c, err
			}
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		used, start := UserTime(), time.Now()
		if err := solve(); err != nil {
			return c, err
		}
		cpu, wall = cpu+UserTime()-used, wall+time.Since(start)
		if c.Runs == 0 {
			runtime.ReadMemStats(&after)
			c.Allocs, c.AllocBytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
			if c.PeakBytes, err = peakBytes(); err != nil {
				return c, err
			}
			// The kernel counts in batches, and may be behind.
			c.PeakBytes = max(c.PeakBytes, c.StartBytes)
		}
		c.Runs++
	}
	c.CPUSeconds, c.WallSeconds = cpu.Seconds()/float64(c.Runs), wall.Seconds()/float64(c.Runs)
	return c, nil
}

// UserTime returns what CPU time the process has used.
func UserTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano())
}

// peakBytes returns the high-water mark of the process's resident memory.
func peakBytes() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("peak memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("peak memory: /proc/self/status has no VmHWM")
}

// Main is the main function of a process that solves the scenario named by its only
// argument and prints the report as JSON.
func Main(solve func(*scenario.Scenario) (Report, error)) {
	flag.Parse()
	if err := run(flag.Args(), os.Stdout, solve); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[0], err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer, solve func(*scenario.Scenario) (Report, error)) error {
	if len(args) != 1 {
		return errors.New("give one scenario")
	}
	s, err := scenario.Read(args[0])
	if err != nil {
		return err
	}
	report, err := solve(s)
	if err != nil {
		return fmt.Errorf("solve %s: %w", s.Name, err)
	}
	return json.NewEncoder(out).Encode(report)
}
