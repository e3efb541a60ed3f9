package model

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// StagesMin is how many stages a class has that has no preferences.
const StagesMin = 2

// AddStages works out, for each class, what it allows of each NodePool: first with all its
// preferences, then with fewer and fewer, then without avoiding PreferNoSchedule taints, and
// last without respecting the topology spread of other pods.
//
// Most classes differ only in size and in rules between pods, so nearly all share the stages of
// another class.
func (m *Model) AddStages(classes []PodClass) {
	respectsSpread := m.anyUndesired()
	var asked []*PodClass // without preferences, each with other stages
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

// ComparedMax is how many recent classes, or owners of rules, a new one is compared with.
const ComparedMax = 16

// asksSame reports whether two constraint sets ask for the same labels and taints of a node. The
// first has no preferences.
func asksSame(a, b *cluster.Constraints) bool {
	return len(b.Preferences) == 0 && a.Invalid == b.Invalid && slices.Equal(a.Tolerations, b.Tolerations) &&
		slices.EqualFunc(a.Terms, b.Terms, label.Requirements.Equal)
}

// stagesOf returns the stages of a class with these constraints.
func (m *Model) stagesOf(sh *cluster.Constraints, respectsSpread bool) []Stage {
	var admitted []Admitted
	asked, from := -2, 0 // the node preference that admitted is for; -1: none
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

// admit returns what the constraints, with the preference, allow of each NodePool.
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

// anyUndesired reports whether any node or NodePool has a PreferNoSchedule taint.
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
