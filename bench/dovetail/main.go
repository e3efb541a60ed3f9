// Command dovetail solves one scenario with Dovetail's solver and reports plan and cost. A
// scenario with nodes and no pending pods it consolidates.
package main

import (
	"time"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

func main() { measure.Main(solve) }

func solve(s *scenario.Scenario) (measure.Report, error) {
	snap := s.Snapshot(time.Unix(0, 0))
	if s.Consolidates() {
		return measureSteps(s, snap)
	}
	// Scenarios are judged with the domains in which nodes could be launched.
	opts := pack.Options{BuyableBinds: true}
	var first *plan.Plan
	cost, err := measure.Repeat(func() (func() error, error) {
		return func() error {
			p := pack.Solve(snap, opts)
			if first == nil {
				first = &p
			}
			return nil
		}, nil
	})
	if err != nil {
		return measure.Report{}, err
	}
	report := measure.Report{Cost: cost}
	if report.Plan, err = scenario.Answer(s.Name, snap, first); err != nil {
		return measure.Report{}, err
	}
	if measure.Once() {
		return report, nil
	}
	// The bound is worked out to the last by itself: the controller does not take that time.
	opts.Prove = true
	proven := pack.Solve(snap, opts)
	if proven.BoundHourly > first.BoundHourly {
		report.Plan.LowerBoundPerHour = proven.BoundHourly
	}
	opts.FirstFitOnly = true
	firstFit := pack.Solve(snap, opts)
	report.FirstFitPrice = firstFit.PriceHourly()
	return report, nil
}

// Prices of an eviction that are tried besides the default, in dollars per hour.
const evictionLow, evictionHigh, evictionStep = 0.0002, 0.06, 1.25

func measureSteps(s *scenario.Scenario, snap *cluster.Snapshot) (measure.Report, error) {
	opts := consolidate.Options{Pack: pack.Options{BuyableBinds: true}}
	var first *consolidate.Result
	cost, err := measure.Repeat(func() (func() error, error) {
		return func() error {
			c := consolidate.Search(snap, opts)
			if first == nil {
				first = &c
			}
			return nil
		}, nil
	})
	if err != nil {
		return measure.Report{}, err
	}
	report := measure.Report{Cost: cost}
	if report.Plan, err = steps(s, snap, first); err != nil {
		return measure.Report{}, err
	}
	if measure.Once() {
		return report, nil
	}
	if report.Pace, err = pace(s, snap, opts); err != nil {
		return measure.Report{}, err
	}
	if len(s.Nodes) > othersMax {
		return report, nil
	}
	for opts.EvictionHourly = evictionLow; opts.EvictionHourly < evictionHigh; opts.EvictionHourly *= evictionStep {
		c := consolidate.Search(snap, opts)
		p, err := steps(s, snap, &c)
		if err != nil {
			return measure.Report{}, err
		}
		report.Others = append(report.Others, p)
	}
	return report, nil
}

const (
	// othersMax is up to how many nodes other prices of an eviction are tried: with more it takes
	// the judge long.
	othersMax = 2000
	// searchesMax is how often commands are searched for until none is found.
	searchesMax = 8
)

// pace measures how long it takes to find the first steps, which need no new node; and, when
// all steps have been taken and one pod has gone, that nothing is to be done.
func pace(s *scenario.Scenario, snap *cluster.Snapshot, opts consolidate.Options) (*measure.Pace, error) {
	cost := func(opts consolidate.Options) (float64, error) {
		c, err := measure.Repeat(func() (func() error, error) {
			return func() error {
				consolidate.Search(snap, opts)
				return nil
			}, nil
		})
		return c.CPUSeconds, err
	}
	drains := opts
	drains.DrainOnly = true
	first, err := cost(drains)
	if err != nil {
		return nil, err
	}
	for range searchesMax {
		c := consolidate.Search(snap, opts)
		if len(c.Steps) == 0 {
			break
		}
		p, err := steps(s, snap, &c)
		if err != nil {
			return nil, err
		}
		s = s.After(p)
		snap = s.Snapshot(time.Unix(0, 0))
	}
	if len(s.Nodes) == 0 || len(s.Nodes[0].Pods) == 0 {
		return &measure.Pace{First: first}, nil
	}
	changed := s.Nodes[0].Name
	s.Nodes[0].Pods[0][1]--
	snap = s.Snapshot(time.Unix(0, 0))
	opts.Changed = func(n *cluster.Node) bool { return n.Name == changed }
	nothing, err := cost(opts)
	return &measure.Pace{First: first, Nothing: nothing}, err
}

func steps(s *scenario.Scenario, snap *cluster.Snapshot, c *consolidate.Result) (*scenario.Plan, error) {
	p, err := scenario.Steps(s.Name, snap, c.Steps)
	if err != nil {
		return nil, err
	}
	p.PricePerHour, p.LowerBoundPerHour = c.AfterHourly, c.BoundHourly
	return p, nil
}
