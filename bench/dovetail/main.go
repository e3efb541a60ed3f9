// Command dovetail solves one scenario with Dovetail's solver and reports plan and cost.
package main

import (
	"time"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

func main() { measure.Main(solve) }

func solve(s *scenario.Scenario) (measure.Report, error) {
	snap := s.Snapshot(time.Unix(0, 0))
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
