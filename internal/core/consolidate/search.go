package consolidate

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/repack"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// search finds what could be cheaper, and returns it as drafts. It leaves the session as it was.
func (c *consolidator) search() []*draft {
	mark := c.s.Nodes.Begin()
	c.bought = c.s.Nodes.Hosts()
	c.groups.forget()
	clear(c.futile)
	c.drain()
	if !c.opts.DrainOnly {
		c.replace()
	}
	drafts := c.drafts()
	c.s.Nodes.Undo(mark)
	return drafts
}

// drain removes nodes, worst first, whose pods all fit on others.
func (c *consolidator) drain() {
	order := c.ranked(c.s.Room, func(int) bool { return true })
	best := slices.Clone(order)
	slices.Reverse(best)
	c.s.Rescheduler.Rank(best)
	for _, h := range order {
		h := int(h)
		if cost := c.costOf(h); math.IsNaN(cost) || c.s.Nodes.Price(h) < cost || !c.s.Rescheduler.MayLeave(h) {
			continue
		}
		mark := c.s.Nodes.Begin()
		c.s.Nodes.Remove(h)
		if !c.s.Rescheduler.RescheduleOrFail() || !c.keep(mark, []int32{int32(h)}) {
			c.s.Nodes.Undo(mark)
		}
	}
}

// replace replaces the worst nodes by new ones, several at a time: a window is some nodes that follow
// each other in the ranking.
func (c *consolidator) replace() {
	rounds := roundsMax
	if len(c.snap.Nodes) > manyNodes {
		rounds = roundsFew
	}
	c.windows(rounds, func(h int) bool { return !math.IsNaN(c.costOf(h)) && c.replaceable(h).IsYes() }, func(hosts []int32) bool {
		mark := c.s.Nodes.Begin()
		if !c.swap(mark, hosts) {
			return false
		}
		if !c.keep(mark, hosts) {
			c.s.Nodes.Undo(mark)
			return false
		}
		return true
	})
}

// windows calls gains for windows of the wanted nodes, worst first, of each size. It starts over as
// long as one of them gained something, at most so many rounds.
func (c *consolidator) windows(rounds int, want func(h int) bool, gains func(hosts []int32) bool) {
	var order []int32
	stale := true
	for range rounds {
		gained := false
		for _, size := range []int{1, 3, 8, 32} {
			if stale {
				order, stale = c.ranked(c.s.Worth, want), false
			}
			c.s.Rescheduler.Probe()
			for from := 0; from < len(order); from += size {
				if gains(order[from:min(from+size, len(order))]) {
					gained, stale = true, true
				}
			}
		}
		if !gained {
			return
		}
	}
}

// swap removes nodes and launches others for their pods, if that saves enough. A window that gained
// nothing is not tried again until its nodes change: changes of other nodes hardly make room for it.
func (c *consolidator) swap(mark int, hosts []int32) bool {
	if c.opts.Changed != nil && !slices.ContainsFunc(hosts, func(h int32) bool { n := c.s.Nodes.Node(int(h)); return n == nil || c.opts.Changed(n) }) {
		return false
	}
	sum := c.sumOf(hosts)
	if c.futile[sum] {
		return false
	}
	limit, worth := -leastSaving, 0.0
	for _, h := range hosts {
		limit += c.s.Nodes.Price(int(h)) - c.costOf(int(h))
		worth += c.s.Worth(int(h))
	}
	if limit <= worth {
		return false
	}
	for _, h := range hosts {
		c.s.Nodes.Remove(int(h))
	}
	if c.s.Rescheduler.Reschedule() {
		return true
	}
	if _, ok := c.s.Launcher.LaunchFor(limit); ok {
		return true
	}
	c.s.Nodes.Undo(mark)
	c.futile[sum] = true
	return false
}

// sumOf returns a hash of nodes, in any order, and of the pods that were put on them.
func (c *consolidator) sumOf(hosts []int32) (sum topology.Sum) {
	for _, h := range hosts {
		one := topology.Sum(0).Add(uint64(h)).Add(uint64(c.s.Nodes.Bin(int(h))))
		for _, sh := range c.s.Nodes.Added(int(h)) {
			one = one.Add(uint64(sh.Class)<<32 | uint64(sh.N))
		}
		sum += one
	}
	return sum
}

// drafts returns what each group of changes comes to, best first.
func (c *consolidator) drafts() (all []*draft) {
	byRoot := map[int32]*draft{}
	for change, removed := range c.groups.removed {
		if len(removed) == 0 {
			continue
		}
		d := &draft{remove: slices.Sorted(slices.Values(removed))}
		for _, h := range d.remove {
			d.saving += c.s.Nodes.Price(int(h))
			d.weight += c.weight[h]
		}
		byRoot[int32(change)] = d
		all = append(all, d)
	}
	for h := range c.s.Nodes.Hosts() {
		if c.s.Nodes.IsGone(h) {
			continue
		}
		if since := c.s.Nodes.Since(h); h >= c.bought {
			if d := byRoot[c.groups.find(since)]; d != nil {
				d.launches = append(d.launches, purchase{c.s.Nodes.Bin(h), slices.Clone(c.s.Nodes.Added(h))})
				d.saving -= c.s.Nodes.Price(h)
			}
			continue
		}
		for _, sh := range c.s.Nodes.Added(h) {
			if d := byRoot[c.groups.find(sh.Change)]; d != nil {
				d.moves = append(d.moves, repack.Move{Class: sh.Class, Host: int32(h), N: sh.N})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(b.saving/max(b.weight, 0.01), a.saving/max(a.weight, 0.01)), cmp.Compare(a.remove[0], b.remove[0]))
	})
	return all
}
