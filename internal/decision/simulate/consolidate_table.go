package simulate

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

const (
	// hoursPerMonth is what clouds reckon with.
	hoursPerMonth = 730
	// stepsMax and keptMax are how many lines of steps, and of nodes that stay, are shown.
	stepsMax, keptMax = 40, 15
)

// table returns the answer as a person reads it.
func (a *Saving) table() string {
	var b strings.Builder
	pods := 0
	for i := range a.Snapshot.Nodes {
		pods += len(a.Snapshot.Nodes[i].Reschedulable)
	}
	fmt.Fprintf(&b, "%s: %s, %s that could move, %s $/h\n\n", a.Name,
		counted(len(a.Snapshot.Nodes), "node"), counted(pods, "pod"), dollars(a.PriceHourly))
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "(%s)\n", note)
	}
	a.writeSteps(&b)
	evictions := 0
	for i := range a.Steps {
		evictions += a.Steps[i].Evictions
	}
	saved := a.PriceHourly - a.AfterHourly
	if len(a.Steps) > 0 {
		fmt.Fprintf(&b, "\n%s, %s: %s $/h instead of %s\nsaves %s $/h, %.2f $/month\n", counted(len(a.Steps), "step"), counted(evictions, "eviction"),
			dollars(a.AfterHourly), dollars(a.PriceHourly), dollars(saved), saved*hoursPerMonth)
	}
	fmt.Fprintf(&b, "no plan for these pods can be below %s $/h\n", dollars(a.BoundHourly))
	a.writeKept(&b)
	fmt.Fprintf(&b, "planned in %s (%s of CPU)\n", a.Wall.Round(time.Millisecond/10), a.CPU.Round(time.Millisecond/10))
	return b.String()
}

func (a *Saving) writeSteps(b *strings.Builder) {
	if len(a.Steps) == 0 {
		b.WriteString("nothing would be done\n")
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "STEP\tEVICT\tSAVES $/H\tREMOVE\tLAUNCH\n")
	for i := range a.Steps {
		if i == stepsMax {
			break
		}
		s := &a.Steps[i]
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\n", i+1, s.Evictions, dollars(s.SavingHourly), removals(s), a.launches(s))
	}
	w.Flush() //nolint:errcheck // a strings.Builder takes everything
	if more := len(a.Steps) - stepsMax; more > 0 {
		fmt.Fprintf(b, "and %s more\n", counted(more, "step"))
	}
}

// removals names the nodes that a step removes, as far as there is room.
func removals(s *plan.Command) string {
	if len(s.Remove) == 1 {
		return s.Remove[0].Node
	}
	return fmt.Sprintf("%s and %d more", s.Remove[0].Node, len(s.Remove)-1)
}

// launches counts what a command launches by type, in order.
func (a *Saving) launches(s *plan.Command) string {
	count, order := map[string]int{}, []string{}
	for i := range s.Launch {
		name := "?"
		if choice, err := scenario.Cheapest(a.Snapshot, &s.Launch[i]); err == nil {
			name = choice.Type.Name + " " + choice.Offering.CapacityType
		}
		if count[name] == 0 {
			order = append(order, name)
		}
		count[name]++
	}
	for i, name := range order {
		if count[name] > 1 {
			order[i] = fmt.Sprintf("%d x %s", count[name], name)
		}
	}
	return cmp.Or(strings.Join(order, ", "), "-")
}

func (a *Saving) writeKept(b *strings.Builder) {
	if len(a.Kept) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s would stay:\n", counted(len(a.Kept), "node"))
	for i, v := range a.Kept {
		if i == keptMax {
			fmt.Fprintf(b, "  and %d more\n", len(a.Kept)-i)
			break
		}
		fmt.Fprintf(b, "  %s\n", v)
	}
	b.WriteByte('\n')
}
