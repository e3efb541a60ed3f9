package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Reserve returns the snapshot with the room taken on replacements that the pods of their
// steps will need. Who plans for pending pods starts from it: else those would be meant for
// what was bought for others, and the step would have to be taken back.
func Reserve(snap *cluster.Snapshot) *cluster.Snapshot {
	leaves := map[string][]*cluster.Node{} // machines that have yet to be told to go, by step
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.Marked != "" && n.Step != "" && !n.Leaving {
			leaves[n.Step] = append(leaves[n.Step], n)
		}
	}
	if len(leaves) == 0 {
		return snap
	}
	with := *snap
	with.Nodes = slices.Clone(snap.Nodes)
	for i := range with.Nodes {
		n := &with.Nodes[i]
		switch {
		case n.Replaces == "" || len(leaves[n.Replaces]) == 0:
		case n.Open != nil: // how much room it will have is not known
			n.Taints = append(slices.Clip(n.Taints), cluster.Taint{Key: closingTaint, Effect: cluster.NoSchedule})
		default:
			leaves[n.Replaces] = reserve(n, leaves[n.Replaces])
		}
	}
	return &with
}

// reserve takes room for the pods of machines, as far as there is some, and returns the
// machines with the pods that are left.
func reserve(n *cluster.Node, machines []*cluster.Node) []*cluster.Node {
	left := cluster.Node{}
	for _, m := range machines {
		for _, r := range m.Residents {
			if used := n.Used.Plus(r.Shape.Requests); used.Fits(n.Allocatable) {
				n.Used = used
				continue
			}
			left.Residents = append(left.Residents, r)
		}
	}
	return []*cluster.Node{&left}
}
