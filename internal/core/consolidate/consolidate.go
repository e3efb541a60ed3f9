// Package consolidate searches for commands that make the nodes of a cluster cheaper: nodes
// whose pods fit on others, and nodes that cheaper ones can replace, many by many.
//
// The one idea: a search works on a repack session (changes that are kept or undone), and
// turns what it found into commands only afterwards, each of which is safe by itself in the
// order in which they are listed. It decides about money and evictions alone; whether a
// command may begin now (budgets, cooldowns, what is in progress) is for core/disrupt to
// say, which hands in who is a candidate.
//
// Read consolidate.go (the search), then steps.go (what was found becomes commands), staged.go
// and progress.go (a command that is too large is done in stages), cost.go (what an eviction
// costs), spot.go, effort.go (bounds), tuning.go (the constants). It imports the core only,
// and not core/disrupt.
package consolidate

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Search returns the steps that make the price of all nodes, and a price for
// every eviction, as low as it can find.
//
// Nodes are drained that carry little worth for their price and their evictions, into
// those that carry most; then windows of the worst that are left are replaced by new
// ones, many by many. Pods that only moved in thought move again for nothing, so that no
// pod is evicted twice.
//
// A search may take so much effort and no more: then what it has found is the answer. If that is
// nothing, or the search ends in a bug, it is made again without the nodes whose pods have most rules.
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

// trySearch is one search. cause is empty, or why it did not come to its end: then out is
// what it had found.
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

// consolidate is one search. It writes to best whenever it has found something better.
func consolidate(snap *cluster.Snapshot, opts Options, meter *effort.Meter, best *Result) {
	c := newConsolidator(snap, opts, meter)
	if c.out.PriceHourly > c.out.BoundHourly*(1+c.opts.GapMax) || c.opts.GapMax < 0 {
		c.bestOfTries(best)
		return
	}
	c.noteKept()
	*best = c.out
}
