package model

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// StagesMin is how many stages a class has that has no preferences.
const StagesMin = 2

// AddStages works out for each class what it allows of each pool: first with all its
// preferences, then giving them up one by one, then its dislike of PreferNoSchedule taints, and
// last the respect for others' spreads.
//
// Classes differ in little but sizes and rules between pods, so nearly all find that another
// has asked the same.
func (m *Model) AddStages(classes []PodClass) {
	respectsSpread := m.anyUndesired()
	var asked []*PodClass // that preference for nothing, each for something else
	for c := range classes {
		cl := &classes[c]
		m.Meter.Spend(1 + len(asked))
		before := slices.IndexFunc(asked, func(o *PodClass) bool { return asksSame(o.Constraints, cl.Constraints) })
		if before >= 0 {
			cl.Stages = asked[before].Stages
			continue
		}
		cl.Stages = m.stagesOf(cl.Constraints, respectsSpread)
		if len(cl.Constraints.Preferences) == 0 && len(asked) < ComparedMax {
			asked = append(asked, cl)
		}
	}
}

// ComparedMax is how many classes are remembered to be compared with.
const ComparedMax = 16

// asksSame reports whether two pod constraints want the same of a node's labels and taints; the
// first has no preferences.
func asksSame(a, b *cluster.Constraints) bool {
	return len(b.Preferences) == 0 && a.Invalid == b.Invalid && slices.Equal(a.Tolerations, b.Tolerations) &&
		slices.EqualFunc(a.Terms, b.Terms, label.Requirements.Equal)
}

func (m *Model) stagesOf(sh *cluster.Constraints, respectsSpread bool) []Stage {
	var admitted []Admitted
	asked, from := -2, 0 // the node preference that was asked for last; -1: none
	stages := make([]Stage, 0, len(sh.Preferences)+StagesMin+1)
	if m.Options.IgnorePreferences {
		from = len(sh.Preferences)
	}
	for ; from <= len(sh.Preferences); from++ {
		at, preference := nodePreference(sh.Preferences, from)
		if at != asked {
			admitted, asked = m.admit(sh, preference), at
		}
		stages = append(stages, Stage{Admitted: admitted, PreferencesFrom: from, preference: preference, AvoidPreferNoSchedule: respectsSpread, RespectSpread: true})
	}
	if respectsSpread {
		last := stages[len(stages)-1]
		last.AvoidPreferNoSchedule = false
		stages = append(stages, last)
	}
	ignoring := stages[len(stages)-1]
	ignoring.RespectSpread = false
	return append(stages, ignoring)
}

func (m *Model) admit(sh *cluster.Constraints, preference label.Requirements) []Admitted {
	in := make([]Admitted, len(m.Pools))
	for i, pool := range m.Pools {
		if sh.Invalid != "" {
			in[i].Refusal = verdict.Of(verdict.PodError, "", "%s", sh.Invalid)
			continue
		}
		in[i] = pool.Admit(sh, preference)
	}
	return in
}

// nodePreference returns the first preference about node labels that has not been given up.
func nodePreference(preferences []cluster.Preference, from int) (at int, preference label.Requirements) {
	for i := from; i < len(preferences); i++ {
		if preferences[i].Node != nil {
			return i, preferences[i].Node
		}
	}
	return -1, nil
}

// anyUndesired reports whether a PreferNoSchedule taint is anywhere.
func (m *Model) anyUndesired() bool {
	undesired := func(t cluster.Taint) bool { return t.Effect == cluster.PreferNoSchedule }
	for i := range m.Snapshot.Pools {
		if slices.ContainsFunc(m.Snapshot.Pools[i].Taints, undesired) {
			return true
		}
	}
	for i := range m.Snapshot.Nodes {
		if slices.ContainsFunc(m.Snapshot.Nodes[i].Taints, undesired) {
			return true
		}
	}
	return false
}
