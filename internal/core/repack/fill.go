package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// filler fills one bin, a new node that is not launched yet, with unplaced pods.
//
// core/cover fills bins too (cover/fill.go), by another algorithm on purpose. A problem of cover
// is compiled once and solved at length. It may have thousands of classes, so cover compares them
// in 32 bits and chooses dozens of them before it prices anew what is free, and it knows rules
// between pods only as conflicts of two classes. The search of consolidation fills bins for a few
// pods, thousands of times a second, each time for others. So here nothing is compiled, each
// class is the best one for what is free at that moment, and every pod is checked against all
// rules with what is in the bin. For many pods LaunchMany asks cover.
type filler struct {
	inv   *Inventory
	nodes *Nodes
	// content is what is in the bin.
	content []Share
	free    quantity.Vector
	// have is free, and inverse its inverse, in blocks of four resources as in Inventory.blocks.
	have, inverse [][4]float64
	candidates    []int32 // classes that may still fit
	left          []int32 // by class: pods that may be put in
}

func newFiller(inv *Inventory, nodes *Nodes) filler {
	blocks := blocksOf(len(inv.model.Space))
	return filler{
		inv: inv, nodes: nodes, free: make(quantity.Vector, len(inv.model.Space)),
		have: make([][4]float64, blocks), inverse: make([][4]float64, blocks), left: make([]int32, len(inv.classes)),
	}
}

// fill empties the bin and fills it with unplaced pods of some classes, those first that are
// worth most for what they take of what is left. It returns what the content is worth.
func (f *filler) fill(b int, classes []int32) (worth float64) {
	s, bin := f.inv, &f.inv.offerings[b]
	s.model.Meter.Spend(1 + len(classes))
	f.content, f.candidates = f.content[:0], f.candidates[:0]
	copy(f.free, bin.free)
	for r := range f.free {
		f.setFree(r)
	}
	for _, c := range classes {
		if f.nodes.unplaced[c] > 0 && bin.allowed.Has(int(c)) && s.fits(c, f.free) {
			f.candidates = append(f.candidates, c)
			f.left[c] = f.nodes.unplaced[c]
		}
	}
	counted := false
	for len(f.candidates) > 0 {
		c, n := f.pick()
		if n == 0 {
			break
		}
		if s.hasConflict(bin.at, c, f.content) {
			f.left[c] = 0
			continue
		}
		if want := s.classes[c].Constraints.Ports; s.keyed[c] || len(want) > 0 {
			if counted = true; len(want) > 0 && s.portTaken(bin, f.content, want) || !s.mayJoin(c, &bin.place) {
				f.left[c] = 0
				continue
			}
			n = 1
			s.ledger.Count(int(c), &bin.place, 1, 0)
		}
		f.put(c, n)
		worth += s.worth[c] * float64(n)
	}
	if counted {
		for _, sh := range f.content {
			if s.keyed[sh.Class] {
				s.ledger.Count(int(sh.Class), &bin.place, -sh.N, 0)
			}
		}
	}
	return worth
}

// put puts n pods of a class into the bin.
func (f *filler) put(c, n int32) {
	need := f.inv.classes[c].Need
	f.free.AddN(need, -int64(n))
	for r, amount := range need {
		if amount != 0 {
			f.setFree(r)
		}
	}
	f.left[c] -= n
	k := slices.IndexFunc(f.content, func(sh Share) bool { return sh.Class == c })
	if k < 0 {
		k = len(f.content)
		f.content = append(f.content, Share{Class: c})
	}
	f.content[k].N += n
}

// setFree notes in have and inverse how much of a resource is free.
func (f *filler) setFree(r int) {
	have, inverse := 0.0, 0.0
	if amount := f.free[r]; amount > 0 {
		have, inverse = float64(amount), 1/float64(amount)
	}
	f.have[r/4][r%4], f.inverse[r/4][r%4] = have, inverse
}

// pick returns the candidate that is worth most for what it takes, and how many of its pods to
// put in at once: a quarter of those that fit. n is 0 if no candidate fits. Candidates that do
// not fit any more are dropped.
func (f *filler) pick() (c, n int32) {
	best, at, kept := -1.0, -1, f.candidates[:0]
candidates:
	for _, c := range f.candidates {
		if f.left[c] == 0 {
			continue
		}
		share := 0.0
		for k := range f.have {
			need, have, inverse := &f.inv.blocks[int(c)*len(f.have)+k], &f.have[k], &f.inverse[k]
			if need[0] > have[0] || need[1] > have[1] || need[2] > have[2] || need[3] > have[3] {
				continue candidates
			}
			share += need[0]*inverse[0] + need[1]*inverse[1] + need[2]*inverse[2] + need[3]*inverse[3]
		}
		if worth := f.inv.worth[c]; worth > best*share {
			best, at = worth/share, len(kept)
		}
		kept = append(kept, c)
	}
	f.candidates = kept
	if at < 0 {
		return 0, 0
	}
	c = kept[at]
	if n = int32(quantity.Times(f.free, f.inv.none, f.inv.needOf(c), int64(f.left[c]))); n > 3 {
		return c, (n + 3) / 4
	}
	return c, 1
}
