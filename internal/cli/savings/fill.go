package savings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// host is a node with its pods, now or when steps were taken.
type host struct {
	Node
	room quantity.List // what pods of all kinds may use
	rest quantity.List // what pods that stay where they are use
	pods map[string]*cluster.Constraints
}

// fleet is the nodes that have a price, by name.
type fleet struct {
	hosts map[string]*host
	on    map[string]string // node of each pod
}

// fleetOf returns the nodes as they are.
func fleetOf(snap *cluster.Snapshot) *fleet {
	f, prices := &fleet{hosts: map[string]*host{}, on: map[string]string{}}, cluster.NewPrices(snap)
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		price, known := prices.Of(n)
		if !known {
			continue
		}
		h := &host{
			Node: Node{n.Name, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType], n.Pool, price},
			room: n.Allocatable, rest: n.Used, pods: map[string]*cluster.Constraints{},
		}
		for k := range n.Reschedulable {
			r := &n.Reschedulable[k]
			h.rest = h.rest.MinusFloor(r.Constraints.Requests)
			h.pods[r.String()] = r.Constraints
			f.on[r.String()] = n.Name
		}
		f.hosts[n.Name] = h
	}
	return f
}

// take takes a step, as the plan of the core has it and the file names its nodes, and returns it as it is shown.
func (f *fleet) take(snap *cluster.Snapshot, command *plan.Command, i int, file *scenario.Plan) Step {
	var out Step
	for k := range command.Launch {
		named := &file.Steps[i].Launch[k]
		h := launched(snap, &command.Launch[k], named)
		f.hosts[named.Name] = h
		out.Launch = append(out.Launch, h.Node)
		out.Saves -= h.Price
	}
	move := func(ref cluster.PodRef, to string) {
		pod, from := ref.String(), f.hosts[f.on[ref.String()]]
		if from == nil {
			return
		}
		out.Evict = append(out.Evict, pod)
		if h := f.hosts[to]; h != nil {
			h.pods[pod] = from.pods[pod]
		}
		delete(from.pods, pod)
		f.on[pod] = to
	}
	for k := range command.Launch {
		for _, ref := range command.Launch[k].Pods {
			move(ref, file.Steps[i].Launch[k].Name)
		}
	}
	for _, m := range command.Moves {
		move(m.Pod, m.Node)
	}
	for _, j := range command.Joins {
		move(j.Pod, file.Steps[j.Command].Launch[j.Launch].Name)
	}
	for _, r := range command.Remove {
		if h := f.hosts[r.Node]; h != nil {
			out.Remove = append(out.Remove, h.Node)
			out.Saves += h.Price
			delete(f.hosts, r.Node)
		}
	}
	slices.Sort(out.Evict)
	return out
}

// launched returns the node of a launch.
func launched(snap *cluster.Snapshot, l *plan.Launch, named *scenario.NamedNode) *host {
	h := &host{pods: map[string]*cluster.Constraints{}}
	pool, _ := snap.PoolByName(l.Pool)
	choice, err := scenario.Cheapest(snap, l)
	if err != nil { // the file could not have been written
		return h
	}
	h.Node = Node{named.Name, choice.Type.Name, named.Zone, named.CapacityType, pool.Name, choice.Offering.PriceHourly}
	h.room = choice.Type.Allocatable()
	if labels, ok := labelsOf(pool, choice.Type, choice.Offering); ok {
		h.rest = daemonsOn(snap, pool, labels)
	}
	return h
}

// share returns what part of a node an amount is: the larger of its parts of cpu and memory.
func share(amount, room quantity.List) float64 {
	most := 0.0
	for _, name := range []string{quantity.CPU, quantity.Memory} {
		if room[name] > 0 {
			most = max(most, float64(amount[name])/float64(room[name]))
		}
	}
	return most
}

// Lines of workloads that are none.
const (
	daemons = "(DaemonSets and other pods that do not move)"
	idle    = "(free room)"
)

// spent adds to lines what each workload costs: its pods' shares of their nodes. set chooses now or after.
func (f *fleet) spent(lines map[string]*Line, workloads map[string]string, set func(l *Line, pods int, dollars float64)) {
	add := func(name string, pods int, dollars float64) {
		if lines[name] == nil {
			lines[name] = &Line{Name: name}
		}
		set(lines[name], pods, dollars)
	}
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		h := f.hosts[name]
		parts, sum := map[string]float64{daemons: share(h.rest, h.room)}, share(h.rest, h.room)
		pods := map[string]int{}
		for _, pod := range slices.Sorted(maps.Keys(h.pods)) {
			w, part := cmp.Or(workloads[pod], pod), share(h.pods[pod].Requests, h.room)
			parts[w], pods[w], sum = parts[w]+part, pods[w]+1, sum+part
		}
		whole := max(1, sum)
		for _, w := range slices.Sorted(maps.Keys(parts)) {
			add(w, pods[w], h.Price*parts[w]/whole)
		}
		add(idle, 0, h.Price*(1-sum/whole))
	}
}

func (f *fleet) count(types, pools map[string]*Line, set func(l *Line, count int, dollars float64)) {
	add := func(lines map[string]*Line, name, note string, price float64) {
		if lines[name] == nil {
			lines[name] = &Line{Name: name, Note: note}
		}
		set(lines[name], 1, price)
	}
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		h := f.hosts[name]
		add(types, h.Type+" "+h.Kind, fmt.Sprintf("%.4f $/h each", h.Price), h.Price)
		add(pools, h.Pool, "", h.Price)
	}
}

func setNow(l *Line, count int, dollars float64) { l.Count, l.Now = l.Count+count, l.Now+dollars }
func setAfter(l *Line, count int, dollars float64) {
	l.CountAfter, l.After = l.CountAfter+count, l.After+dollars
}

// fill adds the figures.
func (r *Report) fill(d *decision, s *subject) {
	f := fleetOf(d.snap)
	r.Now, r.After, r.Evictions = d.now, d.report.PricePerHour, d.report.Evictions
	r.Bound, r.BoundKept = d.bound, max(d.bound, min(d.result.BoundHourly, r.After))
	r.Nodes, r.Pending = len(f.hosts), len(d.snap.Pending)
	types, pools, work := map[string]*Line{}, map[string]*Line{}, map[string]*Line{}
	f.count(types, pools, setNow)
	f.spent(work, s.workloads, setNow)
	for _, h := range f.hosts {
		r.Pods += len(h.pods)
	}
	r.addCauses(d, s, f)
	for i := range d.steps {
		step := f.take(d.snap, &d.result.Steps[i], i, d.plan)
		step.After = d.report.Prices[i]
		r.Steps = append(r.Steps, step)
	}
	r.NodesAfter = len(f.hosts)
	f.count(types, pools, setAfter)
	f.spent(work, s.workloads, setAfter)
	for _, np := range s.proposed() {
		if l := pools[np.Name]; l != nil {
			l.Note = "proposed"
		}
	}
	r.Types, r.Pools, r.Workloads = sorted(types), sorted(pools), sorted(work)
}

func sorted(lines map[string]*Line) []Line {
	out := []Line{}
	for _, l := range lines {
		out = append(out, *l)
	}
	slices.SortFunc(out, compareLines)
	return out
}

// addCauses adds the nodes that stay, by cause.
func (r *Report) addCauses(d *decision, s *subject, f *fleet) {
	alone, stays := map[string]*Cause{}, map[string]*Cause{}
	add := func(causes map[string]*Cause, why, node string) {
		if causes[why] == nil {
			causes[why] = &Cause{Why: why}
		}
		c := causes[why]
		c.Nodes = append(c.Nodes, node)
		if h := f.hosts[node]; h != nil {
			c.Price += h.Price
		}
	}
	for node, why := range s.adoption.alone {
		add(alone, why, node)
	}
	for i := range d.snap.Nodes {
		n := &d.snap.Nodes[i]
		if _, said := s.adoption.alone[n.Name]; said || n.Claim != "" {
			continue
		}
		add(alone, "it has no NodeClaim", n.Name)
	}
	for _, v := range d.result.Kept {
		node := v.Subject
		_, priced := f.hosts[node]
		switch v.Subject = ""; {
		case v.Reason == verdict.Unconsolidatable && priced && !heldPods(d.snap, node):
			add(stays, "nothing was found that saves enough for the evictions", node)
		default:
			add(alone, v.String(), node)
		}
	}
	r.Alone, r.Stays = causes(alone), causes(stays)
}

// heldPods reports whether a node has pods for which no node would ever be right.
func heldPods(snap *cluster.Snapshot, name string) bool {
	i := slices.IndexFunc(snap.Nodes, func(n cluster.Node) bool { return n.Name == name })
	return i >= 0 && slices.ContainsFunc(snap.Nodes[i].Reschedulable, func(p cluster.ReschedulablePod) bool { return p.Constraints.Invalid != "" })
}

func causes(m map[string]*Cause) []Cause {
	out := []Cause{}
	for _, c := range m {
		slices.Sort(c.Nodes)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Cause) int { return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.Why, b.Why)) })
	return out
}
