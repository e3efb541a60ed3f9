package main

import (
	"fmt"
	"strings"
)

// writeConsolidation shows what each side does about nodes that there are.
func writeConsolidation(b *strings.Builder, rows []row) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n## Consolidation\n\nNodes half empty are to be made cheaper. Karpenter's emptiness, multi-node and single-node methods are repeated until none finds anything, each\n" +
		"command carried out at once, with a budget of 100 %; * marks where it was cut off before. Dovetail decides once. The bound is for all pods on\n" +
		"fresh nodes, whatever the evictions. Each move of a pod is an eviction; Dovetail wants a quarter of the price of an average pod saved for each. D is\n" +
		"Dovetail, K Karpenter.\n\n" +
		"| scenario | nodes | pods | $/h | after D, K | bound | D, K / bound | evictions D, K | steps D, K | nodes after D, K | CPU D, K | violations D, K |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range rows {
		r := &rows[i]
		if r.dovetail.cut {
			continue
		}
		best := max(r.dovetail.Plan.LowerBoundPerHour, consolidationBounds()[r.name])
		d, k := consolidated(r.dovetail, best), consolidated(r.karpenter, best)
		fmt.Fprintf(b, "| %s | %d | %d | %.2f | %s, %s | %.2f |", r.name, r.nodes, r.pods, r.before, d[0], k[0], best)
		for c := 1; c < len(d); c++ {
			fmt.Fprintf(b, " %s, %s |", d[c], k[c])
		}
		b.WriteByte('\n')
	}
	writePace(b, rows)
	writeMeetings(b, rows)
}

// writePace shows how long each side takes until it knows what to do first, and that there is
// nothing.
func writePace(b *strings.Builder, rows []row) {
	b.WriteString("\nWhat a look costs in CPU time. *First* is until the first nodes to go are known: Dovetail's steps that need no new node, Karpenter's first command.\n" +
		"*All* is Dovetail's whole plan, and all that Karpenter did. *Nothing* is to know, once all is done and with the nodes after it, that there is no more: Dovetail after one pod has gone, Karpenter's last look.\n\n" +
		"| scenario | nodes | pods | first D, K | all D, K | nothing D, K |\n|---|--:|--:|--:|--:|--:|\n")
	for i := range rows {
		if r := &rows[i]; !r.dovetail.cut {
			d, k := paced(r.dovetail), paced(r.karpenter)
			fmt.Fprintf(b, "| %s | %d | %d | %s, %s | %s, %s | %s, %s |\n", r.name, r.nodes, r.pods, d[0], k[0], d[1], k[1], d[2], k[2])
		}
	}
}

// paced returns the cells of one side: first, all, nothing.
func paced(s *side) [3]string {
	known := func(took float64) string {
		if took == 0 {
			return "–"
		}
		return seconds(took)
	}
	if s == nil || s.cut || s.Pace == nil {
		return [3]string{"–", "–", "–"}
	}
	all := seconds(s.CPUSeconds)
	if s.Note != "" {
		all += "*"
	}
	return [3]string{known(s.Pace.First), all, known(s.Pace.Nothing)}
}

// writeMeetings compares the two where they meet: at the price that Karpenter ends at, and
// after as many evictions.
func writeMeetings(b *strings.Builder, rows []row) {
	b.WriteString("\nWhere the two meet: of Dovetail's plans for prices of an eviction from 0.0002 to 0.06 $/h, and every beginning of each, the one with fewest evictions\n" +
		"that is as cheap as Karpenter's end, the cheapest with no more evictions than Karpenter's, and the cheapest of all.\n\n" +
		"| scenario | at K's price: evictions D, K | at K's evictions: $/h D, K | lowest $/h | over bound | its evictions | violations in all |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for i := range rows {
		r := &rows[i]
		if r.dovetail.cut || len(r.dovetail.others) == 0 {
			continue
		}
		m := meet(r)
		fewest, cheapest := "–", "–"
		if k := r.karpenter; k != nil && !k.cut {
			theirs := k.steps.Evictions
			fewest = fmt.Sprintf("not reached, %d", theirs)
			if m.fewest >= 0 {
				fewest = fmt.Sprintf("%d, %d (%+.0f %%)", m.fewest, theirs, 100*(float64(m.fewest)/float64(max(1, theirs))-1))
			}
			cheapest = fmt.Sprintf("%.2f, %.2f (%+.1f %%)", m.cheapest, k.Plan.PricePerHour, 100*(m.cheapest/k.Plan.PricePerHour-1))
		}
		best := max(r.dovetail.Plan.LowerBoundPerHour, consolidationBounds()[r.name])
		fmt.Fprintf(b, "| %s | %s | %s | %.2f | %.3f | %d | %d |\n", r.name, fewest, cheapest, m.lowest, m.lowest/best, m.lowestEvictions, m.violations)
	}
}

// meeting is what Dovetail's plans together reach.
type meeting struct {
	fewest           int     // evictions at Karpenter's price; -1: it is not reached
	cheapest, lowest float64 // price at Karpenter's evictions, and of all
	lowestEvictions  int
	violations       int
}

func meet(r *row) meeting {
	m := meeting{fewest: -1, cheapest: r.before, lowest: r.before}
	for _, plan := range r.dovetail.others {
		m.violations += len(plan.Violations)
		for s, price := range plan.Prices {
			evicted := plan.Evicted[s]
			if price < m.lowest {
				m.lowest, m.lowestEvictions = price, evicted
			}
			k := r.karpenter
			if k == nil || k.cut {
				continue
			}
			if price <= k.Plan.PricePerHour+0.005 && (m.fewest < 0 || evicted < m.fewest) {
				m.fewest = evicted
			}
			if evicted <= k.steps.Evictions {
				m.cheapest = min(m.cheapest, price)
			}
		}
	}
	return m
}

// consolidated returns the cells of one side: price after, over the bound, evictions,
// steps, nodes after, CPU, violations.
func consolidated(s *side, bound float64) [7]string {
	if s == nil || s.cut {
		return [7]string{"–", "–", "–", "–", "–", "–", "–"}
	}
	mark := ""
	if s.Note != "" {
		mark = "*"
	}
	return [7]string{
		fmt.Sprintf("%.2f%s", s.Plan.PricePerHour, mark), fmt.Sprintf("%.3f", s.over(bound)), fmt.Sprint(s.steps.Evictions), fmt.Sprint(len(s.Plan.Steps)),
		fmt.Sprint(s.steps.Nodes), seconds(s.CPUSeconds), fmt.Sprint(len(s.steps.Violations)),
	}
}
