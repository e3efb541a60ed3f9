package consolidate

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// searchEffort returns how many units a search may take.
func searchEffort(snap *cluster.Snapshot, opts Options) int64 {
	pods := len(snap.Pending)
	for i := range snap.Nodes {
		pods += len(snap.Nodes[i].Reschedulable)
	}
	return cmp.Or(opts.Pack.Effort, searchBase+searchNode*int64(len(snap.Nodes))+searchPod*int64(pods))
}

// withoutHeavy returns the snapshot without the pods that have most rules. Their nodes stay, and half
// of all weight is left to search with. Pending pods as heavy as that are left out.
func withoutHeavy(snap *cluster.Snapshot) *cluster.Snapshot {
	pods := slices.Clone(snap.Pending)
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			pods = append(pods, cluster.Pod{PodRef: snap.Nodes[i].Reschedulable[r].PodRef, Constraints: snap.Nodes[i].Reschedulable[r].Constraints})
		}
	}
	heavy := pack.Heavy(pods)
	out := *snap
	out.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return heavy[p.Constraints] })
	out.Nodes = slices.Clone(snap.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		at := slices.IndexFunc(n.Reschedulable, func(r cluster.ReschedulablePod) bool { return heavy[r.Constraints] })
		if at < 0 {
			continue
		}
		n.DoNotDisrupt = "pod " + n.Reschedulable[at].String() + " has too many rules for a search with it"
		n.Reschedulable = nil
	}
	return &out
}
