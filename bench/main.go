// Command bench solves the same scenarios with Dovetail and with published Karpenter,
// each solve in a process of its own, one after the other, has every plan judged by
// internal/decision/scenario, and writes what came out side by side as docs/performance.md.
//
// Read cases.go (what is solved), run.go (one process), report.go (the page). Beside it
// are the two solvers (dovetail, karpenter), which measure themselves with measure, and
// generate, which makes the scenarios that are not files.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/dovetail-sh/dovetail/bench/generate"
)

// settings are what the command line says.
type settings struct {
	quick     bool
	scenarios string
	out       string
	only      *regexp.Regexp
	limit     time.Duration
	seed      uint64
	write     string
	halfHours int // of the week
}

// limitDefault bounds one process: Karpenter would take an hour for some scenarios.
const limitDefault = 10 * time.Minute

func main() {
	var s settings
	only := ""
	flag.BoolVar(&s.quick, "quick", false, "a few minutes: leave out what takes Karpenter long")
	flag.StringVar(&s.scenarios, "scenarios", "../internal/decision/simulate/testdata", "directory of the public scenarios")
	flag.StringVar(&s.out, "out", "../docs/performance.md", "page to write; - for standard output")
	flag.StringVar(&only, "only", "", "solve only scenarios whose name matches the regular expression")
	flag.DurationVar(&s.limit, "limit", limitDefault, "end a process that has used so much CPU time, and say so")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the generated scenarios")
	flag.StringVar(&s.write, "write", "", "write the generated scenarios to this directory, and do nothing else")
	flag.IntVar(&s.halfHours, "half-hours", generate.WeekSteps, "play only so many half hours of the week")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(only); err == nil && (s.halfHours < 1 || s.halfHours > generate.WeekSteps) {
		err = fmt.Errorf("-half-hours is %d, must be 1 to %d", s.halfHours, generate.WeekSteps)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = bench(ctx, s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s\n", err)
		os.Exit(1) //nolint:gocritic // there is nothing left to stop
	}
}

func bench(ctx context.Context, s settings) error {
	if s.write != "" {
		cases, err := gather(s, s.write)
		for _, c := range cases {
			if filepath.Dir(c.path) == filepath.Clean(s.write) {
				fmt.Println(c.path)
			}
		}
		return err
	}
	dir, err := os.MkdirTemp("", "dovetail-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the temporary directory
	cases, err := gather(s, dir)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	start := time.Now()
	r := runner{bin: filepath.Dir(self), limit: s.limit, procs: 1, progress: os.Stderr}
	var rows []row
	for i, c := range cases {
		fmt.Fprintf(os.Stderr, "[%d/%d] %s\n", i+1, len(cases), c.name)
		row, err := r.row(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, row)
	}
	var ours, theirs *week
	if s.only.MatchString(weekName) && !s.quick {
		fmt.Fprintf(os.Stderr, "%s\n", weekName)
		if ours, theirs, err = weeks(ctx, r, dir, s); err != nil {
			return fmt.Errorf("%s: %w", weekName, err)
		}
	}
	page, err := report(results{rows, ours, theirs}, s, r.bin, start)
	if err != nil {
		return err
	}
	if s.out == "-" {
		_, err = os.Stdout.WriteString(page)
		return err
	}
	if err := os.WriteFile(s.out, []byte(page), 0o644); err != nil { //nolint:gosec // a page to be read
		return err
	}
	fmt.Fprintf(os.Stderr, "%d scenarios in %s; see %s\n", len(rows), time.Since(start).Round(time.Second), s.out)
	return nil
}
