package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// underutilized proposes what makes the nodes that are left cheaper, as far as their
// pools want that and their budgets let it.
func (w *work) underutilized() {
	if !w.anyLeft() {
		w.unshun(func(n *cluster.Node) bool { return !w.consolidates(n.Pool) })
		w.noteStaying()
		return
	}
	opts := consolidate.Options{
		Terms: w.opts.Terms, Pack: w.opts.Pack, Candidate: w.consolidatable, DrainOnly: w.scope.search == DrainSearch, Try: w.scope.try,
		PoolMax:  func(pool string) int { return w.ledger.Most(pool, Underutilized) },
		MayBegin: w.mayBeginOf,
	}
	if w.noteExcluded(); w.scope.search == ChangedSearch {
		w.excluded = make(map[string]bool, len(w.scope.excluded))
		for _, name := range w.scope.excluded {
			w.excluded[name] = true
		}
		opts.Changed = func(n *cluster.Node) bool { return w.excluded[n.Name] || w.happened(n) }
		if !w.anyChanged() {
			w.found.conclusive = true
			w.unshun(func(*cluster.Node) bool { return true })
			return
		}
	}
	for _, until := range w.scope.paused {
		if until.After(w.snap.At) {
			opts.Replaceable = w.replaceable
		}
	}
	found := consolidate.Search(w.ahead().snap, opts)
	w.out.FleetBoundHourly, w.found.try = found.BoundHourly, found.Try
	w.out.GivenUp = append(w.out.GivenUp, found.GivenUp...)
	w.found.conclusive = !opts.DrainOnly
	for i := range found.Steps {
		nodes := w.nodesOf(&found.Steps[i])
		if w.mayBegin(&found.Steps[i]) {
			w.begin(nodes, found.Steps[i])
		}
		w.found.conclusive = w.found.conclusive && w.taken[nodes[0]]
	}
	w.found.budgetWaits = w.waitsFor(found.Steps)
	w.noteScores(found)
	w.taintSoftly(found.Steps)
	for _, why := range found.Kept {
		w.block(why)
	}
}

// mayBeginOf returns how many of the steps budgets let begin now, those first that come first.
func (w *work) mayBeginOf(steps []plan.Command) (n int) {
	taken := map[string]int{}
	for i := range steps {
		need := map[string]int{}
		for _, r := range steps[i].Remove {
			need[r.Pool]++
		}
		fits := true
		for pool, count := range need {
			fits = fits && taken[pool]+count <= w.ledger.Left(pool, Underutilized)
		}
		if !fits {
			continue
		}
		n++
		for pool, count := range need {
			taken[pool] += count
		}
	}
	return n
}

// waitsFor returns the pools whose budgets keep steps from being begun; nil if something else
// keeps one of them.
func (w *work) waitsFor(steps []plan.Command) map[string]int {
	pools := map[string]int{}
	for i := range steps {
		nodes := w.nodesOf(&steps[i])
		if slices.ContainsFunc(nodes, func(h int) bool { return w.taken[h] }) {
			continue // it has begun
		}
		_, short := w.needOf(nodes, Underutilized)
		if short == nil {
			return nil
		}
		pools[short.Pool] = w.ledger.Left(short.Pool, Underutilized)
	}
	if len(pools) == 0 || w.scope.search == DrainSearch {
		return nil
	}
	return pools
}

// noteScores keeps the last score of each step that is begun, and of each that was rejected.
func (w *work) noteScores(found consolidate.Result) {
	goes, begun, noted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range found.Steps {
		for _, r := range found.Steps[i].Remove {
			goes[r.Node] = true
		}
	}
	for i := range w.out.Commands {
		begun[w.out.Commands[i].Remove[0].Node] = true
	}
	for _, s := range slices.Backward(found.Scores) {
		if key := s.Pool + "/" + s.Node; !noted[key] && (s.Approved && begun[s.Node] || !s.Approved && !goes[s.Node]) {
			noted[key] = true
			w.out.Scores = append(w.out.Scores, s)
		}
	}
}

// anyLeft reports whether a budget allows consolidation of anything: else it need not be
// worked out.
func (w *work) anyLeft() bool {
	for i := range w.snap.Pools {
		if p := w.snap.Pools[i].Name; w.consolidates(p) && w.ledger.Left(p, Underutilized) > 0 {
			return true
		}
	}
	return false
}

// noteExcluded notes which nodes are no candidates now.
func (w *work) noteExcluded() {
	for i := range w.snap.Nodes {
		if n := &w.snap.Nodes[i]; n.Claim != "" && !n.Deleting && !w.stays(i, n).IsYes() {
			w.found.excluded = append(w.found.excluded, n.Name)
		}
	}
}

// anyChanged reports whether there is a node to be looked at of which the last search that found
// nothing did not know.
func (w *work) anyChanged() bool {
	for i := range w.snap.Nodes {
		if n := &w.snap.Nodes[i]; w.happened(n) || w.excluded[n.Name] && w.stays(i, n).IsYes() {
			return true
		}
	}
	return false
}

// happened reports whether something that had happened to a node has been over for long enough only
// since the last search that found nothing.
func (w *work) happened(n *cluster.Node) bool {
	over := n.LastPodEvent
	if pool, ok := w.snap.PoolByName(n.Pool); ok {
		over = over.Add(max(eventLag, pool.ConsolidateAfter))
	}
	for i := range n.Reschedulable {
		if r := &n.Reschedulable[i]; !r.Moved.IsZero() {
			if rested := r.Moved.Add(w.opts.Terms.CooldownOf(r)); rested.After(over) {
				over = rested
			}
		}
	}
	return over.After(w.scope.since) && !over.After(w.snap.At)
}

// consolidates reports whether a pool wants its nodes consolidated and its budgets allow
// that now.
func (w *work) consolidates(pool string) bool {
	p, ok := w.snap.PoolByName(pool)
	return ok && !p.Static && p.Policy != cluster.PolicyEmpty && p.ConsolidateAfter >= 0 && w.ledger.Allowed(pool, Underutilized) > 0
}

// noteStaying says of each node why consolidation does not remove it, without having
// worked out whether that would save anything.
func (w *work) noteStaying() {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.Claim == "" || n.Deleting {
			continue
		}
		why := w.stays(i, n)
		if why.IsYes() {
			why = w.exhausted(n, Underutilized)
		}
		if why.Subject != "" {
			w.block(why)
		}
	}
}

// consolidatable returns why a node is none that consolidation may remove; yes means
// that it may.
func (w *work) consolidatable(n *cluster.Node) verdict.Verdict {
	return w.stays(w.over.at[n.Name], n)
}

// stays is consolidatable for the node with an index, as it is now or will be.
func (w *work) stays(i int, n *cluster.Node) verdict.Verdict {
	pool, ok := w.snap.PoolByName(n.Pool)
	switch {
	case w.taken[i] || n.Empty || len(n.Reschedulable) == 0 || w.replaces(n):
		return verdict.Of(verdict.NodeBlocked, "", "") // it goes, or is looked at, for another reason
	case ok && pool.Static:
		return verdict.Of(verdict.Unconsolidatable, n.Name, "pool %s has a fixed number of nodes", n.Pool)
	case ok && pool.Policy == cluster.PolicyEmpty:
		return verdict.Of(verdict.Unconsolidatable, n.Name, "consolidationPolicy of pool %s is %s", n.Pool, pool.Policy)
	}
	if why, rests := w.scope.coolingDown[n.Name]; rests {
		return why
	}
	return w.busy(n)
}

// mayBegin reports whether a step may be begun now, its budgets aside.
func (w *work) mayBegin(s *plan.Command) bool {
	if s.NotBefore.After(w.snap.At) || len(s.Joins) > 0 {
		return false
	}
	if !w.over.withinLimits(s.Launch) { // the search reckons with what earlier steps remove
		w.block(verdict.Of(verdict.NoReplacement, s.Remove[0].Node, "the limits of its replacement's pool leave no room until other machines are gone"))
		return false
	}
	return true
}

func (w *work) nodesOf(s *plan.Command) (nodes []int) {
	for _, r := range s.Remove {
		nodes = append(nodes, w.over.at[r.Node])
	}
	return nodes
}
