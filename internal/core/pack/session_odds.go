package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// This file is for labels that a pool leaves open: each of its machines gets the value that
// its pods ask for, so pods that ask for different ones are at odds there.

// setOdds notes, by pool and class, the classes that it is at odds with; nil: none.
func (s *Session) setOdds() {
	s.odds = make([][]bitset, len(s.model.pools))
	for at := range s.odds {
		var asked []label.Requirements
		var by [][]int // asked: the classes that do
		for c := range s.classes {
			in := &s.classes[c].last().in[at]
			if len(in.terms) != 1 || len(in.terms[0].open) == 0 {
				continue
			}
			s.model.meter.Spend(1 + len(asked))
			k := slices.IndexFunc(asked, func(o label.Requirements) bool { return sameMap(o, in.terms[0].open) })
			if k < 0 {
				k = len(asked)
				asked, by = append(asked, in.terms[0].open), append(by, nil)
			}
			by[k] = append(by[k], c)
		}
		for x := range asked {
			var odd bitset
			s.model.meter.Spend(1 + len(asked))
			for y := range asked {
				if _, conflict := asked[x].Conflict(asked[y]); !conflict {
					continue
				}
				if odd == nil {
					odd = newBitset(len(s.classes))
				}
				for _, c := range by[y] {
					odd.set(c)
				}
			}
			if s.odds[at] == nil && odd != nil {
				s.odds[at] = make([]bitset, len(s.classes))
			}
			for _, c := range by[x] {
				if odd != nil {
					s.odds[at][c] = odd
				}
			}
		}
	}
}

// isAtOdds tells whether a class is at odds with one of the pods on a machine of a pool.
func (s *Session) isAtOdds(at int, c int32, pods []Share) bool {
	odds := s.odds[at]
	return odds != nil && odds[c] != nil && slices.ContainsFunc(pods, func(sh Share) bool { return odds[c].has(int(sh.Class)) })
}

// isOdd tells whether a class may be at odds with others.
func (s *Session) isOdd(c int32) bool {
	return slices.ContainsFunc(s.odds, func(odds []bitset) bool { return odds != nil && odds[c] != nil })
}
