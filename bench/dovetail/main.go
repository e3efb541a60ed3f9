// Command dovetail solves one scenario with Dovetail's solver and reports plan and cost. A
// scenario with nodes and no pending pods it consolidates.
package main

import (
	"time"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

func main() { measure.Main(solve) }

func solve(s *scenario.Scenario) (measure.Report, error) {
	snap := s.Snapshot(time.Unix(0, 0))
	if s.Consolidates() {
		return consolidate(s, snap)
	}
	// Scenarios are judged with the domains in which machines could be bought.
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
	opts.FirstFitOnly = true
	firstFit := pack.Solve(snap, opts)
	report.FirstFitPrice = firstFit.PriceHourly()
	return report, nil
}

func consolidate(s *scenario.Scenario, snap *cluster.Snapshot) (measure.Report, error) {
	var first *disrupt.Consolidation
	cost, err := measure.Repeat(func() (func() error, error) {
		return func() error {
			c := disrupt.Consolidate(snap, disrupt.ConsolidateOptions{Pack: pack.Options{BuyableBinds: true}})
			if first == nil {
				first = &c
			}
			return nil
		}, nil
	})
	if err != nil {
		return measure.Report{}, err
	}
	p, err := scenario.Steps(s.Name, snap, first.Steps)
	if err != nil {
		return measure.Report{}, err
	}
	p.PricePerHour, p.LowerBoundPerHour = first.AfterHourly, first.BoundHourly
	return measure.Report{Cost: cost, Plan: p}, nil
}
