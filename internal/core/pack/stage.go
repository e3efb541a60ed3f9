package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// stagesMin is how many stages a class has that wishes for nothing.
const stagesMin = 2

// addStages works out for each class what it allows of each pool: first with all its
// wishes, then giving them up one by one, then its dislike of PreferNoSchedule taints, and
// last the courtesy of keeping to others' spreads.
func (s *solver) addStages() {
	tidy := s.anyUndesired()
	for c := range s.classes {
		cl := &s.classes[c]
		var admitted []classIn
		asked, from := -2, 0 // the node wish that was asked for last; -1: none
		cl.stages = make([]stage, 0, len(cl.shape.Wishes)+stagesMin+1)
		if s.opts.IgnorePreferences {
			from = len(cl.shape.Wishes)
		}
		for ; from <= len(cl.shape.Wishes); from++ {
			at, wish := nodeWish(cl.shape.Wishes, from)
			if at != asked {
				admitted, asked = s.admit(cl.shape, wish), at
			}
			cl.stages = append(cl.stages, stage{in: admitted, wishesFrom: from, wish: wish, tidy: tidy, courteous: true})
		}
		if tidy {
			last := *cl.last()
			last.tidy = false
			cl.stages = append(cl.stages, last)
		}
		rude := *cl.last()
		rude.courteous = false
		cl.stages = append(cl.stages, rude)
	}
}

func (s *solver) admit(sh *cluster.Shape, wish label.Requirements) []classIn {
	in := make([]classIn, len(s.model.pools))
	for i, pool := range s.model.pools {
		if sh.Invalid != "" {
			in[i].refusal = verdict.Of(verdict.PodError, "", "%s", sh.Invalid)
			continue
		}
		in[i] = pool.admit(sh, wish)
	}
	return in
}

// nodeWish returns the first wish about node labels that has not been given up.
func nodeWish(wishes []cluster.Wish, from int) (at int, wish label.Requirements) {
	for i := from; i < len(wishes); i++ {
		if wishes[i].Node != nil {
			return i, wishes[i].Node
		}
	}
	return -1, nil
}

// anyUndesired tells whether a PreferNoSchedule taint is anywhere.
func (s *solver) anyUndesired() bool {
	undesired := func(t cluster.Taint) bool { return t.Effect == cluster.PreferNoSchedule }
	for i := range s.snap.Pools {
		if slices.ContainsFunc(s.snap.Pools[i].Taints, undesired) {
			return true
		}
	}
	for i := range s.snap.Nodes {
		if slices.ContainsFunc(s.snap.Nodes[i].Taints, undesired) {
			return true
		}
	}
	return false
}
