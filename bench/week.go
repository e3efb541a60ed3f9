package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/bench/generate"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// week is what one solver makes of seven days: dollars, and what they bought.
type week struct {
	dollars, bound   float64
	evictions        int
	launched         int
	nodesMost, least int
	waited           int // pods that got no node for half an hour, once for each half hour
}

// weekRun plays the seven days with one solver. Every half hour the workload changes; then the
// solver places pods without a node, and then it consolidates. Its plans are carried out at once
// and as they are, by kube-scheduler, too.
type weekRun struct {
	runner
	solver string
	plan   *generate.Week
	path   string // where each scenario is written
	week
	// serial is the number of the next node.
	serial int
}

// hours is the length of a step.
const hours = 0.5

func (r *weekRun) run(ctx context.Context) (*week, error) {
	s := r.plan.Scenario("week-" + r.solver)
	for step := range generate.WeekSteps {
		r.change(s, step)
		for _, act := range []func(context.Context, *scenario.Scenario) (*scenario.Scenario, error){r.provision, r.consolidate} {
			next, err := act(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("half hour %d: %w", step, err)
			}
			s = next
		}
		r.nodesMost = max(r.nodesMost, len(s.Nodes))
		if r.least == 0 || len(s.Nodes) < r.least {
			r.least = len(s.Nodes)
		}
		if step%48 == 47 {
			fmt.Fprintf(r.progress, "    %-9s day %d: %.2f $, %d nodes, %d launched, %d evictions\n", r.solver, step/48+1, r.dollars, len(s.Nodes), r.launched, r.evictions)
		}
	}
	return &r.week, nil
}

// change brings the workload to a step. All pods of a workload whose requests change are made
// anew. A workload with fewer pods loses those on the nodes with most of them.
func (r *weekRun) change(s *scenario.Scenario, step int) {
	want, groups := r.plan.Pods(step)
	for g := range groups {
		asks := groups[g]
		if old := &s.PodGroups[g]; old.CPU != asks.CPU || old.Mem != asks.Mem {
			for n := range s.Nodes {
				take(&s.Nodes[n], g, len(s.Nodes[n].Pods)+want[g]+1<<20)
			}
		}
		running := 0
		for n := range s.Nodes {
			running += countOf(&s.Nodes[n], g)
		}
		for ; running > want[g]; running-- {
			fullest := 0
			for n := range s.Nodes {
				if countOf(&s.Nodes[n], g) > countOf(&s.Nodes[fullest], g) {
					fullest = n
				}
			}
			take(&s.Nodes[fullest], g, 1)
		}
		asks.N = want[g] - running
		s.PodGroups[g] = asks
	}
}

// provision has the solver find a node for each pod without one.
func (r *weekRun) provision(ctx context.Context, s *scenario.Scenario) (*scenario.Scenario, error) {
	if !slices.ContainsFunc(s.PodGroups, func(g scenario.PodGroup) bool { return g.N > 0 }) {
		return s, nil
	}
	a, err := r.ask(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(a.judged.Violations) > 0 {
		return nil, fmt.Errorf("the plan of %s breaks rules: %s", r.solver, strings.Join(a.judged.Violations, "; "))
	}
	next := *s
	next.Nodes, next.PodGroups = slices.Clone(s.Nodes), slices.Clone(s.PodGroups)
	for i := range next.Nodes {
		next.Nodes[i].Pods = slices.Clone(next.Nodes[i].Pods)
	}
	for _, e := range a.Plan.Existing {
		at := slices.IndexFunc(next.Nodes, func(n scenario.Node) bool { return n.Name == e.Node })
		for _, share := range e.Pods {
			take(&next.Nodes[at], share.Group(), -share.Count())
		}
	}
	for _, n := range a.Plan.NewNodes {
		r.serial++
		r.launched++
		next.Nodes = append(next.Nodes, scenario.Node{
			Name: fmt.Sprintf("node-%05d", r.serial), Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType, Pool: n.Pool, Pods: n.Pods,
		})
	}
	for g := range next.PodGroups {
		next.PodGroups[g].N = 0
	}
	for _, share := range a.Plan.Unschedulable {
		r.waited += share.Count() // they are tried again with the next half hour's
	}
	return &next, nil
}

// consolidate has the solver make the nodes cheaper, and pays for half an hour.
func (r *weekRun) consolidate(ctx context.Context, s *scenario.Scenario) (*scenario.Scenario, error) {
	if len(s.Nodes) == 0 {
		return s, nil
	}
	a, err := r.ask(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(a.steps.Violations) > 0 {
		return nil, fmt.Errorf("the steps of %s break rules: %s", r.solver, strings.Join(a.steps.Violations, "; "))
	}
	r.evictions += a.steps.Evictions
	r.dollars += hours * a.Plan.PricePerHour
	r.bound += hours * a.Plan.LowerBoundPerHour
	next := s.After(a.Plan)
	for i := range a.Plan.Steps {
		r.launched += len(a.Plan.Steps[i].Launch)
	}
	for i := range next.Nodes {
		if n := &next.Nodes[i]; strings.HasPrefix(n.Name, "was-") {
			r.serial++
			n.Name = fmt.Sprintf("node-%05d", r.serial)
		}
	}
	return next, nil
}

func (r *weekRun) ask(ctx context.Context, s *scenario.Scenario) (*side, error) {
	if err := generate.WriteScenario(r.path, s); err != nil {
		return nil, err
	}
	// What is read back has the catalog's types.
	read, err := scenario.Read(r.path)
	if err != nil {
		return nil, err
	}
	silent := r.runner
	silent.progress = io.Discard
	return silent.side(ctx, r.solver, read, r.path)
}

// countOf returns how many pods of a group a node has.
func countOf(n *scenario.Node, g int) int {
	for _, share := range n.Pods {
		if share.Group() == g {
			return share.Count()
		}
	}
	return 0
}

// take takes up to so many pods of a group from a node; a negative number adds pods.
func take(n *scenario.Node, g, count int) {
	left := max(0, countOf(n, g)-count)
	n.Pods = slices.DeleteFunc(n.Pods, func(s scenario.Share) bool { return s.Group() == g })
	if left > 0 {
		n.Pods = append(n.Pods, scenario.Share{g, left})
	}
}

// weekName is the name by which the week is asked for.
const weekName = "week-mixed"

// writeWeek shows what both made of the seven days.
func writeWeek(b *strings.Builder, ours, theirs *week) {
	if ours == nil {
		return
	}
	b.WriteString("\n## A week\n\nSeven days of a mixed workload with topology spread and tight PodDisruptionBudgets on 15 to 20 nodes, spot where there is any. It rebuilds what a vendor\n" +
		"published in 2026 (`bench/generate/week.go` says what was published and what was not): $703 with Karpenter, $401 with the vendor's product. Every half hour\n" +
		"the workload changes, pods without a node are placed, and the nodes are consolidated until nothing more is found. Plans are carried out at once and as\n" +
		"they are, without the waits, the budgets and kube-scheduler's own choices that real clusters have: what is compared is the decisions. The bound is that\n" +
		"of all pods on fresh nodes at each half hour. Dollars are those of the catalog's prices.\n\n" +
		"| | $ | $ / bound | evictions | nodes launched | nodes, least to most | pods that waited |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, side := range []struct {
		name string
		*week
	}{{"Dovetail", ours}, {"Karpenter", theirs}} {
		fmt.Fprintf(b, "| %s | %.2f | %.3f | %d | %d | %d to %d | %d |\n", side.name, side.dollars, side.dollars/ours.bound, side.evictions, side.launched, side.least, side.nodesMost, side.waited)
	}
}

// weeks plays the seven days with both solvers.
func weeks(ctx context.Context, r runner, dir string, seed uint64) (ours, theirs *week, err error) {
	play := func(solver string) (*week, error) {
		run := weekRun{runner: r, solver: solver, plan: generate.NewWeek(seed), path: filepath.Join(dir, "week.json.gz")}
		run.once = true
		return run.run(ctx)
	}
	if ours, err = play(dovetail); err != nil {
		return nil, nil, err
	}
	theirs, err = play(karpenter)
	return ours, theirs, err
}
