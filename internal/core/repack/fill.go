package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// fill thinks of a bin and fills it with unplaced pods, those first that are worth most for
// what they take of what is left. The content is in fills.content; what it is worth is
// returned.
func (s *Launcher) fill(b int) float64 {
	f, bin := &s.inv.fills, &s.inv.offerings[b]
	s.inv.model.Meter.Spend(1 + len(f.some))
	f.content, f.cand = f.content[:0], f.cand[:0]
	free := f.free
	copy(free, bin.free)
	for r := range free {
		f.setFree(r, free[r])
	}
	for _, c := range f.some {
		if s.nodes.unplaced[c] > 0 && bin.allowed.Has(int(c)) && s.inv.fits(c, free) {
			f.cand = append(f.cand, c)
			f.left[c] = s.nodes.unplaced[c]
		}
	}
	value, asked := 0.0, false
	for len(f.cand) > 0 {
		at, n := s.pick(free)
		if at < 0 {
			break
		}
		c := f.cand[at]
		if s.inv.hasConflict(bin.at, c, f.content) {
			f.left[c] = 0
			continue
		}
		if f.keyed[c] || len(s.inv.classes[c].Constraints.Ports) > 0 {
			if asked = true; !s.joins(bin, c) {
				f.left[c] = 0
				continue
			}
			n = 1
			s.inv.ledger.Count(int(c), &bin.place, 1, 0)
		}
		free.AddN(s.inv.classes[c].Need, -int64(n))
		for r, amount := range s.inv.classes[c].Need {
			if amount != 0 {
				f.setFree(r, free[r])
			}
		}
		f.left[c] -= n
		value += s.inv.worth[c] * float64(n)
		k := slices.IndexFunc(f.content, func(sh Share) bool { return sh.Class == c })
		if k < 0 {
			k = len(f.content)
			f.content = append(f.content, Share{Class: c})
		}
		f.content[k].N += n
	}
	if asked {
		for _, sh := range f.content {
			if f.keyed[sh.Class] {
				s.inv.ledger.Count(int(sh.Class), &bin.place, -sh.N, 0)
			}
		}
	}
	return value
}

// setFree says how much of a resource is free in the bin that is being filled.
func (f *filler) setFree(r int, amount int64) {
	have, inverse := 0.0, 0.0
	if amount > 0 {
		have, inverse = float64(amount), 1/float64(amount)
	}
	f.have[r/4][r%4], f.inverse[r/4][r%4] = have, inverse
}

// pick returns the candidate that is worth most for what it takes, and how many of it to
// put in at once. Candidates that do not fit any more are dropped.
func (s *Launcher) pick(free quantity.Vector) (at int, n int32) {
	f := &s.inv.fills
	best, kept := -1.0, f.cand[:0]
	at = -1
candidates:
	for _, c := range f.cand {
		if f.left[c] == 0 {
			continue
		}
		share := 0.0
		for k := range f.have {
			need, have, inverse := &f.blocks[int(c)*len(f.have)+k], &f.have[k], &f.inverse[k]
			if need[0] > have[0] || need[1] > have[1] || need[2] > have[2] || need[3] > have[3] {
				continue candidates
			}
			share += need[0]*inverse[0] + need[1]*inverse[1] + need[2]*inverse[2] + need[3]*inverse[3]
		}
		if worth := s.inv.worth[c]; worth > best*share {
			best, at = worth/share, len(kept)
		}
		kept = append(kept, c)
	}
	f.cand = kept
	if at < 0 {
		return at, 0
	}
	c := kept[at]
	if n = int32(quantity.Times(free, f.none, s.inv.needOf(c), int64(f.left[c]))); n > 3 {
		return at, (n + 3) / 4
	}
	return at, 1
}

// joins reports whether a pod of the class may be on the bin with what is in it.
func (s *Launcher) joins(bin *offering, c int32) bool {
	if want := s.inv.classes[c].Constraints.Ports; len(want) > 0 &&
		(!model.PortsFree(s.inv.model.Meter, want, bin.pool.Types[bin.typ].Ports) || s.inv.portAmong(s.inv.fills.content, want)) {
		return false
	}
	return s.inv.mayJoin(c, &bin.place)
}
