package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// consolidation proposes commands that make the nodes that are left cheaper.
type consolidation struct {
	work   *work
	taints *softTaints
	// excluded are those of the scope, by name.
	excluded map[string]bool
}

// underutilized proposes what makes the nodes that are left cheaper, as far as their
// pools want that and their budgets let it.
func (c *consolidation) run() {
	if !c.anyLeft() {
		c.taints.removeFrom(func(n *cluster.Node) bool { return !c.work.consolidates(n.Pool) })
		c.noteStaying()
		return
	}
	opts := consolidate.Options{
		Terms: c.work.opts.Terms, Pack: c.work.opts.Pack, Candidate: c.consolidatable, DrainOnly: c.work.scope.search == DrainSearch, Try: c.work.scope.try,
		PoolMax:  func(pool string) int { return c.work.ledger.Most(pool, Underutilized) },
		MayBegin: c.mayBeginOf,
	}
	if c.noteExcluded(); c.work.scope.search == ChangedSearch {
		c.excluded = make(map[string]bool, len(c.work.scope.excluded))
		for _, name := range c.work.scope.excluded {
			c.excluded[name] = true
		}
		opts.Changed = func(n *cluster.Node) bool { return c.excluded[n.Name] || c.happened(n) }
		if !c.anyChanged() {
			c.work.found.conclusive = true
			c.taints.removeFrom(func(*cluster.Node) bool { return true })
			return
		}
	}
	for _, until := range c.work.scope.paused {
		if until.After(c.work.snap.At) {
			opts.Replaceable = c.work.replaceable
		}
	}
	found := consolidate.Search(c.work.future.ahead().snap, opts)
	c.work.out.FleetBoundHourly, c.work.found.try = found.BoundHourly, found.Try
	c.work.out.GivenUp = append(c.work.out.GivenUp, found.GivenUp...)
	c.work.found.conclusive = !opts.DrainOnly
	steps := c.beginAll(found.Steps)
	c.work.found.budgetWaits = c.waitsFor(steps)
	c.noteScores(found)
	c.taints.addForLater(steps)
	for _, why := range found.Kept {
		c.work.block(why)
	}
}

// beginAll begins the commands that may begin. It returns them and those that may begin later: not those
// that capacity buffers keep from it, whose nodes stay.
func (c *consolidation) beginAll(steps []plan.Command) (all []plan.Command) {
	for i := range steps {
		nodes, stays := c.nodesOf(&steps[i]), false
		if c.mayBegin(&steps[i]) {
			why := c.work.keepChunks(&steps[i])
			if stays = !why.IsYes(); stays {
				c.work.block(why)
			} else {
				c.work.begin(nodes, steps[i])
			}
		}
		c.work.found.conclusive = c.work.found.conclusive && c.work.taken[nodes[0]]
		if !stays {
			all = append(all, steps[i])
		}
	}
	return all
}

// mayBeginOf returns how many of the commands budgets allow to begin now, in this order.
func (c *consolidation) mayBeginOf(steps []plan.Command) (n int) {
	taken := map[string]int{}
	for i := range steps {
		need := map[string]int{}
		for _, r := range steps[i].Remove {
			need[r.Pool]++
		}
		fits := true
		for pool, count := range need {
			fits = fits && taken[pool]+count <= c.work.ledger.Left(pool, Underutilized)
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

// waitsFor returns the pools whose budgets keep commands from being begun; nil if one of the commands
// waits for something else.
func (c *consolidation) waitsFor(steps []plan.Command) map[string]int {
	pools := map[string]int{}
	for i := range steps {
		nodes := c.nodesOf(&steps[i])
		if slices.ContainsFunc(nodes, func(h int) bool { return c.work.taken[h] }) {
			continue // it has begun
		}
		_, short := c.work.needOf(nodes, Underutilized)
		if short == nil {
			return nil
		}
		pools[short.Pool] = c.work.ledger.Left(short.Pool, Underutilized)
	}
	if len(pools) == 0 || c.work.scope.search == DrainSearch {
		return nil
	}
	return pools
}

// noteScores keeps the last score of each command that is begun or was rejected.
func (c *consolidation) noteScores(found consolidate.Result) {
	goes, begun, noted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range found.Steps {
		for _, r := range found.Steps[i].Remove {
			goes[r.Node] = true
		}
	}
	for i := range c.work.out.Commands {
		begun[c.work.out.Commands[i].Remove[0].Node] = true
	}
	for _, s := range slices.Backward(found.Scores) {
		if key := s.Pool + "/" + s.Node; !noted[key] && (s.Approved && begun[s.Node] || !s.Approved && !goes[s.Node]) {
			noted[key] = true
			c.work.out.Scores = append(c.work.out.Scores, s)
		}
	}
}

// anyLeft reports whether any budget allows consolidation: otherwise no search is needed.
func (c *consolidation) anyLeft() bool {
	for i := range c.work.snap.Pools {
		if p := c.work.snap.Pools[i].Name; c.work.consolidates(p) && c.work.ledger.Left(p, Underutilized) > 0 {
			return true
		}
	}
	return false
}

// noteExcluded notes for the memory which nodes are no candidates now.
func (c *consolidation) noteExcluded() {
	for i := range c.work.snap.Nodes {
		if n := &c.work.snap.Nodes[i]; n.Claim != "" && !n.Deleting && !c.stays(i, n).IsYes() {
			c.work.found.excluded = append(c.work.found.excluded, n.Name)
		}
	}
}

// anyChanged reports whether any node has changed since the last search that found nothing, or has
// become a candidate.
func (c *consolidation) anyChanged() bool {
	for i := range c.work.snap.Nodes {
		if n := &c.work.snap.Nodes[i]; c.happened(n) || c.excluded[n.Name] && c.stays(i, n).IsYes() {
			return true
		}
	}
	return false
}

// happened reports whether, since the last search that found nothing, consolidateAfter of a node has
// elapsed or the cooldown of one of its pods has ended.
func (c *consolidation) happened(n *cluster.Node) bool {
	over := n.LastPodEvent
	if pool, ok := c.work.snap.PoolByName(n.Pool); ok {
		over = over.Add(max(eventLag, pool.ConsolidateAfter))
	}
	for i := range n.Reschedulable {
		if r := &n.Reschedulable[i]; !r.Moved.IsZero() {
			if end := r.Moved.Add(c.work.opts.Terms.CooldownOf(r)); end.After(over) {
				over = end
			}
		}
	}
	return over.After(c.work.scope.since) && !over.After(c.work.snap.At)
}

// noteStaying notes for each node why consolidation does not remove it, without a search for what
// that would save.
func (c *consolidation) noteStaying() {
	for i := range c.work.snap.Nodes {
		n := &c.work.snap.Nodes[i]
		if n.Claim == "" || n.Deleting {
			continue
		}
		why := c.stays(i, n)
		if why.IsYes() {
			why = c.work.exhausted(n, Underutilized)
		}
		if why.Subject != "" {
			c.work.block(why)
		}
	}
}

// consolidatable returns why consolidation may not remove a node; yes means that it may.
func (c *consolidation) consolidatable(n *cluster.Node) verdict.Verdict {
	return c.stays(c.work.future.over.at[n.Name], n)
}

// stays is consolidatable for the node with the index, as it is now or as it will be.
func (c *consolidation) stays(i int, n *cluster.Node) verdict.Verdict {
	pool, ok := c.work.snap.PoolByName(n.Pool)
	switch {
	case c.work.taken[i] || n.Empty || len(n.Reschedulable) == 0 || c.work.replaces(n):
		return verdict.Of(verdict.NodeBlocked, "", "") // it is removed or considered for another reason
	case ok && pool.Static:
		return verdict.Of(verdict.Unconsolidatable, n.Name, "pool %s has a fixed number of nodes", n.Pool)
	case ok && pool.Policy == cluster.PolicyEmpty:
		return verdict.Of(verdict.Unconsolidatable, n.Name, "consolidationPolicy of pool %s is %s", n.Pool, pool.Policy)
	}
	if why, cooling := c.work.scope.coolingDown[n.Name]; cooling {
		return why
	}
	return c.work.busy(n)
}

// mayBegin reports whether a command may be begun now, if budgets allow it.
func (c *consolidation) mayBegin(s *plan.Command) bool {
	if s.NotBefore.After(c.work.snap.At) || len(s.Joins) > 0 {
		return false
	}
	if !c.work.future.over.withinLimits(s.Launch) { // the search counts on what earlier commands remove
		c.work.block(verdict.Of(verdict.NoReplacement, s.Remove[0].Node, "the limits of its replacement's pool, or a supply, leave no room until other nodes are gone"))
		return false
	}
	return true
}

func (c *consolidation) nodesOf(s *plan.Command) (nodes []int) {
	for _, r := range s.Remove {
		nodes = append(nodes, c.work.future.over.at[r.Node])
	}
	return nodes
}
