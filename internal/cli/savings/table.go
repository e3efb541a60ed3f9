package savings

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// How many lines of each table are shown on a terminal. The page has all.
const (
	linesMax  = 12
	stepsMax  = 15
	causesMax = 10
)

// Table returns the report as a person reads it on a terminal.
func (r *Report) Table() string {
	var b strings.Builder
	from := printable(r.Cluster)
	if from != "" {
		from += ": "
	}
	fmt.Fprintf(&b, "%s%s, %s that could move, %s\n\n", from, counted(r.Nodes, "node"), counted(r.Pods, "pod"), r.At.UTC().Format("2006-01-02 15:04 UTC"))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t$/HOUR\t$/MONTH\t")
	for _, h := range r.Headline() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.What, h.Hour, h.Month, h.Note)
	}
	flush(w)
	if r.Dropped != "" {
		fmt.Fprintf(&b, "\nSteps were left out: the checker of plans objected (%s). That is a bug of ours.\n", r.Dropped)
	}
	writeLines(&b, "INSTANCE TYPE\tNODES NOW\tAFTER\t$/H NOW\tAFTER", r.Types)
	writeLines(&b, "NODEPOOL\tNODES NOW\tAFTER\t$/H NOW\tAFTER", r.Pools)
	writeLines(&b, "WORKLOAD\tPODS NOW\tAFTER\t$/H NOW\tAFTER", r.Workloads)
	r.writeSteps(&b)
	writeCauses(&b, "LEFT ALONE", r.Alone)
	writeCauses(&b, "STAYS", r.Stays)
	writeList(&b, "PRESUMED", r.Presumed)
	writeList(&b, "THE CHECKER DOES NOT LOOK AT", r.Unjudged)
	if len(r.Proposed) > 0 {
		fmt.Fprintf(&b, "\nPROPOSED NODEPOOLS (dovetail migrate node-groups writes them with their node classes)\n%s", strings.Join(r.Proposed, "---\n"))
	}
	return trimmed(b.String())
}

// trimmed returns a text without spaces at the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// Headline is one line of the answer.
type Headline struct{ What, Hour, Month, Note string }

// Headline returns the answer in four lines.
func (r *Report) Headline() []Headline {
	line := func(what string, price float64, note string) Headline {
		return Headline{what, dollars(price), fmt.Sprintf("%.2f", price*hoursPerMonth), note}
	}
	kept := 0
	for _, c := range r.Alone {
		kept += len(c.Nodes)
	}
	lines := []Headline{
		line("now", r.Now, counted(r.Nodes, "node")),
		line("with Dovetail", r.After, fmt.Sprintf("%s, %s; %s, %s", r.Saving(), counted(r.NodesAfter, "node"), counted(len(r.Steps), "step"), counted(r.Evictions, "eviction"))),
	}
	if kept > 0 && r.BoundKept > r.Bound {
		lines = append(lines, line("least, with "+counted(kept, "node")+" left alone", r.BoundKept, "no plan that keeps them is cheaper"))
	}
	return append(lines, line("least possible", r.Bound, "no nodes of these NodePools for these pods are cheaper, wherever pods run"))
}

// Saving says what the steps save, or what they cost.
func (r *Report) Saving() string {
	switch saved := r.Now - r.After; {
	case saved > 0.00005:
		return fmt.Sprintf("saves %.1f %%", 100*saved/r.Now)
	case saved < -0.00005:
		return fmt.Sprintf("costs %.1f %% more", -100*saved/r.Now)
	default:
		return "saves nothing"
	}
}

// writeLines writes a table with five columns of these names.
func writeLines(b *strings.Builder, columns string, lines []Line) {
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t\n", columns)
	for i := range lines {
		if i == linesMax && len(lines) > linesMax+1 {
			rest := Line{}
			for _, l := range lines[i:] {
				rest.Count, rest.CountAfter, rest.Now, rest.After = rest.Count+l.Count, rest.CountAfter+l.CountAfter, rest.Now+l.Now, rest.After+l.After
			}
			fmt.Fprintf(w, "and %d more\t%d\t%d\t%s\t%s\t\n", len(lines)-i, rest.Count, rest.CountAfter, dollars(rest.Now), dollars(rest.After))
			break
		}
		l := &lines[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", printable(l.Name), l.Count, l.CountAfter, dollars(l.Now), dollars(l.After), l.Note)
	}
	flush(w)
}

func (r *Report) writeSteps(b *strings.Builder) {
	if len(r.Steps) == 0 {
		b.WriteString("\nNo step: nothing was found that saves enough for its evictions.\n")
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "STEP\tEVICT\tSAVES $/H\tREMOVE\tLAUNCH\n")
	for i := range r.Steps {
		if i == stepsMax && len(r.Steps) > stepsMax+1 {
			break
		}
		s := &r.Steps[i]
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\n", i+1, len(s.Evict), dollars(s.Saves), names(s.Remove, func(n *Node) string { return n.Name }), names(s.Launch, (*Node).Sort))
	}
	flush(w)
	if more := len(r.Steps) - stepsMax; more > 1 {
		fmt.Fprintf(b, "and %s more\n", counted(more, "step"))
	}
}

// Sort returns type and capacity type.
func (n *Node) Sort() string { return n.Type + " " + n.Kind }

// names returns the first of several names, and how many there are of each.
func names(nodes []Node, name func(*Node) string) string {
	if len(nodes) == 0 {
		return "-"
	}
	count, order := map[string]int{}, []string{}
	for i := range nodes {
		n := printable(name(&nodes[i]))
		if count[n] == 0 {
			order = append(order, n)
		}
		count[n]++
	}
	shown := order[:min(len(order), 2)]
	parts := make([]string, len(shown))
	for i, n := range shown {
		parts[i] = n
		if count[n] > 1 {
			parts[i] = fmt.Sprintf("%d x %s", count[n], n)
		}
	}
	text := strings.Join(parts, ", ")
	if more := len(order) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func writeCauses(b *strings.Builder, head string, causes []Cause) {
	if len(causes) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", head)
	for i := range causes {
		if i == causesMax && len(causes) > causesMax+1 {
			fmt.Fprintf(b, "  and %d more reasons\n", len(causes)-i)
			break
		}
		c := &causes[i]
		which := printable(c.Nodes[0])
		if n := len(c.Nodes); n > 1 {
			which += fmt.Sprintf(" and %d more", n-1)
		}
		fmt.Fprintf(b, "  %s (%s): %s\n", which, priceText(c.Price), printable(c.Why))
	}
}

func priceText(price float64) string {
	if price == 0 {
		return "price not known"
	}
	return dollars(price) + " $/h"
}

func writeList(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", head)
	for _, l := range lines {
		fmt.Fprintf(b, "  - %s\n", l)
	}
}

// printable returns text without control characters, which a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

func dollars(price float64) string { return fmt.Sprintf("%.4f", price) }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func flush(w *tabwriter.Writer) { _ = w.Flush() } // a strings.Builder takes all that is written to it
