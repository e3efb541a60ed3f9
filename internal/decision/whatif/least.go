package whatif

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// least returns what nodes for all pods must cost at least if each could move, and the pods that no node could
// take then. If pods may go to nodes that are not ours, no bound is known.
func least(snap *cluster.Snapshot, opts pack.Options) (view.Least, []plan.Refusal) {
	all := *snap
	all.Nodes, all.Pending, all.Gangs, all.Buffers, all.Excluded = nil, nil, nil, nil, nil
	for i := range snap.Pending {
		p := snap.Pending[i]
		p.Planned, p.Gang = "", ""
		all.Pending = append(all.Pending, p)
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Claim == "" {
			all.Nodes = append(all.Nodes, *n)
			continue
		}
		for k := range n.Reschedulable {
			r := &n.Reschedulable[k]
			all.Pending = append(all.Pending, cluster.Pod{PodRef: r.PodRef, Created: r.Created, DoNotDisrupt: r.DoNotDisrupt != "", Constraints: r.Constraints})
		}
	}
	slices.SortFunc(all.Pending, byName)
	opts.Prove, opts.ProofRounds = true, pack.ProofRoundsShort
	p := pack.Decide(&all, opts)
	if len(p.Assignments) > 0 {
		return view.Least{}, p.Refusals
	}
	return view.Least{Hourly: p.BoundHourly, Proven: len(p.GivenUp) == 0}, p.Refusals
}
