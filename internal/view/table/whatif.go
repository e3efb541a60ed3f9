package table

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// How many lines of each kind are shown; wide shows all.
const (
	stepsShown   = 20
	driftShown   = 10
	changesShown = 10
	noPlaceShown = 10
)

// most returns how many of n lines are shown.
func (p *printer) most(n, shown int) int {
	if p.opts.Wide {
		return n
	}
	return min(n, shown)
}

func (p *printer) more(n, shown int, noun string) {
	if !p.opts.Wide && n > shown {
		p.line("  and %s more (-o wide shows all)", counted(n-shown, noun))
	}
}

func (p *printer) whatIf(v *view.WhatIf) {
	if len(v.Changes) == 0 {
		p.line("Nothing is different.")
	}
	for _, c := range v.Changes {
		p.line("%s", plain(c))
	}
	p.line("")
	rows := [][]string{p.outlook("now", &v.Now, v.At), p.outlook("left alone", &v.Left, v.At), p.outlook("with the change", &v.Then, v.At)}
	p.table([]string{"CLUSTER", "NODES", "PRICE", "A MONTH", "SPOT", "LEAST POSSIBLE", "EVICTIONS", "AT MOST", "IN"}, rows)
	p.drift(v)
	p.steps(v)
	p.changes("pool", v.Pools)
	if p.opts.Wide {
		p.changes("workload", v.Workloads)
	}
	p.noPlace(v.NoPlace)
	if len(v.Stay) > 0 {
		p.line("\n%s there at the end:", isAre(len(v.Stay), "drifted node"))
		for _, d := range v.Stay[:p.most(len(v.Stay), driftShown)] {
			p.line("  %s: %s", plain(d.Node), plain(d.Why))
		}
		p.more(len(v.Stay), driftShown, "node")
	}
	p.line("\n%s", sum(v))
	for _, line := range v.Presumes {
		p.line("(%s)", plain(line))
	}
}

func isAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

func (p *printer) outlook(name string, o *view.Outlook, from time.Time) []string {
	least, in := "not known", "-"
	if o.LeastHourly > 0 {
		least = Money(o.LeastHourly) + "/h"
		if !o.Proven {
			least = "over " + least
		}
	}
	if o.At.After(from) {
		in = duration(o.At.Sub(from))
	}
	price := Money(o.Price.Hourly) + "/h"
	if o.Price.Unpriced > 0 {
		price += fmt.Sprintf(" + %s", counted(o.Price.Unpriced, "unknown"))
	}
	return []string{name, fmt.Sprint(o.Nodes), price, Monthly(o.Price.Hourly), Share(o.Price.SpotShare()), least, fmt.Sprint(o.Evictions), Money(o.PeakHourly) + "/h", in}
}

func (p *printer) drift(v *view.WhatIf) {
	for _, x := range []struct {
		of   []view.Drift
		text string
	}{{v.Drift, "%s drifted because of it:"}, {v.NoDrift, "%s not drifted any more:"}} {
		if len(x.of) == 0 {
			continue
		}
		p.line("\n"+x.text, isAre(len(x.of), "node"))
		for _, d := range x.of[:p.most(len(x.of), driftShown)] {
			p.line("  %s of pool %s: %s", plain(d.Node), plain(d.Pool), plain(d.Reason))
		}
		p.more(len(x.of), driftShown, "node")
	}
}

func (p *printer) steps(v *view.WhatIf) {
	if len(v.Steps) == 0 {
		return
	}
	p.line("\nwhat would be done:")
	var rows [][]string
	for i := range v.Steps[:p.most(len(v.Steps), stepsShown)] {
		rows = append(rows, stepRow(&v.Steps[i], v.At))
	}
	p.table([]string{"DO", "IN", "REASON", "NODES", "NEW", "EVICTIONS", "PRICE", "DONE IN"}, rows)
	p.more(len(v.Steps), stepsShown, "step")
}

// Mark returns the sign of a step: + launches, - removes, -/+ replaces.
func Mark(removes, launches int) string {
	switch {
	case removes == 0:
		return "+"
	case launches == 0:
		return "-"
	default:
		return "-/+"
	}
}

func stepRow(s *view.WhatIfStep, from time.Time) []string {
	done := "not done"
	switch {
	case s.Undone != "":
		done = "taken back: " + s.Undone
	case !s.DoneAt.IsZero():
		done = duration(s.DoneAt.Sub(from))
	case len(s.Remove) == 0:
		done = "-"
	}
	reason := s.Reason
	if reason == "" {
		reason = "pending pods"
	}
	return []string{
		Mark(len(s.Remove), len(s.Launch)), duration(s.At.Sub(from)), reason, nodeNames(s.Remove), nodeKinds(s.Launch),
		fmt.Sprint(s.Evictions), Difference(-s.SavingHourly), done,
	}
}

// Difference returns by how much a price changes: what it costs more, or saves.
func Difference(hourly float64) string {
	const little = 0.00005
	switch {
	case hourly >= little:
		return "costs " + Money(hourly) + "/h more"
	case hourly <= -little:
		return "saves " + Money(-hourly) + "/h"
	default:
		return "same price"
	}
}

func nodeNames(nodes []view.StepNode) string {
	if len(nodes) == 0 {
		return "-"
	}
	text := fmt.Sprintf("%s %s %s", nodes[0].Name, nodes[0].InstanceType, nodes[0].CapacityType)
	if len(nodes) > 1 {
		text += fmt.Sprintf(" and %d more", len(nodes)-1)
	}
	return text
}

func nodeKinds(nodes []view.StepNode) string {
	count, order := map[string]int{}, []string{}
	for _, n := range nodes {
		kind := n.InstanceType + " " + n.CapacityType
		if count[kind]++; count[kind] == 1 {
			order = append(order, kind)
		}
	}
	for i, kind := range order {
		order[i] = fmt.Sprintf("%d %s", count[kind], kind)
	}
	return strings.Join(order, ", ")
}

// changes shows what costs something else with the change, and how many others do not.
func (p *printer) changes(noun string, all []view.Change) {
	const little = 0.00005
	var differ []view.Change
	for _, c := range all {
		if d := c.ThenHourly - c.LeftHourly; d >= little || d <= -little || c.LeftNodes != c.ThenNodes {
			differ = append(differ, c)
		}
	}
	if len(differ) == 0 {
		return
	}
	p.line("")
	var rows [][]string
	for _, c := range differ[:p.most(len(differ), changesShown)] {
		row := []string{c.Name, Money(c.NowHourly) + "/h", Money(c.LeftHourly) + "/h", Money(c.ThenHourly) + "/h", Difference(c.ThenHourly - c.LeftHourly)}
		if noun == "pool" {
			row = append(row, fmt.Sprintf("%d → %d", c.LeftNodes, c.ThenNodes))
		}
		rows = append(rows, row)
	}
	header := []string{strings.ToUpper(noun), "NOW", "LEFT ALONE", "WITH THE CHANGE", "DIFFERENCE"}
	if noun == "pool" {
		header = append(header, "NODES")
	}
	p.table(header, rows)
	p.more(len(differ), changesShown, noun)
}

func (p *printer) noPlace(all []view.NoPlace) {
	if len(all) == 0 {
		return
	}
	p.line("\nwhat no new node could take any more:")
	for _, n := range all[:p.most(len(all), noPlaceShown)] {
		stay := ""
		if n.Running > 0 {
			stay = fmt.Sprintf(" (%d run where they may stay)", n.Running)
		}
		p.line("  %s of %s%s: %s", counted(n.Pods, "pod"), plain(n.Workload.String()), stay, plain(n.Why))
	}
	p.more(len(all), noPlaceShown, "workload")
}

// sum returns the last line: what would be done in all, beside what is done without the change.
func sum(v *view.WhatIf) string {
	if !v.IsDifferent() {
		return "The change makes no difference to nodes, pods or price."
	}
	replaced, removed, launched := 0, 0, 0
	for i := range v.Steps {
		s := &v.Steps[i]
		if s.Undone != "" {
			continue
		}
		both := min(len(s.Remove), len(s.Launch))
		replaced, removed, launched = replaced+both, removed+len(s.Remove)-both, launched+len(s.Launch)-both
	}
	text := fmt.Sprintf("%d to replace, %d to remove, %d to launch, %s", replaced, removed, launched, counted(v.Then.Evictions, "eviction"))
	if !v.Then.DriftDoneAt.IsZero() {
		text += ", drift is done in " + duration(v.Then.DriftDoneAt.Sub(v.At))
	}
	return text + "; beside leaving it alone: " + Difference(v.Then.Price.Hourly-v.Left.Price.Hourly) + noPlaceSum(v.NoPlace)
}

func noPlaceSum(all []view.NoPlace) string {
	pods := 0
	for _, n := range all {
		pods += n.Pods
	}
	if pods == 0 {
		return ""
	}
	return fmt.Sprintf("; no new node could take %s", counted(pods, "pod"))
}
