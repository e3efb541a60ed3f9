package disrupt

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// command is a command in progress, as the snapshot shows it.
type command struct {
	id, reason string
	// nodes are those that are marked and have yet to be told to go; going have been, and
	// of them draining still have pods.
	nodes           []int
	going, draining int
	// replacements are those of its launches that are there and will stay.
	replacements      []int
	removes, launches int
	since             time.Time
	// ended: this look has finished it or taken it back.
	ended bool
}

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

// goesOn returns when a step may go on, or has taken too long, if no other node is initialized
// before; zero: all of it that is left to be decided has been.
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

// targetOf returns the node that a pod of a step whose replacements are there would be on; nil: it
// has none. These steps come first: else pods that still wait for their nodes would seem to have
// taken them.
func (w *work) targetOf(ref cluster.PodRef) *cluster.Node {
	if w.over == nil {
		w.over, w.targets = newOverlay(w.snap), map[cluster.PodRef]*cluster.Node{}
		w.over.snap.Pending, w.unplanned = split(w.snap.Pending)
		w.findTargets(w.nodesOfCommands(w.arrived))
	}
	return w.targets[ref]
}

// ahead returns the cluster as it will be when all that was decided is done. It takes longest of what
// a look does but for its searches, and most looks find that nothing can be begun anyway: it is worked
// out when it is first asked for. Pending pods that no plan has a place for yet come last: they are
// bought nodes of their own (Reserve).
func (w *work) ahead() *overlay {
	if !w.isAhead {
		w.isAhead = true
		w.targetOf(cluster.PodRef{})
		w.findTargets(w.nodesOfCommands(func(f *command) bool { return !w.arrived(f) }))
		if w.over.snap.Pending = append(w.over.snap.Pending, w.unplanned...); len(w.unplanned) > 0 {
			w.over.remove(nil) // which puts pending pods in order
		}
		w.findTargets(nil)
	}
	return w.over
}

// nodesOfCommands returns the nodes of those commands in progress.
func (w *work) nodesOfCommands(which func(*command) bool) (nodes []int) {
	for _, f := range w.commands {
		if which(f) {
			nodes = append(nodes, f.nodes...)
		}
	}
	return nodes
}

// findTargets says where pending pods would be, and those of these nodes, which go.
func (w *work) findTargets(nodes []int) {
	if len(nodes) > 0 {
		w.over.remove(nodes)
	}
	if len(w.over.snap.Pending) == 0 {
		return
	}
	p := w.planTargets(nodes)
	w.over.assign(p.Assignments)
	for _, m := range p.Assignments {
		w.targets[m.Pod] = &w.snap.Nodes[w.over.at[m.Node]]
	}
}

// split divides pending pods into those that a plan has a place for, and the others. The former
// keep it, whether their gangs are whole or not: that is for the next plan to say.
func split(pending []cluster.Pod) (planned, unplanned []cluster.Pod) {
	for i := range pending {
		if pending[i].Planned != "" {
			p := pending[i]
			p.Gang = ""
			planned = append(planned, p)
			continue
		}
		unplanned = append(unplanned, pending[i])
	}
	return planned, unplanned
}

// planTargets says where pending pods go: those of the nodes, which have been removed, to others
// that there are, for kube-scheduler puts them there without asking what could be bought; and
// to those that go soon only if there is no other way.
func (w *work) planTargets(nodes []int) plan.Plan {
	spared := closed(w.over.snap, w.goesSoon)
	if len(nodes) > 0 {
		there := *spared
		there.Pools = nil
		if p := w.decidePods(&there); w.placesAll(nodes, &p) {
			return p
		}
	}
	p := w.decidePods(spared)
	if !w.placesAll(nodes, &p) {
		return w.decidePods(w.over.snap)
	}
	return p
}

// placesAll reports whether a plan has a place on a node that there is for every pod of the
// nodes.
func (w *work) placesAll(nodes []int, p *plan.Plan) bool {
	placed := make(map[cluster.PodRef]bool, len(p.Assignments))
	for _, m := range p.Assignments {
		placed[m.Pod] = true
	}
	for _, i := range nodes {
		if slices.ContainsFunc(w.snap.Nodes[i].Reschedulable, func(r cluster.ReschedulablePod) bool { return !placed[r.PodRef] }) {
			return false
		}
	}
	return true
}

// arrived reports whether all replacements of a step are initialized.
func (w *work) arrived(f *command) bool {
	for _, i := range f.replacements {
		if !w.snap.Nodes[i].Initialized {
			return false
		}
	}
	return len(f.replacements) >= f.launches
}

func (w *work) findCommands() {
	byID := map[string]*command{}
	find := func(n *cluster.Node) *command {
		f := byID[n.Step]
		if f == nil {
			f = &command{id: n.Step, reason: n.DisruptionReason, removes: n.StepRemoves, launches: n.StepLaunches}
			byID[n.Step] = f
			w.commands = append(w.commands, f)
		}
		return f
	}
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.DisruptionReason == "" || n.Step == "" || n.Claim == "" {
			continue
		}
		f := find(n)
		if n.DisruptedSince.After(f.since) {
			f.since = n.DisruptedSince
		}
		if n.Deleting {
			f.going++
			if !n.Empty {
				f.draining++
			}
			continue
		}
		w.taken[i] = true
		f.nodes = append(f.nodes, i)
	}
	for i := range w.snap.Nodes {
		if n := &w.snap.Nodes[i]; !n.Deleting && byID[n.Replaces] != nil && n.Replaces != "" {
			f := byID[n.Replaces]
			f.replacements = append(f.replacements, i)
		}
	}
	slices.SortFunc(w.commands, func(a, b *command) int { return strings.Compare(a.id, b.id) })
}

// decide says what becomes of a command in progress.
func (w *work) decide(f *command) {
	age := w.snap.At.Sub(f.since)
	if len(f.nodes) == 0 {
		return // only the nodes' end is waited for
	}
	if f.going > 0 && w.arrived(f) {
		w.finish(f) // there is no way back any more
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
		w.undo(f, broken(f, "only %d of its %d machines are marked", len(f.nodes), f.removes), false)
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

// void returns why a command in progress is to be undone whatever its replacements do.
func (w *work) void(f *command) verdict.Verdict {
	for _, i := range f.nodes {
		n := &w.snap.Nodes[i]
		if why := w.still(f, n); !why.IsYes() {
			return why
		}
		if w.ledger.Overdrawn(n.Pool, f.reason) && !w.urgent(n, f.reason) {
			return verdict.Of(verdict.BudgetExhausted, n.Name, "the budgets of pool %s allow no disruption for %s any more", n.Pool, f.reason)
		}
	}
	return verdict.Verdict{}
}

// still returns why a node should not go any more.
func (w *work) still(f *command, n *cluster.Node) verdict.Verdict {
	reasonGone := func(why string) verdict.Verdict { return verdict.Of(verdict.StepBroken, n.Name, "%s", why) }
	switch {
	case f.reason == Empty && !n.Empty:
		return reasonGone("it has pods again")
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
		held.Planned = 0 // it is closed, so they will be meant for another
	}
	held.Reschedulable = slices.DeleteFunc(slices.Clone(n.Reschedulable), func(r cluster.ReschedulablePod) bool { return r.DoNotDisrupt == "" })
	for i := range held.Reschedulable {
		held.Reschedulable[i].PDBs = nil // what they allow is asked again at each eviction
	}
	return w.blocked(&held, eventually)
}

// ready reports whether the nodes of a step may go: all are closed, all replacements are
// initialized, and every pod has a place on a node that is. It returns a verdict when
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
			targetOf := w.targetOf(n.Reschedulable[r].PodRef)
			if targetOf == nil {
				return verdict.Of(verdict.NoReplacement, n.Name, "pod %s would have nowhere to go any more", n.Reschedulable[r].PodRef), false
			}
			ready = ready && targetOf.Initialized && targetOf.Ready
		}
	}
	return verdict.Verdict{}, ready
}

// finish lets the nodes of a step go.
func (w *work) finish(f *command) {
	f.ended = true
	for _, i := range f.nodes {
		w.out.Removals = append(w.out.Removals, removal(&w.snap.Nodes[i], f.reason))
	}
}

// undo undoes a command: replacements without pods go, the nodes are opened again.
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
	return verdict.Of(verdict.StepBroken, "step "+f.id, format, args...)
}
