package tui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// text returns a cell of text.
func text(s string) cell { return cell{text: plain(s)} }

// number returns a cell that is sorted by a number.
func number(s string, n float64) cell { return cell{text: plain(s), number: n} }

// share returns a cell that is drawn as a bar.
func share(used, whole int64) cell {
	if whole <= 0 {
		return cell{}
	}
	part := float64(used) / float64(whole)
	return cell{text: fmt.Sprintf("%.0f %%", 100*part), number: part}
}

// instant returns a cell of a time.
func instant(at time.Time) cell {
	if at.IsZero() {
		return cell{text: "-"}
	}
	return number(table.Clock(at), float64(at.Unix()))
}

// toneOf returns how much the state of a node asks to be looked at.
func toneOf(state string) tone {
	switch state {
	case view.StateStarting, view.StateTerminating, view.StateDisrupted, view.StateRebooting:
		return busy
	case view.StateNotReady, view.StateDue:
		return alarm
	default:
		return calm
	}
}

// stateText returns what a node is doing and until when, in one line.
func stateText(s *view.Status, now time.Time) string {
	out := s.State
	if s.Text != "" {
		out += ": " + s.Text
	}
	if s.Until.After(now) {
		out += " (until " + table.Clock(s.Until) + ")"
	}
	return out
}

// labelsOf returns the labels of a node that a view has.
func labelsOf(n *view.Node) map[string]string {
	labels := map[string]string{label.NodePool: n.Pool, label.InstanceType: n.InstanceType, label.Zone: n.Zone, label.CapacityType: n.CapacityType}
	maps.Copy(labels, n.Labels)
	return labels
}

// addLabels adds a column for each label to a screen of nodes.
func (s *screen) addLabels(keys []string) {
	rows := s.rows
	for i, key := range keys {
		s.columns = append(s.columns, column{title: strings.ToUpper(key[strings.LastIndex(key, "/")+1:]), rank: nodeLabelRank, most: 24})
		s.sorts = append(s.sorts, nodeState+1+i)
	}
	s.rows = func(m *Moment, p part) []row {
		all := rows(m, p)
		for i := range all {
			for _, key := range keys {
				all[i].cells = append(all[i].cells, text(all[i].labels[key]))
			}
		}
		return all
	}
}

func nodeRows(m *Moment, _ part) (rows []row) {
	for i := range m.Fleet.Pools {
		for k := range m.Fleet.Pools[i].Nodes {
			n := &m.Fleet.Pools[i].Nodes[k]
			cells := make([]cell, nodeState+1)
			cells[nodeName] = text(n.Name)
			cells[nodePool] = text(n.Pool)
			cells[nodeType] = text(n.InstanceType)
			cells[nodeCapacity] = text(n.CapacityType)
			cells[nodePrice] = number(table.Price(n.PriceHourly, n.HasPrice), n.PriceHourly)
			cells[nodeCPU] = share(n.Usage.CPUUsed, n.Usage.CPU)
			cells[nodeMemory] = share(n.Usage.MemoryUsed, n.Usage.Memory)
			cells[nodePods] = number(fmt.Sprintf("%d/%d", n.Usage.PodsRunning, n.Usage.PodsMost), float64(n.Usage.PodsRunning))
			cells[nodeWaste] = number(table.Price(n.FreeHourly(), n.HasPrice), n.FreeHourly())
			cells[nodeAge] = number(duration(m.At.Sub(n.Created)), m.At.Sub(n.Created).Seconds())
			cells[nodeZone] = text(n.Zone)
			cells[nodeClaim] = text(n.Claim)
			cells[nodeState] = text(stateText(&n.Status, m.At))
			r := nodeRow(n, cells)
			r.subject = journal.Subject{Kind: journal.KindNode, Name: n.Name}
			rows = append(rows, r)
		}
	}
	return rows
}

// nodeRow returns a row about a node with what such rows have in common.
func nodeRow(n *view.Node, cells []cell) row {
	return row{
		key: n.Name + "\n" + n.Claim, cells: cells, tone: toneOf(n.Status.State), instanceType: n.InstanceType, pool: n.Pool, reason: string(n.Status.Cause.Reason),
		labels: labelsOf(n), value: n, facts: func() []string { return nodeFacts(n) },
	}
}

func nodeFacts(n *view.Node) []string {
	s := &n.Status
	facts := []string{s.State + ": " + s.Text}
	switch {
	case !s.Until.IsZero():
		facts = append(facts, "until "+table.Clock(s.Until))
	case s.When != "":
		facts = append(facts, "until "+strings.TrimPrefix(s.When, "when "))
	}
	facts = append(facts,
		strings.Join([]string{n.InstanceType, n.CapacityType, n.Zone}, " ")+", "+table.Price(n.PriceHourly, n.HasPrice)+" an hour, pool "+n.Pool+", claim "+n.Claim,
		fmt.Sprintf("cpu %s of %s, memory %s of %s asked for", table.Cores(n.Usage.CPUUsed), table.Cores(n.Usage.CPU), table.Bytes(n.Usage.MemoryUsed), table.Bytes(n.Usage.Memory)))
	for _, g := range n.Groups {
		facts = append(facts, fmt.Sprintf("  %s of %s: cpu %s, memory %s", counted(g.Pods, "pod"), strings.TrimSpace(g.Kind+" "+g.String()), table.Cores(g.CPU), table.Bytes(g.Memory)))
	}
	return facts
}

// phaseOf returns how far the life of a NodeClaim is: launched, registered, ready.
func phaseOf(n *view.Node) (steps int, word string) {
	switch {
	case n.Status.State != view.StateStarting:
		if word = "ready"; toneOf(n.Status.State) == busy {
			word = n.Status.State
		}
		return 3, word
	case n.Name == n.Claim || n.Name == "":
		return 1, "launch"
	default:
		return 2, "register"
	}
}

func claimRows(m *Moment, p part) (rows []row) {
	for i := range m.Fleet.Pools {
		for k := range m.Fleet.Pools[i].Nodes {
			n := &m.Fleet.Pools[i].Nodes[k]
			if n.Claim == "" {
				continue
			}
			steps, word := phaseOf(n)
			bar := strings.Repeat(p.theme.mark("●", "#"), steps) + strings.Repeat(p.theme.mark("○", "-"), 3-steps)
			node := n.Name
			if node == n.Claim {
				node = "-"
			}
			r := nodeRow(n, []cell{
				text(n.Claim), number(bar+" "+word, float64(steps)), number(duration(m.At.Sub(n.Created)), m.At.Sub(n.Created).Seconds()), text(n.Pool), text(n.InstanceType), text(n.CapacityType), text(n.Zone),
				number(table.Price(n.PriceHourly, n.HasPrice), n.PriceHourly), text(node), text(stateText(&n.Status, m.At)),
			})
			r.subject = journal.Subject{Kind: journal.KindClaim, Name: n.Claim}
			rows = append(rows, r)
		}
	}
	return rows
}

func pendingRows(m *Moment, _ part) (rows []row) {
	for i := range m.Pending.Groups {
		g := &m.Pending.Groups[i]
		workload := ""
		if len(g.Workloads) > 0 {
			workload = strings.TrimSpace(g.Workloads[0].Kind + " " + g.Workloads[0].String())
		}
		if more := len(g.Workloads) - 1; more > 0 {
			workload += fmt.Sprintf(" +%d", more)
		}
		why := g.Text
		if g.Ends != "" {
			why += "; ends " + g.Ends
		}
		age := m.At.Sub(g.Since)
		rows = append(rows, row{
			key: g.Text, tone: alarm, reason: string(g.Reason), value: g, subject: podOf(g.Names, 0), more: strings.Join(g.Names, "\n"),
			cells: []cell{number(fmt.Sprint(g.Pods), float64(g.Pods)), number(duration(age), age.Seconds()), text(string(g.Reason)), text(workload), text(why)},
			facts: func() []string { return pendingFacts(g) },
		})
	}
	for i := range m.Pending.Targets {
		t := &m.Pending.Targets[i]
		rows = append(rows, row{
			key: "\n" + t.Node, tone: busy, value: t, subject: podOf(t.Names, 0), more: strings.Join(t.Names, "\n"),
			cells: []cell{number(fmt.Sprint(t.Pods), float64(t.Pods)), text("-"), text("planned"), text(""), text("for " + t.Node + ": they run when it takes pods")},
			facts: func() []string {
				return append([]string{counted(t.Pods, "pod") + " planned for " + t.Node}, t.Names...)
			},
		})
	}
	if n := m.Pending.Undecided; n > 0 {
		rows = append(rows, row{key: "undecided", tone: busy, cells: []cell{number(fmt.Sprint(n), float64(n)), text("-"), text("undecided"), text(""), text("they are decided about when the batch window ends")}, value: m.Pending})
	}
	return rows
}

// podOf returns one of the pods named as namespace/name.
func podOf(names []string, at int) journal.Subject {
	if at >= len(names) {
		return journal.Subject{}
	}
	namespace, name, _ := strings.Cut(names[at], "/")
	return journal.Subject{Kind: journal.KindPod, Namespace: namespace, Name: name}
}

func pendingFacts(g *view.PendingGroup) []string {
	facts := []string{fmt.Sprintf("%s: %s", g.Reason, counted(g.Pods, "pod"))}
	if len(g.Misses) == 0 {
		facts = append(facts, g.Text)
	}
	for _, m := range g.Misses {
		line := "  " + m.Subject + ": " + m.Text
		if m.Ends != "" {
			line += " (ends " + m.Ends + ")"
		}
		facts = append(facts, line)
	}
	if g.Ends != "" {
		facts = append(facts, "what would help: it ends "+g.Ends)
	}
	for _, w := range g.Workloads {
		facts = append(facts, fmt.Sprintf("  %s of %s", counted(w.Pods, "pod"), strings.TrimSpace(w.Kind+" "+w.String())))
	}
	return append(facts, "pods: "+strings.Join(g.Names, ", "))
}

func poolRows(m *Moment, _ part) (rows []row) {
	for i := range m.Pools.Pools {
		q := &m.Pools.Pools[i]
		ready, in := "yes", calm
		if q.Unready != "" {
			ready, in = "no: "+q.Unready, alarm
		}
		limits := table.LimitText(q.Limits)
		if limits == "" {
			limits = "none"
		}
		rows = append(rows, row{
			key: q.Name, tone: in, pool: q.Name, value: q, subject: journal.Subject{Kind: journal.KindPool, Name: q.Name},
			cells: []cell{
				text(q.Name), number(fmt.Sprint(q.Nodes.Total), float64(q.Nodes.Total)), number(table.Money(q.Price.Hourly), q.Price.Hourly), number(table.Share(q.Price.SpotShare()), q.Price.SpotShare()),
				share(q.Usage.CPUUsed, q.Usage.CPU), text(table.BudgetText(q.Budgets, m.At)), number(fmt.Sprint(q.Drifted), float64(q.Drifted)), text(limits), text(ready),
			},
			facts: func() []string {
				return append([]string{
					"policy " + q.Policy + ", consolidateAfter " + table.AfterText(q.ConsolidateAfter), "limits: " + limits, "may go now: " + table.BudgetText(q.Budgets, m.At), "ready: " + ready,
				}, q.InvalidBudgets...)
			},
		})
	}
	return rows
}

func decisionRows(m *Moment, _ part) (rows []row) {
	for i := len(m.Decisions.Decisions) - 1; i >= 0; i-- { // the newest first
		d := &m.Decisions.Decisions[i]
		last, in := d.At, calm
		if d.Until.After(last) {
			last = d.Until
		}
		if d.Error != "" || d.Bug != "" {
			in = alarm
		}
		price := table.Money(d.PriceBefore)
		if after := table.Money(d.PriceAfter); after != price {
			price += " > " + after
		}
		rows = append(rows, row{
			key: fmt.Sprint(d.ID), tone: in, reason: string(d.Loop), value: d,
			cells: []cell{
				number(fmt.Sprintf("#%s", d.ID), float64(d.ID.Number)), number(duration(m.At.Sub(last)), m.At.Sub(last).Seconds()), text(string(d.Loop)), text(marksOf(d)),
				text(fmt.Sprintf("%d", d.Pending)), text(price), number(d.Took.Round(time.Millisecond).String(), d.Took.Seconds()), number(fmt.Sprint(d.Again), float64(d.Again)), text(decided(d)),
			},
			facts: func() []string { return decisionFacts(d) },
		})
	}
	return rows
}

// priceRows has what the nodes cost by the decisions that found another price than the one before.
func priceRows(m *Moment, _ part) (rows []row) {
	heads := slices.Clone(m.Decisions.Decisions)
	slices.SortStableFunc(heads, func(a, b journal.Head) int { return a.At.Compare(b.At) })
	heads = slices.DeleteFunc(heads, func(d journal.Head) bool { // a static pool's decision has the nodes of that pool alone
		return d.Loop == record.Static || d.Nodes == 0
	})
	peak := 0.0
	for i := range heads {
		peak = max(peak, heads[i].PriceBefore)
	}
	for i := range heads {
		d, change := &heads[i], cell{}
		if i > 0 {
			before := heads[i-1].PriceBefore
			if table.Money(before) == table.Money(d.PriceBefore) {
				continue
			}
			change = number(fmt.Sprintf("%+.4f", d.PriceBefore-before), d.PriceBefore-before)
		}
		part := cell{}
		if peak > 0 {
			part = number(fmt.Sprintf("%.0f %%", 100*d.PriceBefore/peak), d.PriceBefore/peak)
		}
		rows = append(rows, row{
			key: fmt.Sprint(d.ID), reason: string(d.Loop), value: d,
			cells: []cell{
				number(table.Clock(d.At), float64(d.At.Unix())), number(table.Money(d.PriceBefore), d.PriceBefore), change, part,
				number(fmt.Sprintf("#%s", d.ID), float64(d.ID.Number)), text(decided(d)),
			},
			facts: func() []string { return decisionFacts(d) },
		})
	}
	slices.Reverse(rows)
	return rows
}

// marksOf counts what a decision does to nodes: + to launch, - to remove, ~ commands that replace.
func marksOf(d *journal.Head) string {
	return fmt.Sprintf("+%d -%d ~%d", d.Launches, d.Removals, d.Steps)
}

// decided says in a few words what a decision did.
func decided(d *journal.Head) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{d.Placed, "to nodes that are there"}, {d.Launched, "to new nodes"}, {d.Refused, "refused"}} {
		if p.n > 0 {
			parts = append(parts, counted(p.n, "pod")+" "+p.what)
		}
	}
	if d.Launches > 0 {
		parts = append(parts, counted(d.Launches, "node")+" to launch")
	}
	if d.Removals > 0 {
		parts = append(parts, counted(d.Removals, "node")+" to remove")
	}
	for _, wrong := range []string{d.Error, d.Bug} {
		if wrong != "" {
			parts = append(parts, "failed: "+wrong)
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

func decisionFacts(d *journal.Head) []string {
	facts := []string{
		fmt.Sprintf("%s at %s, in %s: %s", d.Loop, table.Clock(d.At), d.Took.Round(time.Millisecond), decided(d)),
		fmt.Sprintf("%s before, %s pending; nodes cost %s an hour before and %s after", counted(d.Nodes, "node"), counted(d.Pending, "pod"), table.Money(d.PriceBefore), table.Money(d.PriceAfter)),
	}
	if d.Bound > 0 {
		facts = append(facts, "its launches cost at least "+table.Money(d.Bound)+" an hour, whatever is launched")
	}
	if d.FleetBound > 0 {
		facts = append(facts, "all nodes cost at least "+table.Money(d.FleetBound)+" an hour, wherever their pods are")
	}
	if d.Again > 0 {
		facts = append(facts, fmt.Sprintf("the same was decided %s more, the last time at %s", counted(int(d.Again), "time"), table.Clock(d.Until)))
	}
	return append(facts, fmt.Sprintf("dovetail replay --id %s makes it again and shows its nodes and pods", d.ID))
}

func blockerRows(m *Moment, _ part) (rows []row) {
	for i := range m.Blockers.Blockers {
		b := &m.Blockers.Blockers[i]
		ends, in := b.When, calm
		if !b.Until.IsZero() {
			ends = "at " + table.Clock(b.Until)
		}
		if b.Due > 0 {
			in = alarm
		}
		r := row{
			key: string(b.Reason) + "\n" + b.Kind + "\n" + b.Object, tone: in, reason: string(b.Reason), value: b, more: b.Text + "\n" + strings.Join(b.Names, "\n"),
			cells: []cell{
				number(table.Money(b.Price.Hourly), b.Price.Hourly), number(fmt.Sprint(b.Nodes), float64(b.Nodes)), number(fmt.Sprint(b.Due), float64(b.Due)), text(string(b.Reason)),
				text(table.CauseText(b.Cause, b.InUse)), text(ends),
			},
			facts: func() []string {
				return []string{b.Text, "ends " + ends, fmt.Sprintf("%s, %d of them due, cost %s an hour", counted(b.Nodes, "node"), b.Due, table.Money(b.Price.Hourly)), "nodes: " + strings.Join(b.Names, ", ")}
			},
		}
		if len(b.Names) > 0 {
			r.subject = journal.Subject{Kind: journal.KindNode, Name: b.Names[0]}
		}
		if b.Kind == "NodePool" {
			r.pool = b.Object
		}
		rows = append(rows, r)
	}
	return rows
}

func nextRows(m *Moment, _ part) (rows []row) {
	for i := range m.Next.Entries {
		e := &m.Next.Entries[i]
		in, unless := calm, e.Unless
		if e.Now {
			in = busy
		}
		if e.When != "" && e.At.IsZero() {
			unless = strings.TrimSuffix("waits: "+e.When+"; "+e.Unless, "; ")
		}
		r := row{
			key: fmt.Sprintf("%s\n%s\n%s", e.Kind, e.Name, e.Action), tone: in, value: e,
			cells: []cell{number(table.WhenText(e), float64(i)), text(e.Subject()), text(e.Action), text(unless)},
			facts: func() []string { return []string{table.WhenText(e) + ": " + e.Subject(), e.Action, unless} },
		}
		switch e.Kind {
		case "Node":
			r.subject = journal.Subject{Kind: journal.KindNode, Name: e.Name}
		case "NodePool":
			r.subject, r.pool = journal.Subject{Kind: journal.KindPool, Name: e.Name}, e.Name
		case "Offering":
			r.subject = journal.Subject{Kind: journal.KindType, Name: strings.Fields(e.Name + " -")[0]}
		}
		rows = append(rows, r)
	}
	return rows
}

func costRows(m *Moment, _ part) (rows []row) {
	c := m.Cost
	add := func(name string, hourly float64, value any, more ...cell) {
		cells := append([]cell{text(name), number(table.Money(hourly), hourly), number(table.Monthly(hourly), hourly), share(int64(hourly*1e6), int64(c.Price.Hourly*1e6))}, more...)
		r := row{key: name, cells: cells, value: value, facts: func() []string {
			return []string{fmt.Sprintf("%s: %s an hour, %s a month", name, table.Money(hourly), table.Monthly(hourly)), "of " + table.Money(c.Price.Hourly) + " for all nodes, divided by what pods ask for of cpu or memory, whichever is the larger share"}
		}}
		if kind, rest, is := strings.Cut(name, " "); is && c.By == view.ByWorkload {
			if namespace, workload, is := strings.Cut(rest, "/"); is && journal.IsWorkload(strings.ToLower(kind)) {
				r.subject = journal.Subject{Kind: strings.ToLower(kind), Namespace: namespace, Name: workload}
			}
		}
		rows = append(rows, r)
	}
	for i := range c.Rows {
		w := &c.Rows[i]
		add(w.Name, w.Hourly, w, number(fmt.Sprint(w.Pods), float64(w.Pods)), number(table.Cores(w.CPU), float64(w.CPU)), number(table.Bytes(w.Memory), float64(w.Memory)))
	}
	if c.Price.Hourly > 0 {
		add("(idle)", c.IdleHourly, c, cell{}, cell{}, cell{})
	}
	return rows
}

func offeringRows(m *Moment, _ part) (rows []row) {
	for i := range m.Offerings.Offerings {
		o := &m.Offerings.Offerings[i]
		state, in := "dearer by "+table.Share(o.RiskShare), calm
		if o.Short {
			state, in = "short", alarm
		}
		rows = append(rows, row{
			key: strings.Join([]string{o.InstanceType, o.Zone, o.CapacityType, o.Reservation, o.Group, o.ID}, "\n"), tone: in, value: o, instanceType: o.InstanceType, reason: state,
			labels:  map[string]string{label.InstanceType: o.InstanceType, label.Zone: o.Zone, label.CapacityType: o.CapacityType},
			subject: journal.Subject{Kind: journal.KindType, Name: o.InstanceType},
			cells: []cell{
				text(o.InstanceType), text(o.Zone), text(o.CapacityType), text(state), instant(o.Until), number(table.Price(o.PriceHourly, o.HasPrice), o.PriceHourly),
				number(fmt.Sprint(o.Nodes), float64(o.Nodes)), text(o.Learned),
			},
			facts: func() []string {
				return []string{strings.TrimSuffix(strings.Join([]string{o.InstanceType, o.Zone, o.CapacityType, o.ID}, " "), " ") + ": " + state, "learned from: " + o.Learned}
			},
		})
	}
	return rows
}

func healthRows(m *Moment, _ part) (rows []row) {
	for i := range m.Overview.Health.Findings {
		f := &m.Overview.Health.Findings[i]
		r := row{key: f.String(), tone: alarm, value: f, cells: []cell{text(strings.TrimSpace(f.Kind + " " + f.Name)), text(f.Text)}, facts: func() []string { return []string{f.String()} }}
		switch {
		case f.Kind == "NodePool" && f.Name != "":
			r.subject, r.pool = journal.Subject{Kind: journal.KindPool, Name: f.Name}, f.Name
		case f.Kind == "Node" && f.Name != "":
			r.subject = journal.Subject{Kind: journal.KindNode, Name: f.Name}
		}
		rows = append(rows, r)
	}
	return rows
}
