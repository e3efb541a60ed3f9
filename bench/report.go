package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// results are what the page shows; without the week, it was not asked for.
type results struct {
	rows         []row
	ours, theirs *week
}

// report returns the page.
func report(r results, s settings, bin string, start time.Time) (string, error) {
	versions, err := modules(filepath.Join(bin, karpenter))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Performance

Written by %s on %s; the next run writes it anew. The same scenarios are solved by Dovetail and by the
scheduler of %s, used as a library with one worker, its fastest setting. Each solve has a process of its own,
one after the other. Every plan of both is judged by `+"`internal/decision/scenario`"+`, which shares no code with either.

| computer | |
|---|---|
%s
`, command(s), start.UTC().Format(time.DateOnly), versions["sigs.k8s.io/karpenter"], computer(versions))
	var packed, moved []row
	for _, row := range r.rows {
		if row.consolidates {
			moved = append(moved, row)
		} else {
			packed = append(packed, row)
		}
	}
	writeShort(&b, packed)
	writePrices(&b, packed)
	writeCosts(&b, packed, s)
	writeConsolidation(&b, moved)
	writeWeek(&b, r.ours, r.theirs, s.halfHours)
	writeBaseline(&b, packed)
	b.WriteString(howTo)
	return b.String(), nil
}

const howTo = "\nWhat the whole controller costs with 5,000 nodes and 100,000 pods is in [sizing](sizing.md).\n" +
	"\n## How to read and repeat it\n\n" +
	"`make bench` takes an hour or two, nearly all of it Karpenter's, of which it ends a process after ten minutes of CPU (`LIMIT=2m` after two);\n" +
	"`make bench QUICK=1` takes some minutes, without Karpenter's longest and without the week. In `bench/`, `../bin/bench/bench -only own-gpu -out -` solves a few, and\n" +
	"`../bin/bench/bench -write DIR` writes the generated scenarios, for `dovetail simulate`. The public ones (`p1`, `p2`, `p3`) are files in\n" +
	"`internal/decision/simulate/testdata`. `own` ones are drawn by `bench/generate` from a seed and the EC2 catalog of May 2025 in the binary: plain\n" +
	"deployments; mixed spot and on-demand; such pods with sidecars (100 or 125m and 128 or 328 MiB); rules (40 % of deployments spread over zones, 20 % with limits or conflicts per node); hosts (all of them\n" +
	"with such); GPUs; and the whole catalog (wide). `own-recreated-300` is a cluster whose nodes drift has recreated: 300 small ones in 20 pools.\n\n" +
	"- **Bound**: no plan can be cheaper. It is Dovetail's own (checked against exact answers in the tests of `core/cover`), or where it is marked `°`\n" +
	"  the one that an earlier study computed with a configuration LP. It ignores rules between pods, so with many of those it is far below: the true\n" +
	"  distance to the optimum is at most the ratio shown.\n" +
	"- **First fit**: first-fit-decreasing alone, by Dovetail's own implementation.\n" +
	"- **CPU**: user time of all threads for one solve: `pack.Solve`, compilation included, and `Scheduler.Solve`, without the building of its\n" +
	"  topology. Reading and converting are not counted. Short solves are repeated up to half a second, and the mean is shown. A process\n" +
	"  has one processor, its garbage collector included (`GOMAXPROCS=1`). Karpenter solves what it needs up to half a minute for on all of them, too, and what took less counts.\n" +
	"- **Allocations** are those of the first solve, per pod, all phases together. **Peak** is the process's high-water mark after it, scenario and catalog included.\n" +
	"- Karpenter's price of a node is that of the cheapest offering that its decision leaves open. Its plans differ a little from run to run.\n" +
	"- Karpenter is built with the Kubernetes libraries that this repository uses, newer than the ones it was published with.\n"

// writeShort says the most important figures in sentences.
func writeShort(b *strings.Builder, rows []row) {
	b.WriteString("\n## In short\n\n")
	for i := range rows {
		if r := &rows[i]; r.name == headline && r.karpenter != nil && !r.karpenter.cut && !r.dovetail.cut {
			fmt.Fprintf(b, "- %s, Karpenter's own diverse mix at %d pods: Dovetail %s of CPU for %.2f $/h, Karpenter %s for %.2f $/h: **%.0f times** fewer CPU seconds.\n", r.name, r.pods,
				seconds(r.dovetail.CPUSeconds), r.dovetail.Plan.PricePerHour, seconds(r.karpenter.CPUSeconds), r.karpenter.Plan.PricePerHour, r.karpenter.CPUSeconds/r.dovetail.CPUSeconds)
		}
	}
	for _, s := range []size{{"10,000 pods and more", 10000, 1 << 30, 1.015}, {"1,000 to 9,999 pods", 1000, 9999, 1.025}, {"fewer than 1,000 pods", 0, 999, 1.05}} {
		writeSize(b, rows, s)
	}
	dearer := names(rows, func(r *row) bool {
		return !r.dovetail.cut && r.karpenter.over(1) > 0 && r.karpenter.refuse == r.dovetail.refuse && r.dovetail.Plan.PricePerHour > r.karpenter.Plan.PricePerHour+0.005
	})
	worse := names(rows, func(r *row) bool {
		return !r.dovetail.cut && r.dovetail.FirstFitPrice > 0 && r.dovetail.Plan.PricePerHour > r.dovetail.FirstFitPrice+0.0005
	})
	fmt.Fprintf(b, "- Dearer than Karpenter: %s. Dearer than first fit: %s.\n", worded(dearer), worded(worse))
	ours, theirs, plansOurs, plansTheirs := 0, 0, 0, 0
	for i := range rows {
		if d := rows[i].dovetail; !d.cut {
			plansOurs, ours = plansOurs+1, ours+min(1, len(d.judged.Violations))
		}
		if k := rows[i].karpenter; k != nil && !k.cut {
			plansTheirs, theirs = plansTheirs+1, theirs+min(1, len(k.judged.Violations))
		}
	}
	fmt.Fprintf(b, "- Plans that break a rule: %d of %d by Dovetail, %d of %d by Karpenter.\n", ours, plansOurs, theirs, plansTheirs)
	for i := range rows {
		if r := &rows[i]; !r.dovetail.cut && r.pods >= 50000 {
			fmt.Fprintf(b, "- %s, %d pods and %d types: %s of CPU, %.2f allocations per pod, %s at the peak.\n", r.name, r.pods, r.types,
				seconds(r.dovetail.CPUSeconds), perPod(r.dovetail.Allocs, r.pods), mebibytes(r.dovetail.PeakBytes))
		}
	}
}

// size is a range of scenarios by their pods, and the ratio to the bound that the project wants.
type size struct {
	name      string
	low, high int
	goal      float64
}

// writeSize says how far prices are above the bound for scenarios of one size, and
// which are further than the project wants.
func writeSize(b *strings.Builder, rows []row, s size) {
	var ratios []float64
	for i := range rows {
		if ratio := overBound(&rows[i]); ratio > 0 && rows[i].pods >= s.low && rows[i].pods <= s.high {
			ratios = append(ratios, ratio)
		}
	}
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	above := names(rows, func(r *row) bool { return r.pods >= s.low && r.pods <= s.high && overBound(r) > s.goal+0.0005 })
	fmt.Fprintf(b, "- Price over bound, %s: median %.3f, worst %.3f; above the goal of %.3f: %s.\n", s.name, ratios[len(ratios)/2], ratios[len(ratios)-1], s.goal, worded(above))
}

func names(rows []row, is func(*row) bool) []string {
	var out []string
	for i := range rows {
		if is(&rows[i]) {
			out = append(out, rows[i].name)
		}
	}
	return out
}

func worded(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

// bound returns the best bound there is, and whether it is the study's.
func bound(r *row) (dollars float64, study bool) {
	own := 0.0
	if !r.dovetail.cut {
		own = r.dovetail.Plan.LowerBoundPerHour
	}
	// The study's are rounded to cents.
	if known := baselines()[r.name].bound; known > own+0.01 {
		return known, true
	}
	return own, false
}

// overBound returns Dovetail's price over the bound; 0: not known.
func overBound(r *row) float64 {
	best, _ := bound(r)
	return r.dovetail.over(best)
}

func writePrices(b *strings.Builder, rows []row) {
	b.WriteString("\n## Prices\n\nDollars per hour. D is Dovetail, K Karpenter.\n\n" +
		"| scenario | pods | bound | Dovetail | D / bound | first fit | Karpenter | K / D | nodes D, K | refused D, K | violations D, K |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range rows {
		r := &rows[i]
		d, k := r.dovetail, r.karpenter
		if d.cut {
			fmt.Fprintf(b, "| %s | %d | | cut off | | | | | | | |\n", r.name, r.pods)
			continue
		}
		best, study := bound(r)
		mark := ""
		if study {
			mark = "°"
		}
		known := func(ok bool, text string) string {
			if !ok {
				return "–"
			}
			return text
		}
		theirs := k != nil && !k.cut
		price, ratio, nodes, refused, broken := "–", "–", "–", "–", "–"
		if k != nil && k.cut {
			price = "cut off"
		}
		if theirs {
			price, ratio = fmt.Sprintf("%.2f", k.Plan.PricePerHour), fmt.Sprintf("%.3f", k.over(d.Plan.PricePerHour))
			nodes, refused, broken = fmt.Sprint(k.nodes), fmt.Sprint(k.refuse), fmt.Sprint(len(k.judged.Violations))
		}
		fmt.Fprintf(b, "| %s | %d | %s | %.2f | %s | %s | %s | %s | %d, %s | %d, %s | %d, %s |\n", r.name, r.pods,
			known(best > 0, fmt.Sprintf("%.2f%s", best, mark)), d.Plan.PricePerHour, known(best > 0, fmt.Sprintf("%.3f", d.over(best))),
			known(d.FirstFitPrice > 0, fmt.Sprintf("%.2f", d.FirstFitPrice)), price, ratio,
			d.nodes, nodes, d.refuse, refused, len(d.judged.Violations), broken)
	}
}

func writeCosts(b *strings.Builder, rows []row, s settings) {
	b.WriteString("\n## Costs\n\nCPU seconds of one solve.\n\n" +
		"| scenario | pods | types | Dovetail | Karpenter | K / D | allocations per pod D, K | peak memory D, K |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range rows {
		r := &rows[i]
		d, k := r.dovetail, r.karpenter
		if d.cut {
			continue
		}
		cpu, ratio, allocs, peak := "–", "–", "–", "–"
		switch {
		case k == nil:
		case k.cut:
			cpu = fmt.Sprintf("> %s", s.limit)
			ratio = fmt.Sprintf("> %.0f", s.limit.Seconds()/d.CPUSeconds)
		default:
			cpu, ratio = seconds(k.CPUSeconds), fmt.Sprintf("%.0f", k.CPUSeconds/d.CPUSeconds)
			allocs, peak = fmt.Sprintf("%.0f", perPod(k.Allocs, r.pods)), mebibytes(k.PeakBytes)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %.2f, %s | %s, %s |\n", r.name, r.pods, r.types,
			seconds(d.CPUSeconds), cpu, ratio, perPod(d.Allocs, r.pods), allocs, mebibytes(d.PeakBytes), peak)
	}
}

// writeBaseline compares the Karpenter of this run with that of the study.
func writeBaseline(b *strings.Builder, rows []row) {
	known := baselines()
	var lines strings.Builder
	for i := range rows {
		r := &rows[i]
		base, ok := known[r.name]
		if k := r.karpenter; ok && k != nil && !k.cut {
			fmt.Fprintf(&lines, "| %s | %.2f | %.2f | %.3f | %s | %s |\n", r.name, k.Plan.PricePerHour, base.price, k.Plan.PricePerHour/base.price,
				seconds(k.CPUSeconds), seconds(base.cpuSeconds))
		}
	}
	if lines.Len() == 0 {
		return
	}
	b.WriteString("\n## Is this Karpenter as it should be?\n\nBeside this run, an independent study of v1.14.1 with one worker, on a shared computer with two cores.\n\n" +
		"| scenario | $/h here | study | ratio | CPU here | study |\n|---|--:|--:|--:|--:|--:|\n" + lines.String())
}

func perPod(allocs uint64, pods int) float64 { return float64(allocs) / float64(max(1, pods)) }

// seconds prints a time with three digits that matter.
func seconds(s float64) string {
	switch {
	case s < 0.00995:
		return fmt.Sprintf("%.2f ms", s*1000)
	case s < 0.0995:
		return fmt.Sprintf("%.1f ms", s*1000)
	case s < 0.995:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 99.5:
		return fmt.Sprintf("%.2f s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<19)>>20) }
