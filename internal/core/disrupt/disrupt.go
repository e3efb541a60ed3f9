// Package disrupt decides which running nodes should go, why, and what is launched
// instead: for being empty, drifted, near the end of their time, or too dear.
//
// The one idea: a command is begun by tainting its nodes and launching what replaces them,
// and everything about it stands in the API from then on. Each decision finds the commands
// in progress in the snapshot, as they are, and says of each: finish it (the nodes may go),
// undo it, or leave it. So nothing that matters is remembered, nothing is waited for, and a
// crash is just a long pause between two decisions. What a Memory holds saves work: it says
// what failed a short time ago, and which searches need not be made yet.
//
// Read Propose, then commands.go (commands in progress), replace.go (new commands), overlay.go
// (what-if), blocked.go (why not), memory.go, scope.go and learn.go (what is remembered),
// tuning.go (the constants). It imports the core only.
package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Propose decides what should be done about nodes that could be disrupted: which commands
// to begin, which nodes of commands in progress go now, which commands to undo. Blocked says
// of the others why they stay. It returns the memory for the next decision: whoever carries
// the plan out adds to it how long the search took (SearchTook) and what failed
// (WriteFailed). The memory that is handed in does not change.
func Propose(snap *cluster.Snapshot, memory Memory, opts Options) (plan.Disruption, Memory) {
	return ProposeTimed(snap, memory, opts, func(_, _ string, search func()) { search() })
}

// ProposeTimed is Propose, with each search for a reason run by timed; kind is the kind of
// consolidation.
func ProposeTimed(snap *cluster.Snapshot, memory Memory, opts Options, timed func(reason, kind string, search func())) (plan.Disruption, Memory) {
	next := memory.own()
	next.notice(snap)
	w := newWork(snap, opts)
	w.scope = next.recall(snap, opts.Events)
	w.decideAll(timed)
	next.learn(w, opts.Events)
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
	timed(Interrupted, "", w.contained(r.interrupted))
	timed(Empty, "empty", w.contained(w.empty))
	timed(Drifted, "", w.contained(r.drifted))
	timed(Expired, "", w.contained(r.expired))
	if w.scope.search != NoSearch {
		timed(Underutilized, "multi", w.contained(c.run))
	}
	w.dropObsolete()
	for _, reason := range []string{Interrupted, Empty, Drifted, Expired, Underutilized} {
		if reason == Underutilized && w.scope.search == NoSearch {
			continue // it is not known
		}
		w.out.Eligible = append(w.out.Eligible, plan.Eligible{Reason: reason, Nodes: w.eligible[reason]})
	}
}

// openOrphans opens nodes that are closed or marked but belong to no step: a step was being
// undone, or begun, when we stopped.
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

// empty proposes nodes that nobody needs.
func (w *work) empty() {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if w.taken[i] || n.Deleting || n.Claim == "" || !n.Empty || !n.Initialized || w.replaces(n) {
			continue
		}
		if pool, ok := w.snap.PoolByName(n.Pool); ok && pool.Static {
			continue
		}
		why := w.busy(n)
		if why.IsYes() {
			why = w.future.meant(i)
		}
		if !why.IsYes() {
			w.block(why)
			continue
		}
		w.begin([]int{i}, plan.Command{Reason: Empty})
	}
}

// dropObsolete forgets why nodes stay that go after all, for another reason.
func (w *work) dropObsolete() {
	goes := map[string]bool{}
	for i := range w.out.Commands {
		for _, r := range w.out.Commands[i].Remove {
			goes[r.Node] = true
		}
	}
	w.out.Blocked = slices.DeleteFunc(w.out.Blocked, func(v verdict.Verdict) bool { return goes[v.Subject] })
}
