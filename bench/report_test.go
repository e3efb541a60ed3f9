package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/bench/generate"
	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// TestReport prints rows of every kind: both sides, one cut off, one not asked, plans
// that break a rule, and consolidation. Run it with -rewrite and read the difference.
func TestReport(t *testing.T) {
	t.Parallel()
	answer := func(price, bound, cpu float64, nodes int) *side {
		return &side{
			Report: measure.Report{
				Cost: measure.Cost{Runs: 1, CPUSeconds: cpu, Allocs: 500, PeakBytes: 20 << 20},
				Plan: &scenario.Plan{PricePerHour: price, LowerBoundPerHour: bound}, FirstFitPrice: 1.2,
			},
			nodes: nodes,
		}
	}
	broken := answer(2.5, 0, 60, 3)
	broken.judged.Violations, broken.refuse = []string{"a", "b"}, 4
	moved := func(price float64, evictions int, note string) *side {
		s := answer(price, 0, 0.25, 0)
		s.steps, s.Note, s.Plan.Steps = scenario.StepsReport{Nodes: 5, Evictions: evictions}, note, make([]scenario.Step, 2)
		s.Pace = &measure.Pace{First: 0.012, Nothing: 0.0034}
		s.others = []scenario.StepsReport{
			{Prices: []float64{30, 15.9, 15, 14.8}, Evicted: []int{100, 300, 790, 900}},
			{Prices: []float64{40, 15.8, 14.9}, Evicted: []int{50, 250, 850}, Violations: []string{"a"}},
		}
		return s
	}
	rows := []row{
		{name: headline, pods: 5000, types: 500, dovetail: answer(2, 1.9, 0.01, 2), karpenter: answer(2.4, 0, 5, 2)},
		{name: "p2-tiny-cluster", pods: 25, types: 500, dovetail: answer(0.74, 0.5, 0.001, 1), karpenter: answer(1.22, 0, 0.0083, 1)},
		{name: "dearer", pods: 100, types: 500, dovetail: answer(1.3, 1.2, 0.123, 1), karpenter: answer(1.1, 0, 0.5, 1)},
		{name: "broken", pods: 20000, types: 500, dovetail: answer(1.1, 1.1, 1, 1), karpenter: broken},
		{name: "cut", pods: 50000, types: 500, dovetail: answer(1.1, 1, 0.1, 1), karpenter: &side{cut: true}},
		{name: "ours cut", pods: 60000, types: 500, dovetail: &side{cut: true}, karpenter: answer(1.1, 1, 0.1, 1)},
		{name: "alone", pods: 50000, types: 500, dovetail: answer(1.1, 0, 0.1, 1)},
	}
	var b strings.Builder
	writeShort(&b, rows)
	writePrices(&b, rows)
	writeCosts(&b, rows, settings{limit: 10 * time.Minute})
	writeConsolidation(&b, []row{{name: "p3-consolidate-100", pods: 692, nodes: 100, before: 47.8, consolidates: true, dovetail: moved(15, 400, ""), karpenter: moved(16, 800, "cut off")}})
	writeWeek(&b, &week{dollars: 400, bound: 380, evictions: 12, launched: 30, nodesMost: 20, least: 8}, &week{dollars: 700, evictions: 20, launched: 25, nodesMost: 21, least: 9, waited: 2, broken: 3}, generate.WeekSteps)
	writeBaseline(&b, rows)
	golden := filepath.Join("testdata", "report.md")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the page (-want +got):\n%s", diff)
	}
}

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")
