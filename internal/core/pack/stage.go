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
//
// Classes differ in little but sizes and rules between pods, so nearly all find that another
// has asked the same.
func (s *solver) addStages() {
	tidy := s.anyUndesired()
	var asked []*class // that wish for nothing, each for something else
	for c := range s.classes {
		cl := &s.classes[c]
		s.model.meter.Spend(1 + len(asked))
		before := slices.IndexFunc(asked, func(o *class) bool { return asksSame(o.shape, cl.shape) })
		if before >= 0 {
			cl.stages = asked[before].stages
			continue
		}
		cl.stages = s.stagesOf(cl.shape, tidy)
		if len(cl.shape.Wishes) == 0 && len(asked) < askedMax {
			asked = append(asked, cl)
		}
	}
}

// askedMax is how many classes are remembered to be compared with.
const askedMax = 16

// asksSame tells whether two shapes want the same of a machine's labels and taints; the
// first has no wishes.
func asksSame(a, b *cluster.Shape) bool {
	return len(b.Wishes) == 0 && a.Invalid == b.Invalid && slices.Equal(a.Tolerations, b.Tolerations) &&
		slices.EqualFunc(a.Terms, b.Terms, label.Requirements.Equal)
}

func (s *solver) stagesOf(sh *cluster.Shape, tidy bool) []stage {
	var admitted []classIn
	asked, from := -2, 0 // the node wish that was asked for last; -1: none
	stages := make([]stage, 0, len(sh.Wishes)+stagesMin+1)
	if s.opts.IgnorePreferences {
		from = len(sh.Wishes)
	}
	for ; from <= len(sh.Wishes); from++ {
		at, wish := nodeWish(sh.Wishes, from)
		if at != asked {
			admitted, asked = s.admit(sh, wish), at
		}
		stages = append(stages, stage{in: admitted, wishesFrom: from, wish: wish, tidy: tidy, courteous: true})
	}
	if tidy {
		last := stages[len(stages)-1]
		last.tidy = false
		stages = append(stages, last)
	}
	rude := stages[len(stages)-1]
	rude.courteous = false
	return append(stages, rude)
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
