package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// This file is about label conflicts. A NodePool may leave the value of a label open: then each of
// its nodes gets the value that its pods ask for, and pods that ask for different values cannot
// share a node.

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
			var conflicting model.Bitset
			s.model.Meter.Spend(1 + len(asked))
			for y := range asked {
				if _, conflict := asked[x].Conflict(asked[y]); !conflict {
					continue
				}
				if conflicting == nil {
					conflicting = model.NewBitset(len(s.classes))
				}
				for _, c := range by[y] {
					conflicting.Set(c)
				}
			}
			if s.conflicts[at] == nil && conflicting != nil {
				s.conflicts[at] = make([]model.Bitset, len(s.classes))
			}
			for _, c := range by[x] {
				if conflicting != nil {
					s.conflicts[at][c] = conflicting
				}
			}
		}
	}
}

// hasConflict reports whether a class is in label conflict with one of the pods on a node of a pool.
func (s *Inventory) hasConflict(at int, c int32, pods []Share) bool {
	conflicts := s.conflicts[at]
	return conflicts != nil && conflicts[c] != nil && slices.ContainsFunc(pods, func(sh Share) bool { return conflicts[c].Has(int(sh.Class)) })
}

// mayConflict reports whether a class is in label conflict with any other.
func (s *Inventory) mayConflict(c int32) bool {
	return slices.ContainsFunc(s.conflicts, func(conflicts []model.Bitset) bool { return conflicts != nil && conflicts[c] != nil })
}
