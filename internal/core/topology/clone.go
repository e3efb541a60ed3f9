package topology

import "slices"

// Clone returns a copy. What is counted in one does not show in the other.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.keySets, c.scratch = slices.Clip(l.keySets), nil
	c.sizes, c.groups, c.domains = slices.Clone(l.sizes), slices.Clone(l.groups), slices.Clone(l.domains)
	for k := range l.shared {
		l.shared[k] = true
	}
	c.shared = slices.Clone(l.shared)
	numbers, flags := 0, 0
	for g := range c.groups {
		gr := &c.groups[g]
		numbers += len(gr.counts) + len(gr.owners) + len(gr.maybe)
		flags += len(gr.present) + len(gr.possible) + len(gr.awaited)
	}
	l.meter.Spend(len(c.groups) + (numbers+flags)/numbersUnit)
	n, f := make([]int32, numbers), make([]bool, flags)
	for g := range c.groups {
		gr := &c.groups[g]
		n, gr.counts = moved(n, gr.counts, len(gr.counts))
		n, gr.owners = moved(n, gr.owners, len(gr.owners))
		n, gr.maybe = moved(n, gr.maybe, len(gr.maybe))
		f, gr.present = moved(f, gr.present, len(gr.present))
		f, gr.possible = moved(f, gr.possible, len(gr.possible))
		f, gr.awaited = moved(f, gr.awaited, len(gr.awaited))
	}
	return &c
}
