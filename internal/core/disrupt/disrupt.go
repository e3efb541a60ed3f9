// Package disrupt decides which running nodes are removed and what is launched in their place:
// nodes that are unhealthy, empty, drifted, about to expire or be interrupted, or too expensive.
//
// The one idea: a command is begun by tainting its nodes and launching what replaces them,
// and everything about it stands in the API from then on. Each decision finds the commands
// in progress in the snapshot, as they are, and says of each: finish it (the nodes may go),
// undo it, or leave it. So nothing that matters is remembered, no decision waits, and a
// crash is only a long pause between two decisions. What a Memory holds saves work: it says
// what failed a short time ago, and which searches need not be made yet.
//
// Read Propose, then work.go (one decision), judge.go (commands in progress), replace.go, repair.go and
// underutilized.go (new commands), terminate_first.go, future.go and overlay.go (the cluster as it will be), blocked.go
// (why not), buffers.go (chunks of capacity buffers), soft_taints.go, memory.go, scope.go and learn.go (what is remembered), tuning.go (the
// constants). It imports the core only.
package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Propose decides about nodes that could be disrupted: which commands to begin, which nodes of
// commands in progress to delete now, and which commands to undo. The plan's Blocked says why the
// other nodes stay. Propose also returns the memory for the next decision. The caller adds to it how
// long the search took (SearchTook) and what failed (WriteFailed). The memory that is passed in does
// not change.
func Propose(snap *cluster.Snapshot, memory Memory, opts Options) (plan.Disruption, Memory) {
	return ProposeTimed(snap, memory, opts, func(_, _ string, search func()) { search() })
}

// ProposeTimed is Propose that calls timed to run the search for each reason; kind is the kind of
// consolidation in metrics.
func ProposeTimed(snap *cluster.Snapshot, memory Memory, opts Options, timed func(reason, kind string, search func())) (plan.Disruption, Memory) {
	next := memory.own()
	next.notice(snap)
	room := chunkRoom{snap: Reserve(snap), opts: opts.Pack}
	w := newWork(pack.HoldChunks(snap, room.snap, opts.Pack), opts)
	w.chunks = room
	w.scope = next.recall(snap, opts.Events)
	w.decideAll(timed)
	next.learn(w, opts.Events)
	w.extractChunks()
	return w.out, next
}

// decideAll decides what the scope asks for.
func (w *work) decideAll(timed func(reason, kind string, search func())) {
	w.openOrphans()
	w.judgeCommands()
	if w.scope.commandsOnly {
		return
	}
	taints := &softTaints{work: w, waits: make([]bool, len(w.snap.Nodes))}
	r := &replacer{work: w, taints: taints, probes: w.opts.ProbesMax}
	c := &consolidation{work: w, taints: taints}
	if w.opts.Repair.On {
		timed(Unhealthy, "", w.contained(r.unhealthy))
	}
	timed(Interrupted, "", w.contained(r.interrupted))
	timed(Empty, "empty", w.contained(w.empty))
	timed(Drifted, "", w.contained(r.drifted))
	timed(Expired, "", w.contained(r.expired))
	if w.scope.search != NoSearch {
		timed(Underutilized, "multi", w.contained(c.run))
	}
	w.dropObsolete()
	for _, reason := range []string{Unhealthy, Interrupted, Empty, Drifted, Expired, Underutilized} {
		if reason == Underutilized && w.scope.search == NoSearch || reason == Unhealthy && !w.opts.Repair.On {
			continue // without a search the number is not known
		}
		w.out.Eligible = append(w.out.Eligible, plan.Eligible{Reason: reason, Nodes: w.eligible[reason]})
	}
}

// openOrphans opens nodes with the disrupted taint or a disruption reason that belong to no command:
// the controller stopped while it began or undid one.
func (w *work) openOrphans() {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.Deleting || n.Claim == "" || n.DisruptionReason != "" && n.Step != "" {
			continue
		}
		if n.DisruptionReason != "" || n.DisruptedTaint {
			w.taken[i] = true
			w.out.Unmarks = append(w.out.Unmarks, removal(n, n.DisruptionReason))
		}
	}
}

// empty proposes to remove nodes without pods.
func (w *work) empty() {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if w.taken[i] || n.Deleting || n.Claim == "" || !n.Initialized || w.replaces(n) {
			continue
		}
		if why := heldByBuffer(n); !why.IsYes() {
			w.block(why)
		}
		if !n.Empty {
			continue
		}
		if pool, ok := w.snap.PoolByName(n.Pool); ok && pool.Static {
			continue
		}
		why := w.busy(n)
		if why.IsYes() {
			why = w.future.meant(i)
		}
		step := plan.Command{Reason: Empty, Remove: []plan.Removal{removal(n, Empty)}}
		if why.IsYes() {
			why = w.losesChunks(&step)
		}
		if !why.IsYes() {
			w.block(why)
			continue
		}
		w.begin([]int{i}, step)
	}
}

// dropObsolete removes from Blocked the nodes that go after all, for another reason.
func (w *work) dropObsolete() {
	goes := map[string]bool{}
	for i := range w.out.Commands {
		for _, r := range w.out.Commands[i].Remove {
			goes[r.Node] = true
		}
	}
	w.out.Blocked = slices.DeleteFunc(w.out.Blocked, func(v verdict.Verdict) bool { return goes[v.Subject] })
}
