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
	// broken counts the rules that its plans broke, by the judge.
	broken int
}

// weekRun plays the seven days with one solver. Every half hour the workload changes; then the
// solver places pods without a node, and then it consolidates. Its plans are carried out at once
// and as they are, by kube-scheduler, too: what breaks a rule as well, for which see breaks.
type weekRun struct {
	runner
	solver string
	plan   *generate.Week
	steps  int    // half hours
	path   string // where each scenario is written
	week
	// serial is the number of the next node.
	serial int
}

// hours is the length of a step.
const hours = 0.5

func (r *weekRun) run(ctx context.Context) (*week, error) {
	s := r.plan.Scenario("week-" + r.solver)
	for step := range r.steps {
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
	return r.place(s, a)
}

// place carries a plan of provisioning out.
func (r *weekRun) place(s *scenario.Scenario, a *side) (*scenario.Scenario, error) {
	if err := r.breaks("plan", a.judged.Violations); err != nil {
		return nil, err
	}
	next := *s
	next.Nodes, next.PodGroups = slices.Clone(s.Nodes), slices.Clone(s.PodGroups)
	for i := range next.Nodes {
		next.Nodes[i].Pods = slices.Clone(next.Nodes[i].Pods)
	}
	for _, e := range a.Plan.Existing {
		at := slices.IndexFunc(next.Nodes, func(n scenario.Node) bool { return n.Name == e.Node })
		if at < 0 {
			return nil, fmt.Errorf("the plan of %s puts pods on node %s, which there is not", r.solver, e.Node)
		}
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
	return r.move(s, a)
}

// move carries the steps of a consolidation out. Steps that a PodDisruptionBudget does not allow
// evict as they say: nothing else is known of what their solver would do instead.
func (r *weekRun) move(s *scenario.Scenario, a *side) (*scenario.Scenario, error) {
	if err := r.breaks("steps", a.steps.Violations); err != nil {
		return nil, err
	}
	r.evictions += a.steps.Evictions
	r.dollars += hours * a.steps.PricePerHour
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

// breaks counts the rules that an answer breaks. Dovetail's may break none; what the other solver
// does is what is measured, whether it should or not.
func (r *weekRun) breaks(what string, violations []string) error {
	if len(violations) == 0 {
		return nil
	}
	if r.solver == dovetail {
		return fmt.Errorf("the %s of %s break rules: %s", what, r.solver, strings.Join(violations, "; "))
	}
	r.broken += len(violations)
	fmt.Fprintf(r.progress, "    %-9s the %s break rules, and are carried out: %s\n", r.solver, what, strings.Join(violations, "; "))
	return nil
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
	a, err := silent.side(ctx, r.solver, read, r.path)
	if err == nil && a.cut {
		err = fmt.Errorf("%s has used more than %s of CPU for one decision", r.solver, r.limit)
	}
	return a, err
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
func writeWeek(b *strings.Builder, ours, theirs *week, steps int) {
	if ours == nil {
		return
	}
	fmt.Fprintf(b, "\n## A week\n\n%s of a mixed workload with topology spread and tight PodDisruptionBudgets on 15 to 20 nodes, spot where there is any. It rebuilds what a vendor\n"+
		"published in 2026 (`bench/generate/week.go` says what was published and what was not): $703 with Karpenter, $401 with the vendor's product. Every half hour\n"+
		"the workload changes, pods without a node are placed, and the nodes are consolidated until nothing more is found. Plans are carried out at once and as\n"+
		"they are, without the waits, the budgets and kube-scheduler's own choices that real clusters have: what is compared is the decisions. The bound is that\n"+
		"of all pods on fresh nodes at each half hour. Dollars are those of the catalog's prices. Broken rules are counted by the judge: a plan that breaks one\n"+
		"(evicts more pods at once than a PodDisruptionBudget allows, say) is carried out as it is. One of Dovetail's would end the benchmark.\n\n"+
		"| | $ | $ / bound | evictions | nodes launched | nodes, least to most | pods that waited | broken rules |\n|---|--:|--:|--:|--:|--:|--:|--:|\n", lasted(steps))
	for _, side := range []struct {
		name string
		*week
	}{{"Dovetail", ours}, {"Karpenter", theirs}} {
		fmt.Fprintf(b, "| %s | %.2f | %.3f | %d | %d | %d to %d | %d | %d |\n", side.name, side.dollars, side.dollars/ours.bound, side.evictions, side.launched, side.least, side.nodesMost, side.waited, side.broken)
	}
}

// lasted says of how much of the week so many half hours are.
func lasted(steps int) string {
	if steps == generate.WeekSteps {
		return "Seven days"
	}
	return fmt.Sprintf("The first %d half hours", steps)
}

// weeks plays the seven days, or their first half hours, with both solvers.
func weeks(ctx context.Context, r runner, dir string, s settings) (ours, theirs *week, err error) {
	play := func(solver string) (*week, error) {
		run := weekRun{runner: r, solver: solver, plan: generate.NewWeek(s.seed), steps: s.halfHours, path: filepath.Join(dir, "week.json.gz")}
		run.once = true
		return run.run(ctx)
	}
	if ours, err = play(dovetail); err != nil {
		return nil, nil, err
	}
	theirs, err = play(karpenter)
	return ours, theirs, err
}
