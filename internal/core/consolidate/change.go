package consolidate

import "slices"

// keep makes the current change final, and joins it with the changes that it builds on. It refuses if
// that group may not be: too many spot nodes, launches that may not be made, or, when searches
// are limited, more than one command may do.
func (c *consolidator) keep(mark int, hosts []int32) bool {
	self := c.groups.find(c.s.Nodes.Change())
	roots, removed := []int32{self}, []int32(nil)
	join := func(change int32) {
		if change < 0 {
			return
		}
		if root := c.groups.find(change); !slices.Contains(roots, root) {
			roots = append(roots, root)
			removed = append(removed, c.groups.removed[root]...)
		}
	}
	for _, h := range hosts {
		if c.s.Nodes.Node(int(h)) != nil {
			removed = append(removed, h)
		}
		join(c.s.Nodes.Since(int(h)))
		for _, sh := range c.s.Nodes.Added(int(h)) {
			join(sh.Change)
		}
	}
	for _, h := range c.s.Nodes.Stocked(mark) {
		if h >= c.bought {
			join(c.s.Nodes.Since(h))
		}
	}
	if c.limited && !c.opts.mayGo(c.snap, removed) || !c.mayStock(mark, removed) || c.spotIn(roots) > c.spotMost(removed) {
		return false
	}
	if len(c.snap.Nodes) <= manyNodes {
		c.s.Rescheduler.Admit(mark)
	}
	c.s.Nodes.Keep(mark)
	for _, root := range roots {
		c.groups.parent[root], c.groups.removed[root] = self, nil
	}
	c.groups.removed[self] = removed
	return true
}

// mayStock reports whether the nodes may be removed with what was launched for them since the mark.
func (c *consolidator) mayStock(mark int, hosts []int32) bool {
	return c.opts.Replaceable == nil || len(c.s.Nodes.Stocked(mark)) == 0 ||
		!slices.ContainsFunc(hosts, func(h int32) bool { return !c.replaceable(int(h)).IsYes() })
}
