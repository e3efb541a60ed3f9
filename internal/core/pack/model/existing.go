package model

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// ExistingNode is a node of the snapshot that pods can be assigned to, with what is free on it.
type ExistingNode struct {
	Node       *cluster.Node
	Index      int             // among the snapshot's
	Free, Used quantity.Vector // Used is what pods of this plan take of Free
	Ports      []cluster.HostPort
	// pool and offerings are of an in-flight NodeClaim: pods must be allowed on all that it may become.
	pool      int
	offerings Bitset
	Domains   topology.Place
	meter     *effort.Meter
}

// portsUnit is how many pairs of host ports are compared for a unit of effort.
const portsUnit = 4

// PortsFree reports whether a pod that wants these host ports may be beside pods that have taken
// others.
func PortsFree(meter *effort.Meter, want, taken []cluster.HostPort) bool {
	meter.Spend(len(want) * len(taken) / portsUnit)
	return fit.Ports(want, taken).IsYes()
}

// Room returns for how many more pods of the class there is room, most at most.
func (b *ExistingNode) Room(c *PodClass, st *Stage, most int) int {
	if most == 0 || c.Constraints.Invalid != "" {
		return 0
	}
	n := quantity.Times(b.Free, b.Used, c.Need, int64(most))
	if n == 0 || !b.accepts(c, st) {
		return 0
	}
	if len(c.Constraints.Ports) > 0 {
		if !PortsFree(b.meter, c.Constraints.Ports, b.Ports) {
			return 0
		}
		n = 1
	}
	return int(n)
}

// Add places up to most pods of the class and returns how many.
func (b *ExistingNode) Add(c *PodClass, st *Stage, most int) int {
	n := b.Room(c, st, most)
	if n == 0 {
		return 0
	}
	if len(c.Constraints.Ports) > 0 {
		b.Ports = append(slices.Clip(b.Ports), c.Constraints.Ports...)
	}
	b.Used.AddN(c.Need, int64(n))
	return n
}

// accepts reports whether the class allows the node's labels, and tolerates its taints.
func (b *ExistingNode) accepts(c *PodClass, st *Stage) bool {
	if st.AvoidPreferNoSchedule && fit.Undesired(c.Constraints.Tolerations, b.Node.Taints) || !fit.Tolerated(c.Constraints.Tolerations, b.Node.Taints) {
		return false
	}
	if b.Node.InFlight == nil {
		if _, granted := st.preference.Matches(b.Node.Labels); !granted {
			return false
		}
		return fit.Matches(c.Constraints.Terms, b.Node.Labels)
	}
	in := &st.Admitted[b.pool]
	if !in.Refusal.IsYes() {
		return false
	}
	for i := range in.Terms {
		if b.offerings.Within(in.Terms[i].Offerings) && assured(b.Node.InFlight.Requirements, in.Terms[i].Open) {
			return true
		}
	}
	return false
}

// ExistingNodes returns the nodes that may take pods and have room for one: initialized nodes
// first, then others whose instance is known, then in-flight NodeClaims; each by name. Most nodes
// of a cluster are full, and nothing else is worked out for those.
func ExistingNodes(snap *cluster.Snapshot, m *Model, classes []PodClass) []ExistingNode {
	if len(classes) == 0 {
		return nil
	}
	f := existingNodes{snap: snap, model: m, least: leastOf(classes)}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !n.Deleting {
			f.add(n, i)
		}
	}
	slices.SortStableFunc(f.bins, func(a, b ExistingNode) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(a.Node.Name, b.Node.Name))
	})
	return f.bins
}

// Rank is less for nodes that are ready earlier.
func (b *ExistingNode) Rank() int {
	switch {
	case b.Node.Initialized:
		return 0
	case b.Node.InFlight == nil:
		return 1
	default:
		return 2
	}
}

// existingNodes collects ExistingNodes.
type existingNodes struct {
	snap    *cluster.Snapshot
	model   *Model
	least   quantity.Vector // of each resource, the least that any class asks for
	amounts Slab[int64]
	free    quantity.Vector // of the node at hand
	bins    []ExistingNode
}

// add adds a node, unless there is no room on it. It leaves out an in-flight NodeClaim whose pool
// is gone, for then it is not known what it may become.
func (f *existingNodes) add(n *cluster.Node, index int) {
	b := ExistingNode{Node: n, Index: index, pool: -1, Ports: n.Ports, meter: f.model.Meter}
	if n.InFlight != nil {
		b.pool = slices.IndexFunc(f.model.Pools, func(p *Pool) bool { return p.NodePool.Name == n.Pool })
		if b.pool < 0 {
			return
		}
		pool := f.model.Pools[b.pool]
		if b.offerings, b.Free = pool.promise(n.InFlight); b.offerings.Empty() || !f.holds(b.Free) {
			return
		}
		for _, t := range pool.TypesNamed(n.InFlight.Types) {
			b.Ports = append(slices.Clip(b.Ports), pool.Types[t].Ports...)
		}
	} else {
		if f.free == nil {
			f.free = f.amounts.Take(len(f.model.Space))
		}
		if !f.measure(n) {
			return
		}
		b.Free, f.free = f.free, nil
		b.Ports = append(slices.Clip(b.Ports), portsFor(f.snap.Daemons, n)...)
	}
	b.Used = f.amounts.Take(len(f.model.Space))
	f.bins = append(f.bins, b)
}

// holds reports whether there is room for the least that any class asks for.
func (f *existingNodes) holds(free quantity.Vector) bool {
	return RoomFor(free, f.least)
}

// measure works out what is free on a node. It stops and returns false when a resource does not
// suffice for any pod.
func (f *existingNodes) measure(n *cluster.Node) bool {
	for r, name := range f.model.Space {
		f.free[r] = quantity.Sub(n.Allocatable.Room(name), n.Used[name])
		if f.least[r] > 0 && f.free[r] < f.least[r] {
			return false
		}
	}
	if len(f.snap.Daemons) == 0 {
		return true
	}
	awaitDaemons(f.model.Space, f.free, n, DaemonsFor(f.model.Space, f.snap.Daemons, n))
	return f.holds(f.free)
}

// MeasureRoom writes to free what is free on a node, given what its DaemonSet pods ask for together.
func MeasureRoom(free quantity.Vector, space quantity.Space, n *cluster.Node, daemons quantity.Vector) {
	for r, name := range space {
		free[r] = quantity.Sub(n.Allocatable.Room(name), n.Used[name])
	}
	awaitDaemons(space, free, n, daemons)
}

// awaitDaemons takes from what is free on a node what DaemonSet pods will still use there, given
// what they ask for together.
func awaitDaemons(space quantity.Space, free quantity.Vector, n *cluster.Node, daemons quantity.Vector) {
	for r, name := range space {
		if daemons[r] > 0 {
			free[r] = quantity.Sub(free[r], max(0, quantity.Sub(daemons[r], n.UsedByDaemons[name])))
		}
	}
}

// DaemonsFor returns what the pods of DaemonSets that select the node ask for together.
func DaemonsFor(space quantity.Space, daemons []cluster.Daemon, n *cluster.Node) quantity.Vector {
	sum := make(quantity.Vector, len(space))
	for i := range daemons {
		if !selects(&daemons[i], n) {
			continue
		}
		for r, name := range space {
			sum[r] = quantity.Add(sum[r], daemons[i].Constraints.Requests[name])
		}
	}
	return sum
}

// portsFor returns the host ports of DaemonSet pods that are yet to come to the node.
func portsFor(daemons []cluster.Daemon, n *cluster.Node) (ports []cluster.HostPort) {
	for i := range daemons {
		if d := &daemons[i]; len(d.Constraints.Ports) > 0 && !slices.Contains(n.Daemons, d.Name) && selects(d, n) {
			ports = append(ports, d.Constraints.Ports...)
		}
	}
	return ports
}

// selects reports whether a DaemonSet has a pod on the node.
func selects(d *cluster.Daemon, n *cluster.Node) bool {
	return fit.Tolerated(d.Constraints.Tolerations, n.Taints) && fit.Matches(d.Constraints.Terms, n.Labels)
}
