package history

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// podsNamed is how many pods of an action are named.
const podsNamed = 5

// teller lists what one decision did.
type teller struct {
	head     *journal.Head
	decision *record.Decision
	// nodes are those of the snapshot, by name; none: it is not kept.
	nodes  map[string]*cluster.Node
	prices *cluster.Prices
	out    []view.Action
	// commands has the command of an action, by the action's index.
	commands map[int]*plan.Command
}

// actionsOf returns what a decision did, in the order of the plan.
func actionsOf(head *journal.Head, d *record.Decision) *teller {
	t := &teller{head: head, decision: d, nodes: map[string]*cluster.Node{}, prices: cluster.NewPrices(d.Snapshot), commands: map[int]*plan.Command{}}
	for i := range d.Snapshot.Nodes {
		t.nodes[d.Snapshot.Nodes[i].Name] = &d.Snapshot.Nodes[i]
	}
	t.failures()
	t.launches()
	t.placed()
	t.refused()
	t.disruption()
	return t
}

func (t *teller) add(a view.Action) {
	a.At, a.Decision = t.head.At, t.head.ID.String()
	slices.Sort(a.Pools)
	a.Pools = slices.DeleteFunc(slices.Compact(a.Pools), func(name string) bool { return name == "" })
	t.out = append(t.out, a)
}

func (t *teller) failures() {
	if t.head.Bug != "" {
		t.add(view.Action{Kind: view.ActionFail, Reason: string(t.head.Loop), Why: "bug: " + t.head.Bug})
	}
	if t.head.Error != "" {
		t.add(view.Action{Kind: view.ActionFail, Reason: string(t.head.Loop), Why: t.head.Error})
	}
}

// launches has those for pending pods and for static pools: they are whole, each its own action.
func (t *teller) launches() {
	claim := func(i int) string {
		if i < len(t.decision.Claims) {
			return t.decision.Claims[i]
		}
		return ""
	}
	landed := t.landed()
	for _, list := range [][]plan.Launch{t.decision.Plan.Launches, t.decision.Scaling.Launches} {
		for i := range list {
			l := &list[i]
			a := view.Action{Kind: view.ActionLaunch, Reason: string(t.head.Loop), Pools: []string{l.Pool}, Launch: []view.PlannedNode{launch(l, claim(i))}, SavingHourly: -l.PriceHourly}
			a.Launch[0].Landed = landed[i]
			if claim(i) == "" {
				a.Why = "no NodeClaim was created"
			}
			name(&a, l.Pods)
			t.add(a)
		}
	}
	for _, r := range t.decision.Scaling.Removals {
		t.add(view.Action{Kind: view.ActionDelete, Reason: cmp.Or(r.Reason, string(t.head.Loop)), Pools: []string{r.Pool}, Remove: []view.ActionNode{t.node(&r)}})
	}
	if why := &t.decision.Scaling.Blocked; !why.IsYes() {
		t.add(view.Action{Kind: view.ActionRefuse, Reason: string(why.Reason), Pools: []string{t.decision.Scaling.Pool}, Why: why.String(), Ends: why.Ends()})
	}
}

// landed returns where the pods of launches or commands went, by their index.
func (t *teller) landed() map[int]*view.LaunchOutcome {
	landed := map[int]*view.LaunchOutcome{}
	for _, l := range t.head.Landed {
		landed[l.Launch] = &view.LaunchOutcome{There: l.There, Pods: l.Pods, At: l.At}
	}
	return landed
}

func launch(l *plan.Launch, claim string) view.PlannedNode {
	out := view.PlannedNode{Pool: l.Pool, Claim: claim, Types: len(l.Types), PriceHourly: l.PriceHourly, Pods: len(l.Pods)}
	if len(l.Types) > 0 {
		out.InstanceType = l.Types[0]
	}
	return out
}

// name says which pods an action is about.
func name(a *view.Action, pods []cluster.PodRef) {
	a.Pods += len(pods)
	for _, ref := range pods {
		if len(a.PodNames) < podsNamed {
			a.PodNames = append(a.PodNames, ref.String())
		}
		if !slices.Contains(a.Namespaces, ref.Namespace) {
			a.Namespaces = append(a.Namespaces, ref.Namespace)
		}
	}
	slices.Sort(a.Namespaces)
}

// placed has an action for each node that is to take pending pods.
func (t *teller) placed() {
	byNode, order := map[string][]cluster.PodRef{}, []*plan.Assignment(nil)
	for i := range t.decision.Plan.Assignments {
		p := &t.decision.Plan.Assignments[i]
		if byNode[p.Node] == nil {
			order = append(order, p)
		}
		byNode[p.Node] = append(byNode[p.Node], p.Pod)
	}
	slices.SortFunc(order, func(a, b *plan.Assignment) int { return cmp.Compare(a.Node, b.Node) })
	for _, p := range order {
		n := t.node(&plan.Removal{Node: p.Node, Claim: p.Claim})
		a := view.Action{Kind: view.ActionPlace, Reason: string(t.head.Loop), Remove: []view.ActionNode{n}}
		if known := t.nodes[p.Node]; known != nil {
			a.Pools = []string{known.Pool}
		}
		name(&a, byNode[p.Node])
		t.add(a)
	}
}

// refused has an action for each reason in the same words.
func (t *teller) refused() {
	index := map[string]int{}
	first := len(t.out)
	for i := range t.decision.Plan.Refusals {
		r := &t.decision.Plan.Refusals[i]
		text := string(r.Why.Reason) + " " + r.Why.String()
		at, known := index[text]
		if !known {
			at = len(t.out)
			index[text] = at
			t.add(view.Action{Kind: view.ActionRefuse, Reason: string(r.Why.Reason), Pools: poolsOf(&r.Why), Why: r.Why.String(), Ends: r.Why.Ends()})
		}
		name(&t.out[at], []cluster.PodRef{r.Pod})
	}
	slices.SortStableFunc(t.out[first:], func(a, b view.Action) int { return cmp.Compare(b.Pods, a.Pods) })
}

// poolsOf returns the pools that a refusal names.
func poolsOf(why *verdict.Verdict) (names []string) {
	for i := range why.Causes {
		names = append(names, why.Causes[i].Subject)
	}
	return names
}

func (t *teller) disruption() {
	d := &t.decision.Disruption
	for i := range d.Undos {
		u := &d.Undos[i]
		a := view.Action{Kind: view.ActionCancel, Reason: u.Reason, Drop: len(u.Drop), Why: u.Why.String(), Ends: u.Why.Ends()}
		t.nodesOf(&a, u.Open)
		t.add(a)
	}
	landed := t.landed()
	for i := range d.Commands {
		t.command(&d.Commands[i], landed[i])
	}
	for _, list := range []struct {
		kind     string
		removals []plan.Removal
	}{{view.ActionTaint, d.Marks}, {view.ActionUntaint, d.Unmarks}, {view.ActionDelete, d.Removals}} {
		for i := range list.removals {
			a := view.Action{Kind: list.kind, Reason: list.removals[i].Reason}
			t.nodesOf(&a, list.removals[i:i+1])
			t.add(a)
		}
	}
	for i := range d.Reboots {
		r := &d.Reboots[i]
		a := view.Action{Kind: view.ActionReboot, Reason: plan.Unhealthy, Why: "condition " + r.Condition}
		t.nodesOf(&a, []plan.Removal{{Node: r.Node, Claim: r.Claim, Pool: r.Pool}})
		t.add(a)
	}
}

func (t *teller) command(c *plan.Command, landed *view.LaunchOutcome) {
	a := view.Action{Kind: view.ActionBegin, Reason: c.Reason, Evictions: c.Evictions, SavingHourly: c.SavingHourly, Landed: landed}
	if c.ID == "" {
		a.Kind = view.ActionProposed
	}
	t.nodesOf(&a, c.Remove)
	for i := range c.Launch {
		a.Launch, a.Pools = append(a.Launch, launch(&c.Launch[i], "")), append(a.Pools, c.Launch[i].Pool)
		name(&a, c.Launch[i].Pods)
	}
	for i := range c.Moves {
		name(&a, []cluster.PodRef{c.Moves[i].Pod})
	}
	for i := range c.Joins {
		name(&a, []cluster.PodRef{c.Joins[i].Pod})
	}
	t.commands[len(t.out)] = c
	t.add(a)
}

func (t *teller) nodesOf(a *view.Action, list []plan.Removal) {
	for i := range list {
		a.Remove, a.Pools = append(a.Remove, t.node(&list[i])), append(a.Pools, list[i].Pool)
	}
}

func (t *teller) node(r *plan.Removal) view.ActionNode {
	out := view.ActionNode{Name: r.Node, Claim: r.Claim}
	if n := t.nodes[r.Node]; n != nil {
		out.InstanceType, out.CapacityType, out.Zone = n.Labels[label.InstanceType], n.Labels[label.CapacityType], n.Labels[label.Zone]
		out.PriceHourly, out.HasPrice = t.prices.Of(n)
	}
	return out
}
