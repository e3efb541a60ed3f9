package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Lines says everything that a decision decided, a line for each pod, launch and node.
func Lines(d *Decision) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	sayPlan(say, &d.Plan)
	sayDisruption(say, &d.Disruption)
	sayScaling(say, &d.Scaling)
	if d.Stays.Count > 0 {
		say("%d nodes stay, for reasons with the sum %s", d.Stays.Count, d.Stays.Sum)
	}
	for _, v := range d.Plan.Idle {
		say("pool %s: %s", v.Subject, v)
	}
	return out
}

func sayPlan(say func(string, ...any), p *plan.Plan) {
	for _, pl := range p.Assignments {
		say("pod %s: to %s", pl.Pod, pl.Node)
	}
	for i := range p.Launches {
		sayLaunch(say, "launch", i, &p.Launches[i])
	}
	for _, r := range p.Refusals {
		say("pod %s: refused: %s: %s", r.Pod, r.Why.Reason, r.Why)
	}
	if p.Resilience.IsKnown() {
		say("%s", p.Resilience)
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		for _, h := range b.Held {
			say("buffer %s/%s: %d chunks on %s", b.Namespace, b.Name, h.Count, h.Node)
		}
		if missing := b.Chunks - b.HeldCount() - b.Launched; missing > 0 {
			say("buffer %s/%s: no room for %d chunks: %s: %s", b.Namespace, b.Name, missing, b.Why.Reason, b.Why)
		}
	}
}

func sayDisruption(say func(string, ...any), p *plan.Disruption) {
	for _, list := range []struct {
		word     string
		removals []plan.Removal
	}{{"mark", p.Marks}, {"unmark", p.Unmarks}, {"remove", p.Removals}} {
		for _, r := range list.removals {
			say("node %s: %s: %s", r.Node, list.word, r.Reason)
		}
	}
	for i := range p.Reboots {
		say("node %s: reboot: %s", p.Reboots[i].Node, p.Reboots[i].Condition)
	}
	for _, n := range p.SoftTaints {
		say("node %s: soft taint set", n)
	}
	for _, n := range p.SoftTaintsOver {
		say("node %s: soft taint removed", n)
	}
	for i := range p.Commands {
		sayCommand(say, i, &p.Commands[i])
	}
	for i := range p.Undos {
		u := &p.Undos[i]
		say("command %s: cancelled: %s: %s; %d replacements removed, %d nodes without the disrupted taint", u.Command, u.Why.Reason, u.Why, len(u.Drop), len(u.Open))
	}
	for _, v := range p.Blocked {
		say("node %s: stays: %s: %s", v.Subject, v.Reason, v)
	}
}

func sayScaling(say func(string, ...any), s *plan.Scaling) {
	for i := range s.Launches {
		sayLaunch(say, "launch", i, &s.Launches[i])
	}
	for _, r := range s.Removals {
		say("node %s: removed: pool %s has too many", r.Node, s.Pool)
	}
	if !s.Blocked.IsYes() {
		say("pool %s: short of %d nodes: %s: %s", s.Pool, s.Missing, s.Blocked.Reason, s.Blocked)
	}
}

func sayLaunch(say func(string, ...any), word string, i int, l *plan.Launch) {
	what := strings.Join(l.Types[:min(1, len(l.Types))], "")
	if more := len(l.Types) - 1; more > 0 {
		what += fmt.Sprintf(" (or %d more types)", more)
	}
	rules := l.Requirements.Intersect(nil)
	delete(rules, label.InstanceType)
	say("%s %d: from pool %s: %s at $%.4f per hour; requests %s; %s", word, i, l.Pool, what, l.PriceHourly, l.Requests, rules)
	for _, ref := range l.Pods {
		say("pod %s: to %s %d", ref, word, i)
	}
	for _, c := range l.Chunks {
		say("buffer %s: %d chunks on %s %d", c.Buffer, c.Count, word, i)
	}
}

func sayCommand(say func(string, ...any), i int, s *plan.Command) {
	say("command %d: %s: saves $%.4f per hour, %d evictions, %d nodes removed, %d launched", i, s.Reason, s.SavingHourly, s.Evictions, len(s.Remove), len(s.Launch))
	for _, r := range s.Remove {
		say("node %s: removed by command %d: %s", r.Node, i, r.Reason)
	}
	for j := range s.Launch {
		sayLaunch(say, fmt.Sprintf("command %d launch", i), j, &s.Launch[j])
	}
	for _, m := range s.Moves {
		say("pod %s: moved to %s by command %d", m.Pod, m.Node, i)
	}
}

// Differences says in which lines the plans of two decisions differ: those of a alone begin
// with "- ", those of b alone with "+ ". It is empty for the same plan.
func Differences(a, b *Decision) []string {
	if SamePlan(a, b) {
		return nil
	}
	if a.Stays != (Stays{}) || b.Stays != (Stays{}) {
		a, b = a.withoutStays(), b.withoutStays()
	}
	x, y := Lines(a), Lines(b)
	var out []string
	for _, l := range without(x, y) {
		out = append(out, "- "+l)
	}
	for _, l := range without(y, x) {
		out = append(out, "+ "+l)
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	if len(out) == 0 {
		out = append(out, firstDifference(a.EncodePlan(), b.EncodePlan()))
	}
	return out
}

// without returns the lines that are not in the other list, each as often as it is missing.
func without(lines, other []string) (rest []string) {
	count := map[string]int{}
	for _, l := range other {
		count[l]++
	}
	for _, l := range lines {
		if count[l]--; count[l] < 0 {
			rest = append(rest, l)
		}
	}
	return rest
}

// contextShown is how much of a written plan is shown on each side of a difference.
const contextShown = 60

// firstDifference shows where two written plans part.
func firstDifference(a, b []byte) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s []byte) string { return string(s[max(0, i-contextShown):min(len(s), i+contextShown)]) }
	return fmt.Sprintf("the written plans part at byte %d: …%s… and …%s…", i, cut(a), cut(b))
}
