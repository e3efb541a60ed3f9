package savings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

const (
	mebibyte = 1 << 20
	// mayKey is the label that nodes have on which a group's pods may be: their selectors, affinity to nodes and
	// tolerations in one. namespaceKey is a label of pods.
	mayKey, namespaceKey = "may-be-here/", "namespace"
)

// kind is pods that are alike to the checker: to the scheduler, and to who evicts them.
type kind struct {
	constraints *cluster.Constraints
	held        bool
	pdbs        string // indexes in Snapshot.PDBs
	fixed       bool   // not reschedulable: only counted
}

// numbered returns the snapshot with the index of its group for the UID of each reschedulable pod, and the groups.
func numbered(snap *cluster.Snapshot) (*cluster.Snapshot, []kind) {
	out := *snap
	out.Nodes = slices.Clone(snap.Nodes)
	var kinds []kind
	at := map[kind]int{}
	for i := range out.Nodes {
		out.Nodes[i].Reschedulable = slices.Clone(out.Nodes[i].Reschedulable)
		for k := range out.Nodes[i].Reschedulable {
			r := &out.Nodes[i].Reschedulable[k]
			key := kind{r.Constraints, r.DoNotDisrupt != "", fmt.Sprint(r.PDBs), false}
			if len(r.PDBs) == 0 {
				key.pdbs = ""
			}
			g, ok := at[key]
			if !ok {
				g = len(kinds)
				at[key] = g
				kinds = append(kinds, key)
			}
			r.UID = strconv.Itoa(g)
		}
	}
	return &out, kinds
}

// export is a snapshot with a plan of steps as files for the checker.
type export struct {
	snap  *cluster.Snapshot
	kinds []kind
	out   *scenario.Scenario
	plan  *scenario.Plan
	// fixed are the groups of pods that are only counted, by constraints.
	fixed map[*cluster.Constraints]int
	types map[string]string // names of instance types by what they are
	// keys are the topology keys of rules; may are the labels of groups (mayKey).
	keys map[string]bool
	may  []string
	// narrow are the groups that may not be on some node.
	narrow []bool
	// unjudged counts what the format has no words for, by what that is.
	unjudged map[string]int
}

// exported returns the scenario of a numbered snapshot, and the plan with names that the scenario knows. What the
// format cannot say is left out and counted.
func exported(snap *cluster.Snapshot, kinds []kind, plan *scenario.Plan) *export {
	e := &export{
		snap: snap, kinds: kinds, plan: plan, fixed: map[*cluster.Constraints]int{}, types: map[string]string{}, keys: map[string]bool{}, unjudged: map[string]int{},
		out: &scenario.Scenario{Format: scenario.Format, Name: plan.Scenario, NodeDomains: true},
	}
	for i := range snap.Pools {
		p := &snap.Pools[i]
		e.out.NodePools = append(e.out.NodePools, scenario.NodePool{Name: p.Name, LimitCPU: p.Limits[quantity.CPU], LimitMem: p.Limits[quantity.Memory] / mebibyte})
	}
	e.out.NodePools = append(e.out.NodePools, scenario.NodePool{Name: ""})
	e.addFixed()
	e.addGroups()
	prices := cluster.NewPrices(snap)
	for i := range snap.Nodes {
		e.addNode(&snap.Nodes[i], prices)
	}
	for i := range plan.Steps {
		for k := range plan.Steps[i].Launch {
			e.addLaunch(&plan.Steps[i].Launch[k])
		}
	}
	return e
}

// addFixed makes groups for pods that stay where they are and that rules may count.
func (e *export) addFixed() {
	for i := range e.snap.Nodes {
		for _, c := range fixedOn(&e.snap.Nodes[i]) {
			if _, ok := e.fixed[c.Constraints]; !ok {
				e.fixed[c.Constraints] = len(e.kinds)
				e.kinds = append(e.kinds, kind{constraints: c.Constraints, held: true, fixed: true})
			}
		}
	}
}

// fixedOn counts the pods of a node that are not reschedulable, in the order of Node.Pods.
func fixedOn(n *cluster.Node) (counts []cluster.PodCount) {
	movable := map[*cluster.Constraints]int32{}
	for k := range n.Reschedulable {
		movable[n.Reschedulable[k].Constraints]++
	}
	for _, c := range n.Pods {
		if c.Count -= movable[c.Constraints]; c.Count > 0 {
			counts = append(counts, c)
		}
	}
	return counts
}

// addGroups makes the groups of pods.
func (e *export) addGroups() {
	e.narrow = make([]bool, len(e.kinds))
	for g := range e.kinds {
		k := &e.kinds[g]
		for i := range e.snap.Nodes {
			n := &e.snap.Nodes[i]
			if !k.fixed && !mayBe(k.constraints, n.Labels, n.Taints) {
				e.narrow[g] = true
				break
			}
		}
	}
	for g := range e.kinds {
		e.may = append(e.may, mayKey+strconv.Itoa(g))
		e.out.PodGroups = append(e.out.PodGroups, e.group(g))
	}
}

// mayBe reports whether a node's labels and taints let a pod onto it.
func mayBe(c *cluster.Constraints, labels map[string]string, taints []cluster.Taint) bool {
	return fit.Matches(c.Terms, labels) && fit.Tolerated(c.Tolerations, taints)
}

func (e *export) group(g int) scenario.PodGroup {
	k := &e.kinds[g]
	out := scenario.PodGroup{DoNotDisrupt: k.held, Labels: map[string]string{namespaceKey + "/": k.constraints.Namespace}, Ext: map[string]int64{}}
	maps.Copy(out.Labels, k.constraints.Labels)
	if k.fixed {
		return out // what it asks for is taken from the node's room
	}
	for name, n := range k.constraints.Requests {
		switch {
		case name == quantity.CPU:
			out.CPU = n
		case name == quantity.Pods:
		case strings.HasPrefix(name, quantity.AttachPrefix), strings.HasPrefix(name, quantity.DevicePrefix):
			e.unjudged["limits of volumes and devices"]++
		case n > 0:
			out.Ext[name] = n // in its own unit: memory is in MiB elsewhere
		}
	}
	out.NodeSelector = map[string]string{e.may[g]: "yes"}
	e.addRules(&out, k.constraints, e.narrow[g])
	if len(k.constraints.Ports) > 0 {
		e.unjudged["host ports"]++
	}
	for _, at := range strings.Fields(strings.Trim(k.pdbs, "[]")) {
		i, err := strconv.Atoi(at)
		if err != nil {
			continue // there is none but numbers
		}
		if n := e.snap.PDBs[i].Allowed; out.DisruptionsAllowed == nil || n < *out.DisruptionsAllowed {
			out.DisruptionsAllowed = &n
		}
	}
	return out
}

// addRules adds the rules that a group has in relation to other pods.
func (e *export) addRules(out *scenario.PodGroup, c *cluster.Constraints, narrow bool) {
	for i := range c.Spread {
		sp := &c.Spread[i]
		match, ok := matchLabels(&sp.Selector, c.Namespace)
		if !ok || narrow && !sp.IgnoreAffinity || sp.HonorTaints || sp.MinDomains > 0 {
			e.unjudged["topology spread that depends on node affinity, taints or minDomains"]++
			continue
		}
		e.keys[sp.Key] = true
		out.Spread = append(out.Spread, scenario.Spread{Key: sp.Key, MaxSkew: sp.MaxSkew, MatchLabels: match})
	}
	term := func(t *cluster.PodTerm, into *[]scenario.Term) {
		match, ok := map[string]string(nil), len(t.Namespaces) == 1 && !t.NamespaceSelector.Some
		if ok {
			match, ok = matchLabels(&t.Selector, t.Namespaces[0])
		}
		if !ok {
			e.unjudged["affinity by other selectors than matchLabels of one namespace"]++
			return
		}
		e.keys[t.Key] = true
		*into = append(*into, scenario.Term{Key: t.Key, MatchLabels: match})
	}
	for i := range c.Affinity {
		term(&c.Affinity[i], &out.Affinity)
	}
	for i := range c.AntiAffinity {
		term(&c.AntiAffinity[i], &out.AntiAffinity)
	}
}

// matchLabels returns a selector as labels; false: it is more than that.
func matchLabels(s *cluster.Selector, namespace string) (map[string]string, bool) {
	out := map[string]string{namespaceKey + "/": namespace}
	if !s.Some {
		return nil, false
	}
	for key, r := range s.Requirements {
		value, ok := r.Only()
		if !ok {
			return nil, false
		}
		out[key] = value
	}
	return out, true
}

// addNode adds a node with its pods. Its instance type is one of its own: it has the room that the node says, and its
// labels. Nothing of it can be launched.
func (e *export) addNode(n *cluster.Node, prices *cluster.Prices) {
	price, _ := prices.Of(n)
	room := maps.Clone(n.Allocatable)
	for name, used := range n.Used {
		room[name] -= used
	}
	for k := range n.Reschedulable {
		for name, used := range n.Reschedulable[k].Constraints.Requests {
			room[name] += used
		}
	}
	out := scenario.Node{Name: n.Name, Zone: n.Labels[label.Zone], CapacityType: n.Labels[label.CapacityType], Pool: n.Pool}
	if _, ok := e.snap.PoolByName(n.Pool); !ok {
		out.Pool = ""
	}
	count := map[int]int{}
	for k := range n.Reschedulable {
		g, err := strconv.Atoi(n.Reschedulable[k].UID)
		if err == nil { // numbered gave it
			count[g]++
		}
	}
	for _, c := range fixedOn(n) {
		count[e.fixed[c.Constraints]] += int(c.Count)
		room[quantity.Pods] += int64(c.Count) // the checker counts it as a pod, too
	}
	for _, g := range slices.Sorted(maps.Keys(count)) {
		out.Pods = append(out.Pods, scenario.Share{g, count[g]})
	}
	out.Type = e.typeNamed("running", traits{n.Labels, n.Taints, n.Capacity, room}, scenario.Offering{Zone: out.Zone, CapacityType: out.CapacityType, Price: price, Unavailable: true})
	e.out.Nodes = append(e.out.Nodes, out)
}

// addLaunch adds the instance type of a launch, with the room that DaemonSets leave, and names it in the plan.
func (e *export) addLaunch(l *scenario.NamedNode) {
	pool, _ := e.snap.PoolByName(l.Pool)
	at := slices.IndexFunc(pool.Types, func(t *catalog.Type) bool { return t.Name == l.Type })
	if at < 0 {
		return // the checker will say that there is no such type
	}
	t := pool.Types[at]
	o := slices.IndexFunc(t.Offerings, func(o catalog.Offering) bool {
		return o.Zone == l.Zone && o.CapacityType == l.CapacityType && o.Launchable() && o.HasPrice()
	})
	if o < 0 {
		return
	}
	labels, ok := labelsOf(pool, t, &t.Offerings[o])
	if !ok {
		return // the pool does not allow the type
	}
	room := t.Allocatable()
	for name, used := range daemonsOn(e.snap, pool, labels) {
		room[name] -= used
	}
	l.Type = e.typeNamed("launch", traits{labels, pool.Taints, t.Capacity, room}, scenario.Offering{Zone: l.Zone, CapacityType: l.CapacityType, Price: t.Offerings[o].PriceHourly})
}

// labelsOf returns the labels of a launched node as far as they are settled; false: the pool does not allow the type.
func labelsOf(pool *cluster.Pool, t *catalog.Type, o *catalog.Offering) (map[string]string, bool) {
	labels := map[string]string{}
	for key, r := range t.Requirements.Intersect(pool.Requirements).Intersect(o.Requirements()) {
		if value, ok := r.Only(); ok {
			labels[key] = value
		} else if r.IsImpossible() {
			return nil, false
		}
	}
	return labels, true
}

// daemonsOn returns what the DaemonSet pods of a launched node ask for.
func daemonsOn(snap *cluster.Snapshot, pool *cluster.Pool, labels map[string]string) quantity.List {
	sum := quantity.List{}
	for i := range snap.Daemons {
		if d := snap.Daemons[i].Constraints; mayBe(d, labels, pool.Taints) {
			sum.Add(d.Requests)
		}
	}
	return sum
}

// traits is what nodes of an instance type are like. room is what pods may have of the capacity.
type traits struct {
	labels         map[string]string
	taints         []cluster.Taint
	capacity, room quantity.List
}

// typeNamed returns the name of the instance type that is so. Those that are alike share one.
func (e *export) typeNamed(what string, of traits, o scenario.Offering) string {
	labels, capacity, room := of.labels, of.capacity, of.room
	t := scenario.InstanceType{CPU: capacity[quantity.CPU], Mem: capacity[quantity.Memory] / mebibyte, Pods: room[quantity.Pods], Ext: map[string]int64{}, Offerings: []scenario.Offering{o}}
	t.ReservedCPU = t.CPU - room[quantity.CPU]
	for name, n := range room {
		if name != quantity.CPU && name != quantity.Pods {
			t.Ext[name] = n
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.keys)) {
		if _, has := labels[key]; has && key != label.Hostname && key != label.NodePool && key != label.Zone && key != label.CapacityType && key != label.InstanceType {
			t.Reqs = append(t.Reqs, scenario.Requirement{Key: key, Op: "In", Values: []string{labels[key]}})
		}
	}
	yes := []string{"yes"}
	for g := range e.kinds {
		if mayBe(e.kinds[g].constraints, labels, of.taints) {
			t.Reqs = append(t.Reqs, scenario.Requirement{Key: e.may[g], Op: "In", Values: yes})
		}
	}
	key := fmt.Sprint(what, t)
	if name, ok := e.types[key]; ok {
		return name
	}
	t.Name = cmp.Or(labels[label.InstanceType], "unknown") + "#" + strconv.Itoa(len(e.types))
	e.types[key] = t.Name
	e.out.InstanceTypes = append(e.out.InstanceTypes, t)
	return t.Name
}
