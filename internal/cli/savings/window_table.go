package savings

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Table returns the answer as a person reads it on a terminal.
func (w *Window) Table() string {
	var b strings.Builder
	from := printable(w.From)
	if from != "" {
		from += ": "
	}
	fmt.Fprintf(&b, "%s%s to %s, %s that launched\n", from, w.First.UTC().Format("2006-01-02 15:04:05"), w.Last.UTC().Format(time.DateTime+" UTC"), counted(w.Decisions, "decision"))
	fmt.Fprintf(&b, "%s asked for a node: for %d nodes were launched, %d had room on others, %d nothing can take\n\n", counted(w.Pods, "pod"), w.Launched, w.Placed, w.Refused)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\t$/HOUR\t")
	for _, h := range w.Headline() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", h.What, h.Hour, h.Note)
	}
	flush(t)
	writeLines(&b, "INSTANCE TYPE\tNODES\tAT ONCE\t$/H\tAT ONCE", w.Types)
	writeLines(&b, "NODEPOOL\tNODES\tAT ONCE\t$/H\tAT ONCE", w.Pools)
	writeLines(&b, "WORKLOAD\tPODS\tAT ONCE\t$/H\tAT ONCE", w.Workloads)
	writeList(&b, "PRESUMED", w.Presumed)
	return trimmed(b.String())
}

// Headline returns the answer in lines. What is not known has none.
func (w *Window) Headline() []Headline {
	line := func(what string, price float64, note string) Headline {
		return Headline{What: what, Hour: dollars(price), Note: note}
	}
	lines := []Headline{line("as launched", w.Now, counted(w.Nodes, "node")), line("as planned", w.Planned, "at the prices of each decision")}
	if w.Unbounded == 0 {
		lines = append(lines, line("least, decision by decision", w.BoundEach, "no launches for the same pods are cheaper"+over(w.Planned, w.BoundEach)))
	}
	if w.NodesAfter == 0 {
		return lines
	}
	note := counted(w.NodesAfter, "node") + ", had all these pods asked at the same time"
	if w.Apart > 0 {
		note += fmt.Sprintf("; %s in neither this nor the next line", counted(w.Apart, "pod"))
	}
	lines = append(lines, line("all at once", w.After, note))
	if w.Bound > 0 {
		lines = append(lines, line("least possible", w.Bound, "no nodes of these NodePools that hold all these pods are cheaper"+over(w.After, w.Bound)))
	}
	return lines
}

// over says how far above its bound a price is.
func over(price, bound float64) string {
	if bound <= 0 || price < bound {
		return ""
	}
	return fmt.Sprintf("; a gap of at most %.1f %%", 100*(price-bound)/price)
}
