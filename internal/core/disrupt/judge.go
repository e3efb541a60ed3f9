package disrupt

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// judgeCommands finds the commands in progress and decides about each.
func (w *work) judgeCommands() {
	w.findCommands()
	for _, f := range w.commands {
		w.decide(f)
		if at := w.goesOn(f); w.found.commandsAt.IsZero() || !at.IsZero() && at.Before(w.found.commandsAt) {
			w.found.commandsAt = at
		}
	}
}

// goesOn returns when a command may proceed, or has taken too long, if no other node is initialized
// before; zero: nothing is left to be decided about it.
func (w *work) goesOn(f *command) time.Time {
	switch settled := f.since.Add(w.opts.Grace); {
	case len(f.nodes) == 0 || f.ended:
		return time.Time{}
	case w.snap.At.Before(settled):
		return settled
	case w.arrived(f):
		return w.snap.At
	default:
		return f.since.Add(w.opts.ReplaceWithin)
	}
}

// decide says what becomes of a command in progress.
func (w *work) decide(f *command) {
	age := w.snap.At.Sub(f.since)
	if len(f.nodes) == 0 {
		return // all its nodes are being deleted
	}
	if f.going > 0 && w.arrived(f) {
		w.finish(f) // it cannot be undone any more
		return
	}
	if why := w.void(f); !why.IsYes() {
		w.undo(f, why, false)
		return
	}
	if age < w.opts.Grace {
		return
	}
	if len(f.nodes)+f.going < f.removes {
		w.undo(f, broken(f, "only %d of its %d nodes have the disruption reason", len(f.nodes), f.removes), false)
		return
	}
	if missing := f.launches - len(f.replacements); missing > 0 {
		w.undo(f, broken(f, "%d of its %d replacements are gone or were never launched", missing, f.launches), true)
		return
	}
	why, ready := w.ready(f)
	switch {
	case !why.IsYes():
		w.undo(f, why, f.launches > 0)
	case ready:
		w.finish(f)
	case age > w.opts.ReplaceWithin:
		w.undo(f, broken(f, "it was not ready within %s", w.opts.ReplaceWithin), f.launches > 0)
	}
}

// void returns why a command in progress has to be undone, whatever the state of its replacements.
func (w *work) void(f *command) verdict.Verdict {
	for _, i := range f.nodes {
		n := &w.snap.Nodes[i]
		if why := Paused(w.snap, n, f.reason); !why.IsYes() {
			return why
		}
		if why := w.still(f, n); !why.IsYes() {
			return why
		}
		if w.ledger.Overdrawn(n.Pool, f.reason) && !w.urgent(n, f.reason) {
			return verdict.Of(verdict.BudgetExhausted, n.Name, "the budgets of pool %s allow no disruption for %s any more", n.Pool, f.reason)
		}
	}
	return verdict.Verdict{}
}

// still returns why a node of a command must not be removed any more; yes: it may still be.
func (w *work) still(f *command, n *cluster.Node) verdict.Verdict {
	reasonGone := func(why string) verdict.Verdict { return verdict.Of(verdict.StepBroken, n.Name, "%s", why) }
	switch {
	case f.reason == Empty && !n.Empty && n.Evictions() == 0 && len(n.Reschedulable) > 0:
		return reasonGone("a capacity buffer needs it: " + n.Reschedulable[0].Buffer)
	case f.reason == Empty && !n.Empty:
		return reasonGone("it has pods again")
	case f.reason == Unhealthy && len(n.Ailments) == 0:
		return reasonGone("it is healthy again")
	case f.reason == Drifted && n.Drifted == "":
		return reasonGone("it is not drifted any more")
	case f.reason == Expired && n.Expires.IsZero():
		return reasonGone("it does not expire any more")
	case f.reason == Interrupted && n.Reclaimed == "":
		return reasonGone("the cloud does not take it away any more")
	case w.urgent(n, f.reason):
		return verdict.Verdict{}
	}
	if why := w.fixed(n, f.reason); f.launches == 0 && !why.IsYes() {
		return why
	}
	for i := range n.Reschedulable {
		if why := w.opts.Terms.CoolingDown(&n.Reschedulable[i], w.snap.At); f.reason == Underutilized && !why.IsYes() {
			return why.About(n.Name)
		}
	}
	eventually := f.reason == Drifted || f.reason == Expired || f.reason == Interrupted
	held := *n
	if f.reason != Empty {
		held.Planned = 0 // it has the disrupted taint, so these pods will be planned for another node
	}
	held.Reschedulable = slices.DeleteFunc(slices.Clone(n.Reschedulable), func(r cluster.ReschedulablePod) bool { return r.DoNotDisrupt == "" })
	for i := range held.Reschedulable {
		held.Reschedulable[i].PDBs = nil // each eviction asks what they allow
	}
	if f.reason == Unhealthy {
		return w.unrepairable(&held)
	}
	return w.blocked(&held, eventually)
}

// ready reports whether the nodes of a command may be deleted: all have the disrupted taint, all
// replacements are initialized, and every pod has a target node that is ready. It returns a verdict if
// that cannot become true any more.
func (w *work) ready(f *command) (why verdict.Verdict, ready bool) {
	ready = true
	for _, i := range f.nodes {
		if n := &w.snap.Nodes[i]; !n.DisruptedTaint {
			w.out.Marks = append(w.out.Marks, removal(n, f.reason))
			ready = false
		}
	}
	if !ready || !w.arrived(f) {
		return verdict.Verdict{}, false
	}
	for _, i := range f.nodes {
		n := &w.snap.Nodes[i]
		for r := range n.Reschedulable {
			if f.terminatesFirst {
				break // nothing can be launched for them before
			}
			if n.Reschedulable[r].Buffer != "" {
				continue // whether it has room later is no reason for the node to stay
			}
			target := w.future.targetOf(n.Reschedulable[r].PodRef)
			if target == nil {
				return verdict.Of(verdict.NoReplacement, n.Name, "pod %s would have nowhere to go any more", n.Reschedulable[r].PodRef), false
			}
			ready = ready && target.Initialized && target.Ready
		}
	}
	return verdict.Verdict{}, ready
}

// finish deletes the nodes of a command.
func (w *work) finish(f *command) {
	f.ended = true
	for _, i := range f.nodes {
		r := removal(&w.snap.Nodes[i], f.reason)
		if f.reason == Unhealthy {
			d, _ := diagnose(&w.snap.Nodes[i], w.snap.At)
			r.Condition, r.Bound = d.chief.Condition, d.bound
		}
		w.out.Removals = append(w.out.Removals, r)
	}
}

// undo undoes a command: it deletes replacements without pods, and opens the nodes again.
func (w *work) undo(f *command, why verdict.Verdict, failed bool) {
	f.ended = true
	u := plan.Undo{Command: f.id, Reason: f.reason, Why: why, Failed: failed}
	for _, i := range f.replacements {
		if n := &w.snap.Nodes[i]; n.Empty && n.Planned == 0 {
			u.Drop = append(u.Drop, removal(n, f.reason))
		}
	}
	for _, i := range f.nodes {
		n := &w.snap.Nodes[i]
		u.Open = append(u.Open, removal(n, f.reason))
		w.ledger.Return(n.Pool, f.reason)
	}
	w.out.Undos = append(w.out.Undos, u)
}

func broken(f *command, format string, args ...any) verdict.Verdict {
	return verdict.Of(verdict.StepBroken, "command "+f.id, format, args...)
}
