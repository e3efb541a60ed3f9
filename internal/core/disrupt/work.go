package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// work is one decision under way: what it is about, and what it has found so far.
type work struct {
	snap     *cluster.Snapshot
	opts     Options
	scope    scope
	ledger   *budget.Ledger
	commands []*command
	// prices of nodes; nil: not needed yet.
	prices *cluster.Prices
	// taken are the nodes of commands, in progress or begun now, by index.
	taken []bool
	// noted are the blocks that out has already.
	noted map[blockKey]bool
	// health counts the nodes of each pool, and how many are unhealthy; nil: not needed yet.
	health map[string]health
	// future is the cluster as it will be.
	future future
	// eligible counts nodes that could be disrupted, by reason.
	eligible map[string]int
	out      plan.Disruption
	found    findings
	// chunks answers where the chunks of capacity buffers will be.
	chunks chunkRoom
}

func newWork(snap *cluster.Snapshot, opts Options) *work {
	if opts.ProbesMax == 0 {
		opts.ProbesMax = probesDefault
	}
	if opts.ReplaceWithin == 0 {
		opts.ReplaceWithin = replaceWithinDefault
	}
	opts.Terms = opts.Terms.Complete()
	w := &work{
		snap: snap, opts: opts, ledger: budget.Open(snap), taken: make([]bool, len(snap.Nodes)),
		noted: map[blockKey]bool{}, eligible: map[string]int{}, out: plan.Disruption{At: snap.At},
	}
	w.future.work = w
	return w
}

// future is the cluster as it will be when all that was decided is done. It is worked out when
// it is first asked for: that takes longest of what a decision does but for its searches, and
// most decisions find that nothing can be begun anyway.
type future struct {
	work *work
	// over is the snapshot with what is worked out so far.
	over *overlay
	// targets are the nodes that pods will be on.
	targets map[cluster.PodRef]*cluster.Node
	// unplanned are pending pods without a target node. They are left out until isWhole.
	unplanned []cluster.Pod
	// isWhole: all commands and pods are in it; else only commands whose replacements are
	// initialized.
	isWhole bool
}

// block notes why a node stays. Of several verdicts with the same reason it keeps the first.
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

// contained returns the search with its bugs contained: after a panic, the other searches are still
// made, and what this one had decided by then stands.
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

// decidePods plans the pending pods of a snapshot. It adds the decisions that were given up to those
// of the plan.
func (w *work) decidePods(snap *cluster.Snapshot) plan.Plan {
	p := pack.Decide(snap, w.opts.Pack)
	w.out.GivenUp = append(w.out.GivenUp, p.GivenUp...)
	return p
}

func removal(n *cluster.Node, reason string) plan.Removal {
	return plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: reason}
}

// findings are what a decision found besides its plan, for the memory.
type findings struct {
	// conclusive: all nodes of the search were searched, and all that was found is begun.
	conclusive bool
	// excluded are nodes that were no candidates of consolidation.
	excluded []string
	// try is the order of nodes that saved most; 0: none did.
	try int
	// budgetWaits are the pools whose budgets alone keep commands from being begun, with how
	// many more nodes they allow; nil: nothing was found, or something else keeps one.
	budgetWaits map[string]int
	// commandsAt is when a command in progress may proceed or has taken too long, unless
	// another Node has been initialized before; zero: there are none.
	commandsAt time.Time
}

// command is a command in progress, as the snapshot shows it.
type command struct {
	id, reason string
	// nodes have the disruption reason and are not deleted yet. going is how many are deleted, and
	// draining how many of these still have pods.
	nodes           []int
	going, draining int
	// replacements are its launches that exist and are not deleted.
	replacements      []int
	removes, launches int
	terminatesFirst   bool
	since             time.Time
	// ended: this decision has finished or undone it.
	ended bool
}
