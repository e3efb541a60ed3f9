package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// This file is for labels that a pool leaves open: each of its nodes gets the value that
// its pods ask for, so pods that ask for different ones are at odds there.

// setConflicts notes, by pool and class, the classes that it is in label conflict with; nil: none.
func (s *Inventory) setConflicts() {
	s.conflicts = make([][]model.Bitset, len(s.model.Pools))
	for at := range s.conflicts {
		var asked []label.Requirements
		var by [][]int // asked: the classes that do
		for c := range s.classes {
			in := &s.classes[c].Last().Admitted[at]
			if len(in.Terms) != 1 || len(in.Terms[0].Open) == 0 {
				continue
			}
			s.model.Meter.Spend(1 + len(asked))
			k := slices.IndexFunc(asked, func(o label.Requirements) bool { return model.SameRequirements(o, in.Terms[0].Open) })
			if k < 0 {
				k = len(asked)
				asked, by = append(asked, in.Terms[0].Open), append(by, nil)
			}
			by[k] = append(by[k], c)
		}
		for x := range asked {
			var odd model.Bitset
			s.model.Meter.Spend(1 + len(asked))
			for y := range asked {
				if _, conflict := asked[x].Conflict(asked[y]); !conflict {
					continue
				}
				if odd == nil {
					odd = model.NewBitset(len(s.classes))
				}
				for _, c := range by[y] {
					odd.Set(c)
				}
			}
			if s.conflicts[at] == nil && odd != nil {
				s.conflicts[at] = make([]model.Bitset, len(s.classes))
			}
			for _, c := range by[x] {
				if odd != nil {
					s.conflicts[at][c] = odd
				}
			}
		}
	}
}

// hasConflict reports whether a class is in label conflict with one of the pods on a node of a pool.
func (s *Inventory) hasConflict(at int, c int32, pods []Share) bool {
	odds := s.conflicts[at]
	return odds != nil && odds[c] != nil && slices.ContainsFunc(pods, func(sh Share) bool { return odds[c].Has(int(sh.Class)) })
}

// mayConflict reports whether a class may be in label conflict with others.
func (s *Inventory) mayConflict(c int32) bool {
	return slices.ContainsFunc(s.conflicts, func(odds []model.Bitset) bool { return odds != nil && odds[c] != nil })
}
