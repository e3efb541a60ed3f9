package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// overlay is a snapshot in which some nodes are gone and some pods are on other nodes. What it does not
// change it shares with the snapshot that it was made from.
type overlay struct {
	snap *cluster.Snapshot
	at   map[string]int // node name → index
	// waiting are pending pods whose target node is an in-flight NodeClaim.
	waiting map[cluster.PodRef]bool
}

func newOverlay(snap *cluster.Snapshot) *overlay {
	o := &overlay{snap: copyOf(snap), at: make(map[string]int, len(snap.Nodes)), waiting: map[cluster.PodRef]bool{}}
	for i := range snap.Nodes {
		o.at[snap.Nodes[i].Name] = i
	}
	return o
}

func copyOf(snap *cluster.Snapshot) *cluster.Snapshot {
	c := *snap
	c.Nodes, c.Pending, c.Pools = slices.Clone(snap.Nodes), slices.Clone(snap.Pending), slices.Clone(snap.Pools)
	return &c
}

// without returns the overlay's snapshot with nodes gone and their pods pending. The nodes still count
// against the limits of their pools.
func (o *overlay) without(nodes []int) *cluster.Snapshot {
	snap := copyOf(o.snap)
	for _, i := range nodes {
		n := &snap.Nodes[i]
		for r := range n.Reschedulable {
			p := &n.Reschedulable[r]
			snap.Pending = append(snap.Pending, cluster.Pod{PodRef: p.PodRef, Created: p.Created, Constraints: p.Constraints, Planned: p.TargetNode, Buffer: p.Buffer})
		}
		n.Deleting, n.Pods, n.Reschedulable = true, nil, nil
		hold(snap, n.Pool, n.Capacity)
	}
	slices.SortFunc(snap.Pending, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return snap
}

// remove takes nodes out. Their pods become pending; assign puts them on other nodes.
func (o *overlay) remove(nodes []int) {
	o.snap = o.without(nodes)
}

// assign puts pending pods on their target nodes, and drops the other pending pods: those for which a
// node is going to be launched, and those that no node can take. Neither kind takes room that later
// commands could use.
func (o *overlay) assign(placements []plan.Assignment) {
	meant := make(map[cluster.PodRef]string, len(placements))
	for _, p := range placements {
		meant[p.Pod] = p.Node
	}
	var waiting []cluster.Pod
	for _, p := range o.snap.Pending {
		if o.waiting[p.PodRef] {
			waiting = append(waiting, p)
			continue
		}
		i, ok := o.at[meant[p.PodRef]]
		if !ok {
			continue
		}
		n := &o.snap.Nodes[i]
		n.Planned++
		if n.InFlight != nil { // its instance type is not known, so its pods stay pending
			p.Planned = n.Name
			o.waiting[p.PodRef] = true
			waiting = append(waiting, p)
			continue
		}
		n.Used = n.Used.Plus(p.Constraints.Requests)
		n.Ports = append(slices.Clip(n.Ports), p.Constraints.Ports...)
		n.Pods = append(slices.Clip(n.Pods), cluster.PodCount{Constraints: p.Constraints, Count: 1})
	}
	o.snap.Pending = waiting
}

// closed returns the snapshot with some nodes closed to further pods.
func closed(snap *cluster.Snapshot, which func(*cluster.Node) bool) *cluster.Snapshot {
	with := *snap
	with.Nodes = slices.Clone(snap.Nodes)
	for i := range with.Nodes {
		if n := &with.Nodes[i]; which(n) {
			n.Taints = append(slices.Clip(n.Taints), cluster.Taint{Key: closingTaint, Effect: cluster.NoSchedule})
		}
	}
	return &with
}

// closingTaint stands for the disrupted taint.
const closingTaint = "dovetail.sh/to-be-replaced"

// holdLaunches takes from the limits and the supplies what the launches of a command may need of them.
func (o *overlay) holdLaunches(launches []plan.Launch) {
	for i := range launches {
		if p, ok := o.snap.PoolByName(launches[i].Pool); ok {
			hold(o.snap, p.Name, largest(p, launches[i].Types))
			cluster.HoldSupplies(o.snap, p, launches[i].Requirements, launches[i].Types)
		}
	}
}

// withinSupplies reports whether the supplies cover launches beside all NodeClaims that the cloud has not
// been asked for.
func withinSupplies(snap *cluster.Snapshot, launches []plan.Launch) bool {
	supplies := cluster.SuppliesLeft(snap)
	for i := range launches {
		p, known := snap.PoolByName(launches[i].Pool)
		if known && supplies.Left != nil && !supplies.Take(p, launches[i].Requirements, launches[i].Types) {
			return false
		}
	}
	return true
}

// withinLimits reports whether the limits, and the supplies, allow the launches of a command, beside all
// nodes that exist and what earlier commands launch.
func (o *overlay) withinLimits(launches []plan.Launch) bool {
	if !withinSupplies(o.snap, launches) {
		return false
	}
	room := Room(o.snap)
	for i := range launches {
		left, limited := room[launches[i].Pool]
		if !limited {
			continue
		}
		p, _ := o.snap.PoolByName(launches[i].Pool)
		takeNode(left, largest(p, launches[i].Types))
		for _, n := range left {
			if n < 0 {
				return false
			}
		}
	}
	return true
}
