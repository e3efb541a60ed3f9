package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// row is one scenario and what became of it.
type row struct {
	name        string
	pods, types int
	// consolidates says that the pods run on nodes, of which there are so many, at such a
	// price together.
	consolidates bool
	nodes        int
	before       float64
	dovetail     *side
	karpenter    *side // nil: not asked
}

// side is the answer of one solver, judged. Cut says that its time ran out.
type side struct {
	measure.Report
	judged scenario.Report
	steps  scenario.StepsReport   // of consolidation, instead of judged
	others []scenario.StepsReport // of measure.Report.Others
	cut    bool
	nodes  int
	refuse int // pods
}

// over returns the price as a multiple of another one; 0: one of them is not known.
func (s *side) over(price float64) float64 {
	if s == nil || s.cut || price == 0 {
		return 0
	}
	return s.Plan.PricePerHour / price
}

// The two solvers, by the names of their binaries.
const dovetail, karpenter = "dovetail", "karpenter"

// runner starts the processes.
type runner struct {
	bin      string        // where the two solvers are
	limit    time.Duration // of CPU time
	procs    int           // on so many processors at once
	progress io.Writer
	// once: the answer is wanted, and no figures.
	once bool
}

// againMost is up to how much CPU time of Karpenter's it solves a scenario once more.
const againMost = 30 * time.Second

func (r runner) row(ctx context.Context, c testCase) (row, error) {
	s, err := scenario.Read(c.path)
	if err != nil {
		return row{}, err
	}
	out := row{name: c.name, types: len(s.InstanceTypes)}
	for i := range s.PodGroups {
		out.pods += s.PodGroups[i].N
	}
	if out.consolidates = s.Consolidates(); out.consolidates {
		for i := range s.Nodes {
			for _, share := range s.Nodes[i].Pods {
				out.pods += share.Count()
			}
		}
		// What the judge says of doing nothing.
		nothing := scenario.CheckSteps(s, &scenario.Plan{Format: scenario.PlanFormat, Scenario: s.Name, Mode: "consolidate"})
		out.nodes, out.before = nothing.Nodes, nothing.PricePerHour
	}
	if out.dovetail, err = r.side(ctx, dovetail, s, c.path); err != nil {
		return row{}, err
	}
	if c.karpenter {
		out.karpenter, err = r.better(ctx, s, c.path)
	}
	return out, err
}

// better runs Karpenter on one processor and on all, and returns what took less CPU time: its
// one worker needs one, its garbage collector may gain by more.
func (r runner) better(ctx context.Context, s *scenario.Scenario, path string) (*side, error) {
	one, err := r.side(ctx, karpenter, s, path)
	if r.procs = runtime.NumCPU(); err != nil || r.procs == 1 || one.cut || one.CPUSeconds > againMost.Seconds() {
		return one, err
	}
	all, err := r.side(ctx, karpenter, s, path)
	if err != nil || all.cut || all.CPUSeconds >= one.CPUSeconds {
		return one, err
	}
	return all, nil
}

// side runs one solver on a scenario and judges its plan.
func (r runner) side(ctx context.Context, solver string, s *scenario.Scenario, path string) (*side, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, solver), path)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(r.procs))
	limit := r.limit
	if solver == karpenter && s.Consolidates() {
		// It ends by itself, after the command under way, with what it did by then.
		limit *= 4
		cmd.Args = []string{cmd.Path, "-stop", r.limit.String(), path}
	}
	if r.once {
		cmd.Args = slices.Insert(cmd.Args, 1, "-once")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cut, err := r.wait(cmd, limit, solver)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cut:
		fmt.Fprintf(r.progress, "    %-9s ended after %s of CPU\n", solver, r.limit)
		return &side{cut: true}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", solver, err, strings.TrimSpace(stderr.String()))
	}
	out := &side{}
	if err := json.Unmarshal(stdout.Bytes(), &out.Report); err != nil {
		return nil, fmt.Errorf("%s: read its report: %w", solver, err)
	}
	if s.Consolidates() {
		out.steps = scenario.CheckSteps(s, out.Plan)
		for _, p := range out.Others {
			out.others = append(out.others, scenario.CheckSteps(s, p))
		}
		fmt.Fprintf(r.progress, "    %-9s %9.2f $/h %9s of CPU, %d evictions, %d nodes, %d violations %s\n", solver,
			out.Plan.PricePerHour, seconds(out.CPUSeconds), out.steps.Evictions, out.steps.Nodes, len(out.steps.Violations), out.Note)
		return out, nil
	}
	out.judged, out.nodes = scenario.Check(s, out.Plan), len(out.Plan.NewNodes)
	for _, share := range out.Plan.Unschedulable {
		out.refuse += share.Count()
	}
	fmt.Fprintf(r.progress, "    %-9s %9.2f $/h %9s of CPU, %d nodes, %d refused, %d violations\n", solver,
		out.Plan.PricePerHour, seconds(out.CPUSeconds), out.nodes, out.refuse, len(out.judged.Violations))
	return out, nil
}

// wait runs the command, says now and then that it is still running, and ends it when
// it has used too much CPU time.
func (r runner) wait(cmd *exec.Cmd, limit time.Duration, solver string) (cut bool, err error) {
	const checkEvery, reportEvery = time.Second, 15
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for checks := 1; ; checks++ {
		select {
		case err := <-done:
			return cut, err
		case <-tick.C:
		}
		used := userTimeOf(cmd.Process.Pid)
		if used > limit && !cut {
			cut = true
			cmd.Process.Kill() //nolint:errcheck // it may just have ended
		}
		if checks%reportEvery == 0 {
			fmt.Fprintf(r.progress, "    %-9s has used %s of CPU, at most %s\n", solver, used, limit)
		}
	}
}

// userTimeOf returns the user time of a running process, or 0.
func userTimeOf(pid int) time.Duration {
	stat := content(fmt.Sprintf("/proc/%d/stat", pid))
	// The name, in parentheses, may have spaces in it; user time is the twelfth after it, in
	// ticks of 10 ms.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 12 {
		return 0
	}
	ticks, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
