package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Reserve returns the snapshot with the room taken that pods of commands in progress will need: on their
// target nodes, or else on the command's replacements. Plans for pending pods start from it. Otherwise
// pending pods would be planned for the replacements, and the command would have to be undone.
func Reserve(snap *cluster.Snapshot) *cluster.Snapshot {
	staying := func(n *cluster.Node) bool { return n.DisruptionReason != "" && n.Step != "" && !n.Deleting }
	if !slices.ContainsFunc(snap.Nodes, func(n cluster.Node) bool { return staying(&n) }) {
		return snap
	}
	with := *snap
	with.Nodes = slices.Clone(snap.Nodes)
	at := make(map[string]int, 2*len(snap.Nodes))
	for i := range snap.Nodes {
		at[snap.Nodes[i].Name] = i
		if c := snap.Nodes[i].Claim; c != "" {
			at[c] = i
		}
	}
	unplaced := map[string][]cluster.ReschedulablePod{} // by command: pods whose target node is not known or full
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !staying(n) {
			continue
		}
		left := unplaced[n.Step]
		for _, r := range n.Reschedulable {
			if targetOf, known := at[r.TargetNode]; !known || !take(&with.Nodes[targetOf], &r) {
				left = append(left, r)
			}
		}
		unplaced[n.Step] = left
	}
	for i := range with.Nodes {
		n := &with.Nodes[i]
		left, under := unplaced[n.Replaces]
		switch {
		case n.Replaces == "" || !under:
		case n.InFlight != nil: // its capacity is not known
			n.Taints = append(slices.Clip(n.Taints), cluster.Taint{Key: closingTaint, Effect: cluster.NoSchedule})
		default:
			unplaced[n.Replaces] = slices.DeleteFunc(left, func(r cluster.ReschedulablePod) bool { return take(n, &r) })
		}
	}
	return &with
}

// take takes room for a pod on a node, and reports whether there was room.
func take(n *cluster.Node, r *cluster.ReschedulablePod) bool {
	used := n.Used.Plus(r.Constraints.Requests)
	if n.InFlight != nil || !used.Fits(n.Allocatable) {
		return false
	}
	n.Used = used
	return true
}

// PreferOthers returns the snapshot with the nodes closed to pods that have a soft taint. Without such
// nodes it returns the snapshot itself.
func PreferOthers(snap *cluster.Snapshot) *cluster.Snapshot {
	tainted := (*cluster.Node).PrefersOthers
	for i := range snap.Nodes {
		if tainted(&snap.Nodes[i]) {
			return closed(snap, tainted)
		}
	}
	return snap
}
