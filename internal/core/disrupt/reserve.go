package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Reserve returns the snapshot with the room taken that the pods of commands in progress will need:
// where they are meant to be, or else on the replacements. Who plans for pending pods starts
// from it: else those would be meant for what was bought for others, and the step would have
// to be undone.
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
	unplaced := map[string][]cluster.ReschedulablePod{} // by command; those whose target node is not known, or full
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
		case n.InFlight != nil: // how much room it will have is not known
			n.Taints = append(slices.Clip(n.Taints), cluster.Taint{Key: closingTaint, Effect: cluster.NoSchedule})
		default:
			unplaced[n.Replaces] = slices.DeleteFunc(left, func(r cluster.ReschedulablePod) bool { return take(n, &r) })
		}
	}
	return &with
}

// take takes room for a pod, if there is some.
func take(n *cluster.Node, r *cluster.ReschedulablePod) bool {
	used := n.Used.Plus(r.Constraints.Requests)
	if n.InFlight != nil || !used.Fits(n.Allocatable) {
		return false
	}
	n.Used = used
	return true
}

// PreferOthers returns the snapshot with nodes closed that are shunned; the same if there are
// none.
func PreferOthers(snap *cluster.Snapshot) *cluster.Snapshot {
	shunned := func(n *cluster.Node) bool { return n.SoftTaint }
	for i := range snap.Nodes {
		if shunned(&snap.Nodes[i]) {
			return closed(snap, shunned)
		}
	}
	return snap
}
