package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

const (
	// searchBase, searchNode and searchPod are the units of effort that a search for something
	// cheaper may take, whatever it is about, for each node, and for each pod that could move.
	// Searches about ordinary pods take less than a tenth (BenchmarkEffort prints it).
	searchBase, searchNode, searchPod = 10_000_000, 40_000, 8_000
	// searchesMax bounds how often a search that takes too much and finds nothing is made again.
	searchesMax = 2
)

// searchEffort returns how many units a search may take.
func searchEffort(snap *cluster.Snapshot, opts ConsolidateOptions) int64 {
	pods := len(snap.Pending)
	for i := range snap.Nodes {
		pods += len(snap.Nodes[i].Residents)
	}
	return cmp.Or(opts.Pack.Effort, searchBase+searchNode*int64(len(snap.Nodes))+searchPod*int64(pods))
}

// withoutHeavy returns the snapshot in which nodes stay that have pods with most rules: half of
// all weight is left to search with. Pending pods as heavy as that are left out.
func withoutHeavy(snap *cluster.Snapshot) *cluster.Snapshot {
	pods := slices.Clone(snap.Pending)
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Residents {
			pods = append(pods, cluster.Pod{PodRef: snap.Nodes[i].Residents[r].PodRef, Shape: snap.Nodes[i].Residents[r].Shape})
		}
	}
	heavy := pack.Heavy(pods)
	out := *snap
	out.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return heavy[p.Shape] })
	out.Nodes = slices.Clone(snap.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		at := slices.IndexFunc(n.Residents, func(r cluster.Resident) bool { return heavy[r.Shape] })
		if at < 0 {
			continue
		}
		n.Held = "pod " + n.Residents[at].String() + " has too many rules for a search with it"
		n.Residents = nil
	}
	return &out
}
