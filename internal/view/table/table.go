// Package table draws views as text. A table has a line for each thing, columns that align, and after it
// what no column can say. Read Write first, then whatif.go, decision.go (the past), printer.go (columns) and words.go (figures as text).
package table

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/view"
)

// staleAfter is from when on a view is said to be old.
const staleAfter = time.Minute

// Write draws a view. It is an error if there is no table for its type.
func Write(w io.Writer, v any, opts Options) error {
	p := &printer{opts: opts}
	var head view.Head
	switch v := v.(type) {
	case *view.Overview:
		head = v.Head
		p.overview(v)
	case *view.Fleet:
		head = v.Head
		p.fleet(v)
	case *view.NodeView:
		head = v.Head
		p.node(&v.Node)
	case *view.Pending:
		head = v.Head
		p.pending(v)
	case *view.Pools:
		head = v.Head
		p.pools(v)
	case *view.Blockers:
		head = v.Head
		p.blockers(v)
	case *view.Offerings:
		head = v.Head
		p.offerings(v)
	case *view.Cost:
		head = v.Head
		p.cost(v)
	case *view.Next:
		head = v.Head
		p.next(v)
	case *view.Decision:
		head.At = opts.Now // it is past
		p.decision(v)
	case *view.History:
		head.At = opts.Now
		p.history(v)
	case *view.WhatIf:
		head.At = opts.Now // what was read is as old as the answer
		p.whatIf(v)
	default:
		return fmt.Errorf("there is no table for %T", v)
	}
	if head.Scope != "" {
		p.line("only what has %s is shown", plain(head.Scope))
	}
	if head.Observes {
		p.line("%s", view.ObservesText)
	}
	if age := opts.Now.Sub(head.At); age >= staleAfter {
		p.line("as of %s, %s ago: the controller has had nothing to decide since, or does not decide", head.At.Local().Format(time.DateTime), duration(age))
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *printer) overview(v *view.Overview) {
	state := "healthy"
	if !v.Health.Healthy {
		state = "needs a look"
	}
	rows := [][]string{
		{"nodes", nodeCounts(v.Nodes, v.Foreign)},
		{"pods", fmt.Sprintf("%d running, %d pending, %d of them refused", v.Usage.PodsRunning, v.Pending.Pods, v.Pending.Refused)},
		{"price", priceLine(&v.Price)},
		{"least", boundLine(v.Bound)},
		{"cpu", usageLine(v.Usage.CPUUsed, v.Usage.CPU, Cores)},
		{"memory", usageLine(v.Usage.MemoryUsed, v.Usage.Memory, Bytes)},
		{"pools", fmt.Sprint(v.Pools)},
	}
	p.table([]string{"health", state}, rows)
	if len(v.Health.Findings) > 0 {
		p.line("\nneeds a look:")
	}
	for _, f := range v.Health.Findings {
		p.line("  %s", plain(f.String()))
	}
	if len(v.Blockers) > 0 {
		p.line("\nwhat keeps nodes (dovetail blockers):")
		p.blockerRows(v.Blockers)
	}
	if len(v.Next) > 0 {
		p.line("\nnext (dovetail next):")
		p.entryRows(v.Next)
	}
}

func (p *printer) fleet(v *view.Fleet) {
	nodes := v.Nodes()
	if len(nodes) == 0 {
		p.line("There are no nodes.")
		return
	}
	header := []string{"NAME", "POOL", "TYPE", "CAPACITY", "$/H", "CPU", "MEMORY", "PODS", "AGE", "STATE", "UNTIL"}
	if p.opts.Holes {
		header = slices.Insert(header, 5, "FREE $/H")
		slices.SortStableFunc(nodes, func(a, b *view.Node) int { return cmp.Compare(b.FreeHourly(), a.FreeHourly()) })
	}
	if p.opts.Wide {
		header = append(header, "ZONE", "CLAIM", "WHY")
	}
	rows := make([][]string, len(nodes))
	for i, n := range nodes {
		row := []string{
			n.Name, n.Pool, n.InstanceType, n.CapacityType, Price(n.PriceHourly, n.HasPrice), Percent(n.Usage.CPUUsed, n.Usage.CPU), Percent(n.Usage.MemoryUsed, n.Usage.Memory),
			fmt.Sprint(n.Usage.PodsRunning), duration(v.At.Sub(n.Created)), n.Status.State, Ends(&n.Status, v.At),
		}
		if p.opts.Holes {
			row = slices.Insert(row, 5, Price(n.FreeHourly(), n.HasPrice))
		}
		if p.opts.Wide {
			row = append(row, n.Zone, n.Claim, n.Status.Text)
		}
		rows[i] = row
	}
	p.table(header, rows)
}

func (p *printer) node(n *view.Node) {
	p.table([]string{"node", n.Name}, [][]string{
		{"claim", n.Claim},
		{"pool", n.Pool},
		{"type", strings.Join([]string{n.InstanceType, n.Zone, n.CapacityType}, " ")},
		{"price", Price(n.PriceHourly, n.HasPrice)},
		{"cpu", usageLine(n.Usage.CPUUsed, n.Usage.CPU, Cores)},
		{"memory", usageLine(n.Usage.MemoryUsed, n.Usage.Memory, Bytes)},
		{"state", n.Status.State},
		{"why", n.Status.Text},
		{"ends", n.Status.When},
	})
	var rows [][]string
	for _, g := range n.Groups {
		rows = append(rows, []string{g.Namespace, g.Kind, g.Name, fmt.Sprint(g.Pods), Cores(g.CPU), Bytes(g.Memory)})
	}
	p.line("")
	p.table([]string{"NAMESPACE", "KIND", "WORKLOAD", "PODS", "CPU", "MEMORY"}, rows)
}

func (p *printer) pending(v *view.Pending) {
	if v.Pods == 0 {
		p.line("No pod asks for a node.")
		return
	}
	p.line("%d pods ask for a node: %d refused, %d planned for a node, %d not decided about", v.Pods, v.Refused, v.Planned, v.Undecided)
	for i := range v.Groups {
		g := &v.Groups[i]
		p.line("\n%s: %s, for %s", g.Reason, counted(g.Pods, "pod"), duration(v.At.Sub(g.Since)))
		if len(g.Misses) == 0 {
			p.line("  %s", plain(g.Text))
		}
		for _, m := range g.Misses {
			p.line("  %s", plain(m.Subject+": "+m.Text))
		}
		p.line("  ends %s", plain(g.Ends))
		for _, w := range g.Workloads {
			p.line("  %s of %s", counted(w.Pods, "pod"), plain(strings.TrimSpace(w.Kind+" "+w.String())))
		}
	}
	var rows [][]string
	for _, t := range v.Targets {
		rows = append(rows, []string{t.Node, fmt.Sprint(t.Pods), strings.Join(t.Names[:min(3, len(t.Names))], ", ")})
	}
	if len(rows) > 0 {
		p.line("")
		p.table([]string{"PLANNED FOR", "PODS", "SOME"}, rows)
	}
}

func (p *printer) pools(v *view.Pools) {
	if len(v.Pools) == 0 {
		p.line("There is no NodePool: nothing can be launched.")
		return
	}
	var rows [][]string
	for i := range v.Pools {
		q := &v.Pools[i]
		row := []string{q.Name, fmt.Sprint(q.Nodes.Total), Money(q.Price.Hourly), Share(q.Price.SpotShare()), LimitText(q.Limits), goesText(q, v.At), fmt.Sprint(q.Drifted), readyText(q.Unready)}
		if p.opts.Wide {
			row = append(row, fmt.Sprint(q.Weight), q.Policy, AfterText(q.ConsolidateAfter), Percent(q.Usage.CPUUsed, q.Usage.CPU), Percent(q.Usage.MemoryUsed, q.Usage.Memory))
		}
		rows = append(rows, row)
	}
	header := []string{"NAME", "NODES", "$/H", "SPOT", "LIMITS", "MAY GO NOW", "DRIFTED", "READY"}
	if p.opts.Wide {
		header = append(header, "WEIGHT", "POLICY", "AFTER", "CPU", "MEMORY")
	}
	p.table(header, rows)
}

// goesText says how many nodes of a pool may be disrupted.
func goesText(q *view.Pool, at time.Time) string {
	if q.Paused != "" {
		return "paused: " + q.Paused
	}
	return BudgetText(q.Budgets, at)
}

func (p *printer) blockers(v *view.Blockers) {
	if len(v.Blockers) == 0 {
		p.line("Nothing keeps nodes: there are none, or they are on their way.")
		return
	}
	p.blockerRows(v.Blockers)
	p.line("\n%s of %s per hour is for nodes that something other than their use keeps: less can be saved, since their pods need room elsewhere.", Money(v.HeldHourly), Money(v.Price.Hourly))
}

func (p *printer) blockerRows(blockers []view.Blocker) {
	var rows [][]string
	for i := range blockers {
		b := &blockers[i]
		row := []string{Money(b.Price.Hourly), fmt.Sprint(b.Nodes), string(b.Reason), CauseText(b.Cause, b.InUse), b.When}
		if !b.Until.IsZero() {
			row[4] = "at " + Clock(b.Until)
		}
		if p.opts.Wide {
			row = append(row, fmt.Sprint(b.Due), b.Text, strings.Join(b.Names[:min(5, len(b.Names))], ","))
		}
		rows = append(rows, row)
	}
	header := []string{"$/H", "NODES", "REASON", "BY", "ENDS"}
	if p.opts.Wide {
		header = append(header, "DUE", "TEXT", "SOME")
	}
	p.table(header, rows)
}

func (p *printer) offerings(v *view.Offerings) {
	var rows [][]string
	named := slices.ContainsFunc(v.Offerings, func(o view.Offering) bool { return o.ID != "" })
	for i := range v.Offerings {
		o := &v.Offerings[i]
		state := "dearer by " + Share(o.RiskShare)
		if o.Short {
			state = "short"
		}
		until := ""
		if !o.Until.IsZero() {
			until = Clock(o.Until)
		}
		row := []string{o.InstanceType, o.Zone, o.CapacityType, Price(o.PriceHourly, o.HasPrice), state, until, o.Learned, fmt.Sprint(o.Nodes)}
		if p.opts.Wide {
			row = append(row, o.Reservation, o.Group)
		}
		if named {
			row = append(row, o.ID)
		}
		rows = append(rows, row)
	}
	header := []string{"TYPE", "ZONE", "CAPACITY", "$/H", "STATE", "UNTIL", "LEARNED FROM", "NODES"}
	if p.opts.Wide {
		header = append(header, "RESERVATION", "GROUP")
	}
	if named {
		header = append(header, "ID")
	}
	if len(rows) > 0 {
		p.table(header, rows)
	}
	p.line("%d of %d offerings are short.", v.Short, v.Offered)
}

func (p *printer) cost(v *view.Cost) {
	rows := make([][]string, 0, len(v.Rows)+1)
	add := func(name string, hourly float64, more ...string) {
		part := ""
		if v.Price.Hourly > 0 {
			part = Share(hourly / v.Price.Hourly)
		}
		rows = append(rows, append([]string{name, Money(hourly), Monthly(hourly), part}, more...))
	}
	for _, r := range v.Rows {
		add(r.Name, r.Hourly, fmt.Sprint(r.Pods), Cores(r.CPU), Bytes(r.Memory))
	}
	if v.Scope != "" {
		add("(others)", v.OthersHourly, "", "", "")
	}
	add("(idle)", v.IdleHourly, "", "", "")
	add("(all)", v.Price.Hourly, "", "", "")
	p.table([]string{strings.ToUpper(strings.TrimPrefix(v.By, view.ByLabel)), "$/H", "$/MONTH", "SHARE", "PODS", "CPU", "MEMORY"}, rows)
	if v.Price.Unpriced > 0 {
		p.line("The price of %s is not known, and counts nothing.", counted(v.Price.Unpriced, "node"))
	}
}

func (p *printer) next(v *view.Next) {
	if len(v.Entries) == 0 {
		p.line("Nothing is to be done until the cluster changes.")
		return
	}
	p.entryRows(v.Entries)
	if v.More > 0 {
		p.line("and %d more", v.More)
	}
}

func (p *printer) entryRows(entries []view.Entry) {
	var rows [][]string
	for i := range entries {
		e := &entries[i]
		rows = append(rows, []string{WhenText(e), e.Subject(), e.Action, cond(e)})
	}
	p.table([]string{"WHEN", "SUBJECT", "WHAT", "UNLESS"}, rows)
}
