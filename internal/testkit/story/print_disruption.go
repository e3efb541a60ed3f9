package story

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// PrintDisruption returns everything that disruption decided, a line each.
func PrintDisruption(p *plan.Disruption) string {
	var b strings.Builder
	for i := range p.Commands {
		printCommand(&b, &p.Commands[i])
	}
	for i := range p.Undos {
		printUndo(&b, &p.Undos[i])
	}
	for _, list := range []struct {
		word     string
		removals []plan.Removal
	}{{"mark", p.Marks}, {"unmark", p.Unmarks}, {"remove", p.Removals}} {
		for _, r := range list.removals {
			fmt.Fprintf(&b, "%s %s: %s%s\n", list.word, r.Node, r.Reason, within(r.Bound))
		}
	}
	for _, r := range p.Reboots {
		fmt.Fprintf(&b, "reboot %s: %s%s\n", r.Node, r.Condition, within(r.Bound))
	}
	for _, n := range p.SoftTaints {
		fmt.Fprintf(&b, "add soft taint to %s\n", n)
	}
	for _, n := range p.SoftTaintsOver {
		fmt.Fprintf(&b, "remove soft taint from %s\n", n)
	}
	for _, s := range p.Scores {
		fmt.Fprintf(&b, "score %.2f of %s for removing %s: %s\n", s.Value, s.Pool, s.Node, map[bool]string{true: "approved", false: "rejected"}[s.Approved])
	}
	for _, v := range p.Blocked {
		fmt.Fprintf(&b, "keep %s (%s)\n", v, v.Reason)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// printCommand writes the nodes that are removed, where their pods go, and what is launched for them.
func printCommand(b *strings.Builder, s *plan.Command) {
	fmt.Fprintf(b, "command %s: remove %s", s.Reason, removed(s.Remove))
	if s.Evictions > 0 {
		fmt.Fprintf(b, ", %d evictions", s.Evictions)
	}
	fmt.Fprintf(b, ", saves %.2f\n", s.SavingHourly)
	if s.TerminateFirst != "" {
		fmt.Fprintf(b, "  first, for %s\n", s.TerminateFirst)
	}
	onNode := map[string][]cluster.PodRef{}
	var nodes []string
	for _, m := range s.Moves {
		if onNode[m.Node] == nil {
			nodes = append(nodes, m.Node)
		}
		onNode[m.Node] = append(onNode[m.Node], m.Pod)
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		fmt.Fprintf(b, "  move %s to %s\n", names(onNode[n]), n)
	}
	for i := range s.Launch {
		l := &s.Launch[i]
		fmt.Fprintf(b, "  launch from %s [%s] at %.2f for %s\n", l.Pool, strings.Join(l.Types[:min(typesShown, len(l.Types))], " "), l.PriceHourly, contents(l))
	}
}

// within says how long a drain may take, if that is bounded.
func within(bound cluster.Bound) string {
	if !bound.IsSet {
		return ""
	}
	return " within " + bound.Within.String()
}

// printUndo writes what is taken back, and why.
func printUndo(b *strings.Builder, u *plan.Undo) {
	fmt.Fprintf(b, "undo %s: open %s", u.Command, removed(u.Open))
	if len(u.Drop) > 0 {
		fmt.Fprintf(b, ", drop %s", removed(u.Drop))
	}
	if u.Failed {
		b.WriteString(", failed")
	}
	fmt.Fprintf(b, "\n  %s (%s)\n", u.Why, u.Why.Reason)
}

func removed(list []plan.Removal) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Node)
	}
	return strings.Join(out, " ")
}
