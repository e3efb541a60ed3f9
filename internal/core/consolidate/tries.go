package consolidate

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// bestOfTries plans several times if there are few nodes, each time with the nodes in another order.
// It leaves the plan that gains most in best.
func (c *consolidator) bestOfTries(best *Result) {
	nodes := len(c.snap.Nodes)
	tries := min(max(triesNodesMax/max(nodes, 1), 1), triesMax)
	if c.opts.DrainOnly || c.opts.Changed != nil {
		tries = 1
	}
	none, most := c.out, -1.0
	*best = none
	attempt := func(try int) {
		mark := c.s.Nodes.Begin()
		c.out, c.gain, c.noise, c.limited = none, 0, noise(try), c.opts.DrainOnly
		clear(c.received)
		clear(c.launched)
		c.plan(most)
		if c.gain > most {
			c.noteKept()
			*best, most = c.out, c.gain
			if len(best.Steps) > 0 {
				best.Try = try + 1
			}
		}
		c.s.Nodes.Undo(mark)
		c.s.Launcher.Remember(removed(c.out.Steps) <= nodes/littleShare)
	}
	few := func() bool {
		return c.opts.MayBegin != nil && len(best.Steps) >= fewShare*max(c.opts.MayBegin(best.Steps), 1)
	}
	if c.opts.Try > 0 {
		if attempt(c.opts.Try - 1); most > 0 {
			tries = min(tries, triesAgain)
		}
		if few() {
			return
		}
	}
	for try, futile := 0, 0; try < tries && futile < triesFutile; try++ {
		if try == c.opts.Try-1 {
			continue // it has been made
		}
		had := most
		if attempt(try); most > max(had, 0)+moreShare*none.PriceHourly {
			futile = 0
		} else {
			futile++
		}
		if few() {
			tries = min(tries, triesAgain)
		}
	}
}

// removed returns how many nodes the steps remove.
func removed(steps []plan.Command) (n int) {
	for i := range steps {
		n += len(steps[i].Remove)
	}
	return n
}

// plan searches and makes commands of what it found. If not everything became commands it searches
// again, unless it would find the same. It gives up when it cannot come near gained, what another
// order of nodes has gained.
func (c *consolidator) plan(gained float64) {
	for range searchRoundsMax {
		had, drafts := len(c.out.Steps), c.search()
		if c.estimateOf(drafts) < hopelessShare*gained {
			return
		}
		if all := c.makeSteps(drafts); all || c.opts.DrainOnly || c.limited && len(c.out.Steps) == had {
			return
		}
		c.conclude()
		c.limited = true
	}
}

// estimateOf returns what the drafts and all commands so far would save beyond what they cost.
func (c *consolidator) estimateOf(drafts []*draft) float64 {
	sum := c.gain
	for _, d := range drafts {
		sum += d.saving
		for _, h := range d.remove {
			sum -= c.cost[h]
		}
	}
	return sum
}

// conclude notes the nodes that commands have put pods on. They are not removed, so that no pod is
// evicted twice.
func (c *consolidator) conclude() {
	for h := range c.received {
		c.received[h] = len(c.s.Nodes.Added(h)) > 0
	}
}

// noteKept adds to the result why candidates stay.
func (c *consolidator) noteKept() {
	gone := map[string]bool{}
	for i := range c.out.Steps {
		for _, r := range c.out.Steps[i].Remove {
			gone[r.Node] = true
		}
	}
	for h := range c.snap.Nodes {
		n := &c.snap.Nodes[h]
		switch {
		case gone[n.Name]:
		case !c.why[h].IsYes():
			if c.why[h].Subject != "" {
				c.out.Kept = append(c.out.Kept, c.why[h])
			}
		case math.IsNaN(c.cost[h]):
		case !c.replaceable(h).IsYes():
			c.out.Kept = append(c.out.Kept, c.replaceable(h))
		case !c.spotStays(h).IsYes():
			c.out.Kept = append(c.out.Kept, c.spotStays(h))
		default:
			c.out.Kept = append(c.out.Kept, verdict.Of(verdict.Unconsolidatable, n.Name,
				"nothing was found that saves enough: it costs %.4f an hour, its pods are worth %.4f on new nodes, and removing it must save %.4f",
				c.s.Nodes.Price(h), c.s.Worth(h), c.cost[h]))
		}
	}
}
