package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// stop returns how much CPU time consolidation may take before it is cut off.
func stop() *time.Duration {
	return flag.Duration("stop", 100*time.Second, "end consolidation after so much CPU time, with what was done by then")
}

// consolidate repeats Karpenter's emptiness, multi-node and single-node methods, as its
// controller does, until none finds anything or the time is up.
func consolidate(ctx context.Context, c *converted, limit time.Duration) (measure.Report, error) {
	out := &scenario.Plan{Format: scenario.PlanFormat, Scenario: c.scenario.Name, Mode: "consolidate"}
	report := measure.Report{Plan: out, Pace: &measure.Pace{}}
	var err error
	report.Cost, err = measure.Repeat(func() (func() error, error) {
		w, err := newWorld(ctx, c)
		if err != nil {
			return nil, err
		}
		return func() error {
			out.Steps, report.Note, *report.Pace = nil, "", measure.Pace{}
			end := limit // since the start of the process, so that it need not be ended
			// Within one command time is wall clock time, of which there is more.
			limited, cancel := context.WithTimeout(ctx, 3*limit)
			defer cancel()
			for {
				began := measure.UserTime()
				step, err := w.next(limited)
				if err != nil {
					return err
				}
				took := (measure.UserTime() - began).Seconds()
				if step == nil {
					report.Pace.Nothing = took
					break
				}
				if len(out.Steps) == 0 {
					report.Pace.First = took
				}
				out.Steps = append(out.Steps, *step)
				if measure.UserTime() > end || limited.Err() != nil {
					report.Note = fmt.Sprintf("cut off after %s", limit)
					break
				}
			}
			out.PricePerHour = 0
			for _, price := range w.price {
				out.PricePerHour += price
			}
			return nil
		}, nil
	})
	return report, err
}

// next carries out the first command that a method finds; nil: there is none.
func (w *world) next(ctx context.Context) (*scenario.Step, error) {
	for _, m := range w.methods {
		candidates, err := disruption.GetCandidates(ctx, w.cluster, w.kube, w.recorder, w.clock, w.cloud, m.ShouldDisrupt, m.Class(), w.queue)
		if err != nil {
			return nil, fmt.Errorf("find candidates: %w", err)
		}
		if len(candidates) == 0 {
			continue
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, w.cluster, w.clock, w.kube, w.cloud, w.recorder, m.Reason())
		if err != nil {
			return nil, fmt.Errorf("find budgets: %w", err)
		}
		commands, err := m.ComputeCommands(ctx, budgets, candidates...)
		if err != nil {
			return nil, fmt.Errorf("compute commands: %w", err)
		}
		for i := range commands {
			if commands[i].Decision() == disruption.NoOpDecision {
				continue
			}
			step, err := w.apply(ctx, &commands[i])
			if err != nil {
				return nil, fmt.Errorf("apply a command: %w", err)
			}
			return &step, nil
		}
	}
	return nil, nil
}

// disruptable lets a pool consolidate all that it wants at once.
func disruptable(p *karpenterv1.NodePool) {
	at := time.Duration(0)
	p.Spec.Disruption = karpenterv1.Disruption{
		ConsolidateAfter:    karpenterv1.NillableDuration{Duration: &at},
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		Budgets:             []karpenterv1.Budget{{Nodes: "100%"}},
	}
}
