package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// kind is new nodes that a person counts together.
type kind struct {
	pool, name, zone, capacityType string
}

// rowsMax is how many kinds of nodes the table shows.
const rowsMax = 40

// row is how many nodes of a kind there are, and their pods.
type row struct {
	kind
	nodes, pods, podsMin, podsMax int
	price                         float64 // of one
	priced                        bool
}

// table returns the answer as a person reads it.
func (a *Answer) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s pending, %s\n\n", a.Name, counted(len(a.Snapshot.Pending), "pod"), counted(len(a.Snapshot.Nodes)-a.staticLaunched(), "node"))
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "(%s)\n", note)
	}
	a.writeStatic(&b)
	a.writeLaunches(&b)
	a.writePlacements(&b)
	a.writeRefusals(&b)
	a.writeBuffers(&b)
	fmt.Fprintf(&b, "planned in %s (%s of CPU)\n", a.Wall.Round(time.Millisecond/10), a.CPU.Round(time.Millisecond/10))
	return b.String()
}

func (a *Answer) writeLaunches(b *strings.Builder) {
	if len(a.Plan.Launches) == 0 {
		if a.staticLaunched() > 0 {
			b.WriteString("no other node would be launched\n")
			return
		}
		b.WriteString("no node would be launched\n")
		return
	}
	rows, unpriced := a.rows()
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	// On 80 columns there is room for the pool or for the price of one.
	pools := slices.ContainsFunc(rows, func(r row) bool { return r.pool != rows[0].pool })
	line := func(pool, each string, cells ...string) {
		if pools {
			each = pool
		}
		fmt.Fprintln(w, strings.Join(append(cells, each), "\t")+"\t")
	}
	line("POOL", "$/H EACH", "NODES", "TYPE", "ZONE", "CAPACITY", "PODS", "$/H")
	for i := range rows[:min(len(rows), rowsMax)] {
		r := &rows[i]
		each, all := "?", "?"
		if r.priced {
			each, all = dollars(r.price), dollars(r.price*float64(r.nodes))
		}
		line(r.pool, each, strconv.Itoa(r.nodes), r.name, cmp.Or(r.zone, "-"), r.capacityType, span(r.podsMin, r.podsMax), all)
	}
	w.Flush() //nolint:errcheck // a strings.Builder takes everything
	if more := len(rows) - rowsMax; more > 0 {
		nodes, price := 0, 0.0
		for i := range rows[rowsMax:] {
			r := &rows[rowsMax+i]
			nodes, price = nodes+r.nodes, price+r.price*float64(r.nodes)
		}
		fmt.Fprintf(b, "and %s of %s more, at %s $/h (-o json has them all)\n", counted(nodes, "node"), counted(more, "kind"), dollars(price))
	}
	pods := 0
	for i := range a.Plan.Launches {
		pods += len(a.Plan.Launches[i].Pods)
	}
	what := counted(pods, "pod")
	if chunks := a.chunksLaunched(); chunks > 0 {
		what += " and " + counted(chunks, "chunk") + " of capacity buffers"
	}
	fmt.Fprintf(b, "\n%s would be launched for %s, at %s $/h\n", counted(len(a.Plan.Launches), "node"), what, dollars(a.File.PricePerHour))
	if unpriced > 0 {
		fmt.Fprintf(b, "the price of %s is not known and not in the sum\n", counted(unpriced, "node"))
	}
	a.writeComparison(b)
	a.writeResilience(b)
	if !pools {
		fmt.Fprintf(b, "(all from pool %s)\n", rows[0].pool)
	}
	b.WriteString("(PODS is per node; of all types that hold them, the cheapest is shown)\n")
}

// writeResilience says what spreading workloads costs and gains.
func (a *Answer) writeResilience(b *strings.Builder) {
	r := &a.Plan.Resilience
	if !r.IsKnown() {
		return
	}
	fmt.Fprintf(b, "  %s\n", r)
}

// gapShown is from which gap on it is said that more can be proven.
const gapShown = 1.001

// writeComparison says how far the price is from what it must be at least, and from what
// first-fit-decreasing would have paid.
func (a *Answer) writeComparison(b *strings.Builder) {
	price := a.File.PricePerHour
	switch {
	case a.Plan.BoundHourly > 0:
		fmt.Fprintf(b, "  at least  %s $/h whatever the plan: a gap of at most %s\n", dollars(a.Plan.BoundHourly), percent(price-a.Plan.BoundHourly, a.Plan.BoundHourly))
		if a.Options.ProofRounds > 0 && price > a.Plan.BoundHourly*gapShown {
			b.WriteString("            (the proof ended after some rounds; --prove goes on, which can take a minute)\n")
		}
	default:
		b.WriteString("  no lower bound of the price is known\n")
	}
	if a.FirstFit == nil || price == 0 {
		return
	}
	other := a.FirstFit.PriceHourly()
	if refused := len(a.FirstFit.Refusals); refused != len(a.Plan.Refusals) {
		fmt.Fprintf(b, "  first-fit-decreasing would pay %s $/h and refuse %s\n", dollars(other), counted(refused, "pod"))
		return
	}
	than := "the same"
	switch {
	case other > price:
		than = percent(other-price, price) + " more"
	case other < price:
		than = percent(price-other, price) + " less"
	}
	fmt.Fprintf(b, "  first-fit-decreasing would pay %s $/h, %s\n", dollars(other), than)
}

// rows counts the launches by kind, most nodes first.
func (a *Answer) rows() (rows []row, unpriced int) {
	at := map[kind]int{}
	for i := range a.Plan.Launches {
		l := &a.Plan.Launches[i]
		choice, err := scenario.Cheapest(a.Snapshot, l)
		if err != nil { // the file could not have been written then
			continue
		}
		k := kindOf(l, choice)
		n, ok := at[k]
		if !ok {
			n = len(rows)
			at[k] = n
			rows = append(rows, row{kind: k, podsMin: len(l.Pods), price: choice.Offering.PriceHourly, priced: choice.Offering.Priced})
		}
		r := &rows[n]
		r.nodes++
		r.pods += len(l.Pods)
		r.podsMin, r.podsMax = min(r.podsMin, len(l.Pods)), max(r.podsMax, len(l.Pods))
		if !choice.Offering.Priced {
			unpriced++
		}
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		return cmp.Or(cmp.Compare(y.nodes, x.nodes), cmp.Compare(x.name, y.name), cmp.Compare(x.zone, y.zone),
			cmp.Compare(x.capacityType, y.capacityType), cmp.Compare(x.pool, y.pool))
	})
	return rows, unpriced
}

func kindOf(l *plan.Launch, choice catalog.Choice) kind {
	return kind{l.Pool, choice.Type.Name, choice.Offering.Zone, choice.Offering.CapacityType}
}

func (a *Answer) writePlacements(b *strings.Builder) {
	if len(a.Plan.Assignments) == 0 {
		return
	}
	nodes := map[string]bool{}
	for _, p := range a.Plan.Assignments {
		nodes[p.Node] = true
	}
	there := " that there are"
	if a.staticLaunched() > 0 {
		there += " or that static pools launch"
	}
	fmt.Fprintf(b, "%s would go to %s%s\n", counted(len(a.Plan.Assignments), "pod"), counted(len(nodes), "node"), there)
}

// refusalsMax is how many lines of refusals the table shows.
const refusalsMax = 30

func (a *Answer) writeRefusals(b *strings.Builder) {
	if len(a.Plan.Refusals) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s refused:\n", counted(len(a.Plan.Refusals), "pod"))
	type reason struct {
		group int
		why   string
	}
	count := map[reason]int{}
	var order []reason
	for _, r := range a.Plan.Refusals {
		g, err := strconv.Atoi(r.Pod.UID)
		if err != nil {
			continue
		}
		k := reason{g, r.Why.String()}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
	}
	slices.SortStableFunc(order, func(x, y reason) int { return cmp.Compare(x.group, y.group) })
	for i, k := range order {
		if i == refusalsMax {
			fmt.Fprintf(b, "  and %s more\n", counted(len(order)-i, "reason"))
			break
		}
		fmt.Fprintf(b, "  %s of %s: %s\n", counted(count[k], "pod"), a.Groups[k.group], k.why)
	}
	b.WriteByte('\n')
}
