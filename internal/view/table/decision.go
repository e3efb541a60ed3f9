package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// nodesNamed is how many nodes of an action are named, unless all are asked for.
const nodesNamed = 3

// actionHeader is that of the columns of actionRow.
var actionHeader = []string{" ", "ACTION", "REASON", "NODES", "LAUNCHES", "PODS", "$/H", "CAME TO"} //nolint:gochecknoglobals // a constant

func (p *printer) decision(v *view.Decision) {
	p.line("decision %s  %s  %s  took %s", v.ID, v.Loop, v.At.Local().Format(time.DateTime), v.Took.Round(time.Millisecond/10))
	if v.Again > 0 {
		p.line("  the same was decided %s more, the last time at %s", counted(int(v.Again), "time"), Clock(v.Until))
	}
	p.line("  %s, %s; %s", counted(v.PendingPods, "pending pod"), counted(v.Nodes, "node"), planPrice(v))
	p.bounds(v)
	if v.Version != "" && p.opts.Wide {
		p.line("  by version %s", plain(v.Version))
	}
	if v.Stays > 0 {
		p.line("  %s not disrupted, each for a reason: dovetail explain node NAME, dovetail blockers", areNodes(v.Stays))
	}
	if len(v.Actions) == 0 {
		p.line("  nothing was done")
	} else {
		p.line("")
		rows := make([][]string, len(v.Actions))
		for i := range v.Actions {
			rows[i] = p.actionRow(&v.Actions[i])
		}
		p.table(slices.Clone(actionHeader), rows)
	}
	p.whys(v.Actions)
	if v.Result != nil {
		p.line("\n%s", resultLine(v))
	}
	if !v.HasSnapshot {
		p.line("\nIts snapshot is no longer kept: types and prices of the nodes are not known, and it cannot be made again.")
	} else {
		p.line("\nmake it again: dovetail replay --id %s", v.ID)
	}
}

func areNodes(n int) string {
	if n == 1 {
		return "1 node was"
	}
	return fmt.Sprintf("%d nodes were", n)
}

func planPrice(v *view.Decision) string {
	text := fmt.Sprintf("%s/h → %s/h with the plan", Money(v.PriceBefore), Money(v.PriceAfter))
	if v.PriceBefore == v.PriceAfter {
		text = fmt.Sprintf("%s/h, unchanged by the plan", Money(v.PriceBefore))
	}
	if v.PriceBoth > 0 {
		text += fmt.Sprintf(", %s/h while both run", Money(v.PriceBoth))
	}
	return text
}

func (p *printer) bounds(v *view.Decision) {
	if v.LaunchBound > 0 {
		p.line("  no launches for the same pods can cost less than %s/h", Money(v.LaunchBound))
	}
	if v.FleetBound > 0 {
		p.line("  all nodes would cost %s/h at least, those that may not go at their price", Money(v.FleetBound))
	}
}

// whys has in words what no column can say: why pods were refused, commands cancelled, what failed.
func (p *printer) whys(actions []view.Action) {
	for i := range actions {
		a := &actions[i]
		if a.Why != "" {
			about := ""
			if len(a.PodNames) > 0 {
				about = " (" + some(a.PodNames, a.Pods) + ")"
			}
			p.line("\n%s %s%s: %s", a.Kind, a.Reason, plain(about), plain(a.Why))
			if a.Ends != "" {
				p.line("  until %s", plain(a.Ends))
			}
		}
		if o := a.Outcome; o != nil && o.Cancelled {
			p.line("\n%s of %s was cancelled: %s", a.Reason, plain(p.nodeNames(a)), plain(o.Why))
		}
	}
}

// some names things, and counts those that are not among the names.
func some(names []string, count int) string {
	text := strings.Join(names, ", ")
	if more := count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (p *printer) actionRow(a *view.Action) []string {
	pods := ""
	if a.Pods > 0 {
		pods = fmt.Sprint(a.Pods)
	}
	if a.Evictions > 0 {
		pods = fmt.Sprintf("%d, %s", a.Pods, counted(a.Evictions, "eviction"))
	}
	price := ""
	if a.SavingHourly != 0 {
		price = fmt.Sprintf("%+.4f", -a.SavingHourly)
	}
	return []string{ActionMark(a), a.Kind, a.Reason, p.nodeNames(a), p.launchNames(a), pods, price, cameTo(a)}
}

// ActionMark returns what an action does, in the signs of terraform plan: + for nodes that come, - for nodes that go.
func ActionMark(a *view.Action) string {
	switch a.Kind {
	case view.ActionLaunch:
		return "+"
	case view.ActionDelete:
		return "-"
	case view.ActionBegin, view.ActionProposed:
		if len(a.Launch) > 0 {
			return "-/+"
		}
		return "-"
	case view.ActionCancel, view.ActionRefuse, view.ActionFail:
		return "!"
	case view.ActionTaint, view.ActionUntaint, view.ActionReboot:
		return "~"
	default:
		return "="
	}
}

func (p *printer) nodeNames(a *view.Action) string {
	var names []string
	for i := range a.Remove {
		if i == nodesNamed && !p.opts.Wide {
			break
		}
		n := &a.Remove[i]
		name := cmp.Or(n.Name, n.Claim)
		if n.InstanceType != "" {
			name += fmt.Sprintf(" (%s %s %s)", n.InstanceType, n.CapacityType, Price(n.PriceHourly, n.HasPrice))
		}
		names = append(names, name)
	}
	return some(names, len(a.Remove))
}

func (p *printer) launchNames(a *view.Action) string {
	var names []string
	for i := range a.Launch {
		if i == nodesNamed && !p.opts.Wide {
			break
		}
		l := &a.Launch[i]
		names = append(names, fmt.Sprintf("%s (%s %s)", cmp.Or(l.Claim, l.Pool), cmp.Or(l.InstanceType, "?"), Money(l.PriceHourly)))
	}
	if a.Drop > 0 {
		names = append(names, fmt.Sprintf("%d removed unused", a.Drop))
	}
	return some(names, max(len(names), len(a.Launch)))
}

// cameTo says what came of an action: where the pods of its launches went, and how it ended.
func cameTo(a *view.Action) string {
	var parts []string
	for _, l := range a.AllLanded() {
		parts = append(parts, wherePlanned(l.There, l.Pods))
	}
	if end := ended(a); end != "" {
		parts = append(parts, end)
	}
	return strings.Join(parts, ", ")
}

func ended(a *view.Action) string {
	switch o := a.Outcome; {
	case o == nil:
		return ""
	case o.Cancelled && o.Deleted > 0:
		return fmt.Sprintf("cancelled %s (%s), %d deleted", Clock(o.At), o.Decision, o.Deleted)
	case o.Cancelled:
		return fmt.Sprintf("cancelled %s (%s)", Clock(o.At), o.Decision)
	case o.Done && o.Why != "":
		return fmt.Sprintf("deleted %s as %s (%s)", Clock(o.At), o.Why, o.Decision)
	case o.Done:
		return fmt.Sprintf("deleted %s (%s)", Clock(o.At), o.Decision)
	case o.Deleted > 0:
		return fmt.Sprintf("in progress at %s, %d deleted", Clock(o.At), o.Deleted)
	default:
		return "in progress at " + Clock(o.At)
	}
}

// wherePlanned says how many pods are where they were planned.
func wherePlanned(there, planned int) string {
	return fmt.Sprintf("%d of %s where planned", there, counted(planned, "pod"))
}

func resultLine(v *view.Decision) string {
	r := v.Result
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{r.Done, "done"}, {r.Cancelled, "cancelled"}, {r.Open, "in progress when last decided, at " + Clock(r.Known)}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	var text string
	if commands := r.Done + r.Cancelled + r.Open; commands > 0 {
		text = "of " + counted(commands, "command") + ": " + strings.Join(parts, ", ")
	}
	switch {
	case r.PodsPlanned > 0 && text != "":
		text += "; " + wherePlanned(r.PodsThere, r.PodsPlanned)
	case r.PodsPlanned > 0:
		text = "came out: " + wherePlanned(r.PodsThere, r.PodsPlanned)
	}
	if !r.At.IsZero() {
		text += fmt.Sprintf("; the nodes cost %s/h before, %s/h planned, %s/h at %s", Money(v.PriceBefore), Money(v.PriceAfter), Money(r.PriceHourly), Clock(r.At))
	}
	return text
}

func (p *printer) history(v *view.History) {
	if len(v.Actions) == 0 {
		p.line("Nothing of the kind was done%s.", spanText(v))
	} else {
		rows := make([][]string, len(v.Actions))
		for i := range v.Actions {
			rows[i] = append([]string{Clock(v.Actions[i].At), v.Actions[i].Decision}, p.actionRow(&v.Actions[i])...)
		}
		p.table(append([]string{"AT", "DECISION"}, actionHeader...), rows)
	}
	if p.opts.Wide {
		p.whys(v.Actions)
	}
	for i := range v.Reasons {
		p.line("\n%s", plain(sumLine(&v.Reasons[i])))
	}
	if s := v.Prices; s != nil {
		p.line("\nprice: %s/h at %s, %s/h at %s; least %s/h at %s, most %s/h at %s", Money(s.First), Clock(s.FirstAt), Money(s.Last), Clock(s.LastAt), Money(s.Least), Clock(s.LeastAt), Money(s.Peak), Clock(s.PeakAt))
	}
	p.priceChanges(v.Prices)
	if !v.Oldest.IsZero() && v.Oldest.After(v.Since) {
		p.line("the oldest decision that is kept is of %s", Clock(v.Oldest))
	}
}

// priceChanges has the points at which the price is another one than before.
func (p *printer) priceChanges(s *view.PriceSpan) {
	if s == nil || len(s.Points) == 0 {
		return
	}
	var rows [][]string
	for i, at := range s.Points {
		change := ""
		if i > 0 {
			if Money(at.PriceHourly) == Money(s.Points[i-1].PriceHourly) {
				continue
			}
			change = fmt.Sprintf("%+.4f", at.PriceHourly-s.Points[i-1].PriceHourly)
		}
		rows = append(rows, []string{Clock(at.At), at.Decision, Money(at.PriceHourly), change})
	}
	p.line("")
	p.table([]string{"AT", "DECISION", "$/H", "CHANGE"}, rows)
}

func spanText(v *view.History) string {
	text := ""
	if !v.Since.IsZero() {
		text += " since " + Clock(v.Since)
	}
	if !v.Until.IsZero() {
		text += " until " + Clock(v.Until)
	}
	return text
}

// sumLine says what the commands of a reason came to.
func sumLine(s *view.ReasonSum) string {
	text := fmt.Sprintf("%s, %s to %s: pool %s, %d of %s deleted", s.Reason, Clock(s.First), Clock(s.Last), cmp.Or(s.Pool, "-"), s.Deleted, counted(s.Nodes, "node"))
	if s.Kept > 0 {
		text += fmt.Sprintf(", %d kept", s.Kept)
	}
	if open := s.Nodes - s.Deleted - s.Kept; open > 0 {
		text += fmt.Sprintf(", %d in progress", open)
	}
	text += fmt.Sprintf("; %s planned, %s", counted(s.Launches, "launch"), counted(s.Evictions, "eviction"))
	switch {
	case s.SavingHourly > 0:
		text += fmt.Sprintf("; to save %s/h", Money(s.SavingHourly))
	case s.SavingHourly < 0:
		text += fmt.Sprintf("; to cost %s/h more", Money(-s.SavingHourly))
	}
	for i, c := range s.Causes {
		if i == 0 {
			text += "; cancelled: "
		} else {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", c.Count, c.Reason)
	}
	return text
}
