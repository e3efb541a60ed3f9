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
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// The reasons to disrupt a node, as plans have them.
const (
	Empty         = plan.Empty
	Drifted       = plan.Drifted
	Underutilized = plan.Underutilized
	Expired       = plan.Expired
	Interrupted   = plan.Interrupted
)

// BudgetReasons returns those that budgets may name.
func BudgetReasons() []string { return []string{Empty, Drifted, Underutilized} }

// Options are what the caller sets for a decision. The zero values are the defaults.
type Options struct {
	// Grace is how long a mark must stand before the node goes: by then every pod
	// that was bound before the mark has been seen.
	Grace time.Duration
	// ReplaceWithin is how long replacements may take until they are initialized; 0: ten
	// minutes.
	ReplaceWithin time.Duration
	// ProbesMax is how many nodes' replacements are worked out in one look; 0: 32.
	ProbesMax int
	// Terms are those of consolidation.
	Terms consolidate.Terms
	// Events are the counts of events that the snapshot has taken in.
	Events Events
	// Pack are the options of placement.
	Pack pack.Options
}

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
	timed(Interrupted, "", w.contained(w.interrupted))
	timed(Empty, "empty", w.contained(w.empty))
	timed(Drifted, "", w.contained(w.drifted))
	timed(Expired, "", w.contained(w.expired))
	if w.scope.search != NoSearch {
		timed(Underutilized, "multi", w.contained(w.underutilized))
	}
	w.dropObsolete()
	for _, reason := range []string{Interrupted, Empty, Drifted, Expired, Underutilized} {
		if reason == Underutilized && w.scope.search == NoSearch {
			continue // it is not known
		}
		w.out.Eligible = append(w.out.Eligible, plan.Eligible{Reason: reason, Nodes: w.eligible[reason]})
	}
}

// contained is a search that, when it ends in a bug, does not take the others with it: what it
// had begun to do by then is done.
func (w *work) contained(search func()) func() {
	return func() {
		defer func() {
			if r := recover(); r != nil {
				w.out.GivenUp = append(w.out.GivenUp, effort.Bug(r))
			}
		}()
		search()
	}
}

// decidePods says where the pending pods of a snapshot would go. Decisions that were given up are
// counted with the plan's own.
func (w *work) decidePods(snap *cluster.Snapshot) plan.Plan {
	p := pack.Decide(snap, w.opts.Pack)
	w.out.GivenUp = append(w.out.GivenUp, p.GivenUp...)
	return p
}

// work is one look.
type work struct {
	snap     *cluster.Snapshot
	opts     Options
	scope    scope
	ledger   *budget.Ledger
	commands []*command
	// over, targets and unplanned are what targetOf and ahead have worked out so far, of which isAhead
	// reports whether it is all: the cluster as it will be, where pods would be, and those that no
	// plan has a place for yet.
	over      *overlay
	targets   map[cluster.PodRef]*cluster.Node
	unplanned []cluster.Pod
	isAhead   bool
	// taken are nodes that are part of a step, by index; waits are those that will be
	// replaced, or filled, when it is their turn.
	taken  []bool
	waits  []bool
	probes int
	// excluded are those of the scope, by name.
	excluded map[string]bool
	// noneFound: no way was found to replace the last node for which one was looked for.
	noneFound bool
	noted     map[blockKey]bool
	// eligible counts nodes that could be disrupted, by reason.
	eligible map[string]int
	out      plan.Disruption
	found    findings
}

func newWork(snap *cluster.Snapshot, opts Options) *work {
	if opts.ProbesMax == 0 {
		opts.ProbesMax = probesDefault
	}
	if opts.ReplaceWithin == 0 {
		opts.ReplaceWithin = replaceWithinDefault
	}
	opts.Terms = opts.Terms.Complete()
	return &work{
		snap: snap, opts: opts, ledger: budget.Open(snap), taken: make([]bool, len(snap.Nodes)), waits: make([]bool, len(snap.Nodes)),
		probes: opts.ProbesMax, noted: map[blockKey]bool{}, eligible: map[string]int{}, out: plan.Disruption{At: snap.At},
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
			why = w.meant(i)
		}
		if !why.IsYes() {
			w.block(why)
			continue
		}
		w.begin([]int{i}, plan.Command{Reason: Empty})
	}
}

// busy returns why a node that is empty is not removed for it; yes means that it may
// be.
func (w *work) busy(n *cluster.Node) verdict.Verdict {
	if why := w.blocked(n, false); !why.IsYes() {
		return why
	}
	return w.hadPodEvent(n)
}

// begin adds a step that removes the nodes with these indexes, as far as budgets let it.
func (w *work) begin(nodes []int, step plan.Command) {
	w.eligible[step.Reason] += len(nodes)
	need, short := w.needOf(nodes, step.Reason)
	if short != nil {
		w.block(w.exhausted(short, step.Reason))
		return
	}
	for pool, count := range need {
		w.ledger.Take(pool, step.Reason, count)
	}
	step.Remove = nil
	var claims []string
	priced := step.Reason == Underutilized // it knows what it saves
	for _, i := range nodes {
		n := &w.snap.Nodes[i]
		w.taken[i] = true
		step.Remove = append(step.Remove, removal(n, step.Reason))
		if !priced {
			step.SavingHourly += price(w.snap, n)
			step.Evictions += len(n.Reschedulable)
		}
		claims = append(claims, n.Claim)
	}
	step.ID = stepID(claims, w.snap.At)
	for i := range step.Launch {
		step.Launch[i].Replaces = step.ID
		if !priced {
			step.SavingHourly -= step.Launch[i].PriceHourly
		}
	}
	w.ahead().remove(nodes)
	w.over.assign(step.Moves)
	w.over.holdLaunches(step.Launch)
	w.out.Commands = append(w.out.Commands, step)
}

// needOf returns how many nodes of each pool are among those with these indexes, and the
// first for which its pool's budgets leave no room; nil: there is none.
func (w *work) needOf(nodes []int, reason string) (need map[string]int, short *cluster.Node) {
	need = map[string]int{}
	for _, i := range nodes {
		n := &w.snap.Nodes[i]
		if need[n.Pool]++; need[n.Pool] > w.ledger.Left(n.Pool, reason) && !w.urgent(n, reason) && short == nil {
			short = n
		}
	}
	return need, short
}

func (w *work) exhausted(n *cluster.Node, reason string) verdict.Verdict {
	return verdict.Of(verdict.BudgetExhausted, n.Name, "the budgets of pool %s allow no more disruption for %s", n.Pool, reason)
}

// block says why a node stays. Only the first reason of a kind is kept.
func (w *work) block(why verdict.Verdict) {
	key := blockKey{why.Subject, why.Reason}
	if !w.noted[key] {
		w.noted[key] = true
		w.out.Blocked = append(w.out.Blocked, why)
	}
}

// blockKey is a node and why it stays.
type blockKey struct {
	node   string
	reason verdict.Reason
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

func removal(n *cluster.Node, reason string) plan.Removal {
	return plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: reason}
}
