package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
)

// New returns the ledger of all rules of these pod constraints. Those of pods that are bound
// belong in it too: the rules of other pods count them.
func New(constraintSets []*cluster.Constraints, namespaces map[string]map[string]string) *Ledger {
	return NewFor(constraintSets, namespaces, nil, func(int) bool { return true })
}

// NewFor is New for questions about some classes only: those that matter. Pods of the others
// are counted where the rules of these look, but nothing may be asked about them. The meter
// pays for the work, and for all that the ledger is asked later.
func NewFor(constraintSets []*cluster.Constraints, namespaces map[string]map[string]string, meter *effort.Meter, matters func(class int) bool) *Ledger {
	l := &Ledger{constraintSets: constraintSets, rules: make([]classRules, len(constraintSets)), meter: meter}
	b := newBuilder(l, namespaces, matters)
	for c, sh := range constraintSets {
		if b.matters[c] {
			b.addRules(c, sh)
		}
	}
	b.addRunning()
	for c := range l.rules {
		r := &l.rules[c]
		r.uses(func(u use) { r.mindsHosts = r.mindsHosts || l.groups[u.group].onHosts })
		r.weigh()
	}
	l.spreads = make([][]int, len(l.keys))
	for g := range l.groups {
		if gr := &l.groups[g]; gr.kind == spreading {
			l.spreads[gr.key] = append(l.spreads[gr.key], g)
		}
	}
	b.dropUnasked()
	return l
}

// addRules adds all rules of a class.
func (b *builder) addRules(class int, sh *cluster.Constraints) {
	for i := range sh.Spread {
		b.addSpread(class, &sh.Spread[i], -1)
	}
	b.addAffinity(class, sh.Affinity, -1)
	for i := range sh.AntiAffinity {
		b.addAntiAffinity(class, &sh.AntiAffinity[i], -1)
	}
	for i := range sh.Preferences {
		switch preference := &sh.Preferences[i]; {
		case preference.Spread != nil:
			b.addSpread(class, preference.Spread, i)
		case preference.Affinity != nil:
			b.addAffinity(class, []cluster.PodTerm{*preference.Affinity}, i)
		case preference.AntiAffinity != nil:
			b.addAntiAffinity(class, preference.AntiAffinity, i)
		}
	}
}

// dropUnasked drops the groups that no class that matters asks about. Their numbers stay.
func (b *builder) dropUnasked() {
	l := b.ledger
	l.asked, l.keysAsked = make([]bool, len(l.groups)), make([]bool, len(l.keys))
	for c := range l.rules {
		if b.matters[c] {
			l.rules[c].each(func(group int) { l.asked[group], l.keysAsked[l.groups[group].key] = true, true })
		}
	}
	unasked := func(group int) bool { return !l.asked[group] }
	for c := range l.rules {
		if r := &l.rules[c]; !b.matters[c] {
			r.counted = slices.DeleteFunc(r.counted, unasked)
			r.spread = slices.DeleteFunc(r.spread, func(u use) bool { return unasked(u.group) })
		}
	}
	for k := range l.spreads {
		l.spreads[k] = slices.DeleteFunc(l.spreads[k], unasked)
	}
}
