package topology

import (
	"maps"
	"slices"
)

// Clone returns a ledger that counts on by itself.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.sizes, c.groups, c.domains = slices.Clone(l.sizes), slices.Clone(l.groups), slices.Clone(l.domains)
	for k := range c.domains {
		c.domains[k] = maps.Clone(l.domains[k])
	}
	for g := range c.groups {
		gr := &c.groups[g]
		gr.counts, gr.owners = slices.Clone(gr.counts), slices.Clone(gr.owners)
		gr.present, gr.possible = slices.Clone(gr.present), slices.Clone(gr.possible)
		gr.maybe, gr.awaited = slices.Clone(gr.maybe), slices.Clone(gr.awaited)
	}
	return &c
}

// Suppose returns a function that forgets again where machines are that are noted from now
// on.
func (l *Ledger) Suppose() (forget func()) {
	present := make([][]bool, len(l.groups))
	for g := range l.groups {
		present[g] = slices.Clone(l.groups[g].present)
	}
	return func() {
		for g := range l.groups {
			was := l.groups[g].present
			clear(was)
			copy(was, present[g])
		}
	}
}

// Everywhere tells whether machines that count in a spreading group are in every domain
// that is known.
func (l *Ledger) Everywhere(group int) bool { return !slices.Contains(l.groups[group].present, false) }

// Joins tells whether a pod of the class must be where others are under the key, wishes
// from the given one on included.
func (l *Ledger) Joins(class, key, wishesFrom int) bool {
	for i := range l.rules[class].attracting {
		a := &l.rules[class].attracting[i]
		if a.wish >= 0 && a.wish < wishesFrom {
			continue
		}
		for _, u := range a.uses {
			if l.groups[u.group].key == key {
				return true
			}
		}
	}
	return false
}

// Minds tells whether the class has a spread or affinity of its own under the key, wishes
// before the given one have been given up.
func (l *Ledger) Minds(class, key, wishesFrom int) bool {
	r := &l.rules[class]
	return l.Joins(class, key, wishesFrom) || slices.ContainsFunc(r.spread, func(u use) bool {
		return l.groups[u.group].key == key && (u.wish < 0 || u.wish >= wishesFrom)
	})
}

// KeptFrom returns the groups of pods under the key that a class keeps away from by its
// own anti-affinity, wishes from the given one on included.
func (l *Ledger) KeptFrom(class, key, wishesFrom int) (groups []int) {
	for _, u := range l.rules[class].repelling {
		if (u.wish < 0 || u.wish >= wishesFrom) && l.groups[u.group].key == key {
			groups = append(groups, u.group)
		}
	}
	return groups
}

// CountedIn returns the groups in which pods of a class count.
func (l *Ledger) CountedIn(class int) []int { return l.rules[class].counted }
