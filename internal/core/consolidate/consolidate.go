// Package consolidate searches for commands that make the nodes of a cluster cheaper: nodes
// whose pods fit on others, and nodes that cheaper ones can replace, many by many.
//
// The one idea: a search works on a repack session (changes that are kept or undone), and
// turns what it found into commands only afterwards, each of which is safe by itself in the
// order in which they are listed. It decides about money and evictions alone; whether a
// command may begin now (budgets, cooldowns, what is in progress) is for core/disrupt to
// say, which hands in who is a candidate.
//
// Read search.go (one search), then tries.go (several searches), commands.go and take.go (what was
// found becomes commands), staged.go and progress.go (a command that is too large is done in
// stages), consolidator.go and cost.go (what removing a node costs), workloads.go (what
// gathering pods costs that placement has spread), tuning.go (the constants). It imports the core only,
// and not core/disrupt.
package consolidate

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Search returns commands that make the price of all nodes, plus a price for every eviction, as
// low as it can find.
//
// First it drains nodes that carry little worth for their price and their evictions into those
// that carry most. Then it replaces the worst that are left by new ones, several by several. A pod
// that was moved during the search can be moved again at no cost; in the result each pod is
// evicted once at most.
//
// The effort of a search is bounded. When it is spent, what was found so far is the answer. If that
// is nothing, or the search ends in a bug, it is repeated without the nodes whose pods have most
// rules.
func Search(snap *cluster.Snapshot, opts Options) Result {
	var givenUp []string
	for attempt := 0; ; attempt++ {
		out, cause := trySearch(snap, opts)
		if cause != "" {
			givenUp = append(givenUp, cause)
		}
		if cause == "" || len(out.Steps) > 0 || attempt == searchesMax {
			out.GivenUp = givenUp
			return out
		}
		snap = withoutHeavy(snap)
	}
}

// trySearch is one search. cause is why it did not come to its end, or empty; out is what it has
// found until then.
func trySearch(snap *cluster.Snapshot, opts Options) (out Result, cause string) {
	meter := effort.New(searchEffort(snap, opts))
	defer func() {
		if r := recover(); r != nil {
			out, cause = Result{}, effort.Bug(r)
		}
		out.Effort = meter.Spent()
	}()
	if !meter.Run(func() { consolidate(snap, opts, meter, &out) }) {
		cause = plan.CauseEffort
	}
	return out, cause
}

// consolidate searches, and writes to best whenever it has found something better.
func consolidate(snap *cluster.Snapshot, opts Options, meter *effort.Meter, best *Result) {
	c := newConsolidator(snap, opts, meter)
	if c.out.PriceHourly > c.out.BoundHourly*(1+c.opts.GapMax) || c.opts.GapMax < 0 {
		c.bestOfTries(best)
		return
	}
	c.noteKept()
	*best = c.out
}
