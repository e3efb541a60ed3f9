package consolidate

import (
	"slices"
)

// makeSteps turns drafts into commands. Each is judged anew after those before it. A draft may be
// impossible as it was found, because of rules between pods, or because it is too large for one
// command. It is then searched once more in parts, which are halved until they save enough. makeSteps
// reports whether all nodes of the drafts go.
func (c *consolidator) makeSteps(drafts []*draft) (all bool) {
	c.rankStaying(drafts)
	rest := c.takeAll(drafts, c.follow)
	for i, d := range rest {
		rest[i] = c.execute(d)
	}
	c.s.Rescheduler.Probe()
	for parts := c.parts(rest); len(parts) > 0; parts = halves(rest) {
		rest = c.takeAll(parts, c.searchAnew)
	}
	for _, d := range drafts {
		if slices.ContainsFunc(d.remove, func(h int32) bool { return !c.s.Nodes.IsGone(int(h)) }) {
			return false
		}
	}
	return true
}

// takeAll turns drafts into commands, and returns the drafts for which that failed. A draft may need
// room that another frees, so it tries again as long as one succeeds.
func (c *consolidator) takeAll(drafts []*draft, do func(d *draft, mark int) bool) []*draft {
	for progress := true; progress; {
		progress = false
		var later []*draft
		for _, d := range drafts {
			mark := c.s.Nodes.Begin()
			step, gain, ok := c.take(d, mark, do)
			if !ok {
				c.s.Nodes.Undo(mark)
				later = append(later, d)
				continue
			}
			c.accept(mark, step, gain)
			c.s.Rescheduler.Admit(mark)
			progress = true
		}
		drafts = later
	}
	return drafts
}

// parts divides the nodes of drafts, worst first, into as few parts as it can. One command may remove
// the nodes of one part.
func (c *consolidator) parts(drafts []*draft) []*draft {
	var parts []*draft
	for _, d := range drafts {
		from := len(parts)
		order := c.ranked(c.s.Worth, func(h int) bool { _, is := slices.BinarySearch(d.remove, int32(h)); return is })
		if c.noise%2 == 1 {
			slices.Reverse(order)
		}
		for _, h := range order {
			k := max(from, len(parts)-partsOpen)
			for k < len(parts) && !c.opts.mayGo(c.snap, append(parts[k].remove, h)) {
				k++
			}
			if k == len(parts) {
				parts = append(parts, &draft{})
			}
			parts[k].remove = append(parts[k].remove, h)
		}
	}
	return parts
}

// rankStaying ranks the nodes that no draft removes: only these take pods.
func (c *consolidator) rankStaying(drafts []*draft) {
	goes := make([]bool, c.s.Nodes.Hosts())
	for _, d := range drafts {
		for _, h := range d.remove {
			goes[h] = true
		}
	}
	order := c.ranked(c.s.Room, func(h int) bool { return !goes[h] })
	slices.Reverse(order)
	c.s.Rescheduler.Rank(order)
}

// searchAnew finds other nodes for the pods of a draft's nodes.
func (c *consolidator) searchAnew(d *draft, mark int) bool {
	if c.s.Rescheduler.Reschedule() || c.opts.DrainOnly {
		return true
	}
	limit, first := 0.0, c.s.Nodes.Hosts()
	for _, h := range d.remove {
		limit += c.s.Nodes.Price(int(h)) - c.cost[h]
	}
	if c.s.Launcher.LaunchMany(limit) {
		return c.redo(d, mark, first)
	}
	if _, ok := c.s.Launcher.LaunchFor(limit); !ok {
		return false
	}
	c.s.Rescheduler.Admit(mark)
	c.windows(roundsMax, func(h int) bool { return h >= first }, func(hosts []int32) bool {
		mark := c.s.Nodes.Begin()
		gains := c.swap(mark, hosts)
		if gains {
			c.s.Rescheduler.Admit(mark)
		}
		return gains
	})
	return c.redo(d, mark, first)
}

// redo undoes what was done since the mark in many changes, and does the result in one, as far as
// rules between pods allow.
func (c *consolidator) redo(d *draft, mark, first int) bool {
	once := c.outcome(mark, first)
	c.s.Nodes.Undo(mark)
	for _, h := range d.remove {
		c.s.Nodes.Remove(int(h))
	}
	return c.launchAlike(once, once.moves)
}
