package topology

import (
	"iter"
	"slices"
)

// Joins reports whether the class has affinity under the key. Preferences before the given
// one have been given up.
func (l *Ledger) Joins(class, key, preferencesFrom int) bool {
	for i := range l.rules[class].attracting {
		a := &l.rules[class].attracting[i]
		if !kept(a.preference, preferencesFrom) {
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

// Minds reports whether the class has a spread or affinity of its own under the key. Preferences
// before the given one have been given up.
func (l *Ledger) Minds(class, key, preferencesFrom int) bool {
	r := &l.rules[class]
	return l.Joins(class, key, preferencesFrom) || slices.ContainsFunc(r.spread, func(u use) bool {
		return l.groups[u.group].key == key && kept(u.preference, preferencesFrom)
	})
}

// KeptFrom returns the groups of pods under the key that a class keeps away from by its own
// anti-affinity. Preferences before the given one have been given up.
func (l *Ledger) KeptFrom(class, key, preferencesFrom int) iter.Seq[int] {
	return func(yield func(group int) bool) {
		for _, u := range l.rules[class].repelling {
			if kept(u.preference, preferencesFrom) && l.groups[u.group].key == key && !yield(u.group) {
				return
			}
		}
	}
}

// CountedIn returns the groups in which pods of a class count.
func (l *Ledger) CountedIn(class int) []int { return l.rules[class].counted }

// Alike reports whether the rules of a class answer the same for two places.
func (l *Ledger) Alike(class int, a, b *Place) bool {
	if a.May != nil || b.May != nil {
		return false
	}
	r := &l.rules[class]
	l.meter.Spend(r.weight)
	for i := range r.spread {
		g := r.spread[i].group
		if k := l.groups[g].key; a.Domain[k] != b.Domain[k] || a.counts(g) != b.counts(g) {
			return false
		}
	}
	same := func(uses []use) bool {
		for i := range uses {
			if k := l.groups[uses[i].group].key; a.Domain[k] != b.Domain[k] {
				return false
			}
		}
		return true
	}
	for i := range r.attracting {
		if !same(r.attracting[i].uses) {
			return false
		}
	}
	return same(r.repelling) && same(r.repelled)
}

// MindsHosts reports whether the class has a rule on the hostname, or is kept away by one.
func (l *Ledger) MindsHosts(class int) bool { return l.rules[class].mindsHosts }

// Counts reports whether pods of the class count in any group that is asked about.
func (l *Ledger) Counts(class int) bool {
	return len(l.rules[class].counted) > 0 || len(l.rules[class].spread) > 0
}

// AsksOf reports whether any rule asks in which domain of the key a node is.
func (l *Ledger) AsksOf(key int) bool { return l.keysAsked[key] }

// Sees reports whether pods of the class count in the group.
func (l *Ledger) Sees(group, class int) bool {
	l.meter.Spend(len(l.rules[class].counted) / numbersUnit)
	return slices.Contains(l.rules[class].counted, group)
}

// Follows reports whether the class has required affinity.
func (l *Ledger) Follows(class int) bool {
	return slices.ContainsFunc(l.rules[class].attracting, func(a affinity) bool { return a.preference < 0 })
}

// Leads reports whether required affinity of the follower selects pods of the leader.
func (l *Ledger) Leads(leader, follower int) bool {
	for i := range l.rules[follower].attracting {
		a := &l.rules[follower].attracting[i]
		l.meter.Spend(1 + len(a.uses))
		for _, u := range a.uses {
			if a.preference < 0 && l.Sees(u.group, leader) {
				return true
			}
		}
	}
	return false
}

// KeysOf returns the indexes of the keys under which the place of a class matters: it has a
// rule on them, or others count its pods there. Classes may share the list.
func (l *Ledger) KeysOf(class int) []int {
	l.scratch = l.scratch[:0]
	note := func(group int) {
		if k := l.groups[group].key; !slices.Contains(l.scratch, k) {
			l.scratch = append(l.scratch, k)
		}
	}
	l.rules[class].each(note)
	if len(l.scratch) == 0 {
		return nil
	}
	slices.Sort(l.scratch)
	for _, o := range l.keySets {
		if slices.Equal(o, l.scratch) {
			return o
		}
	}
	keys := slices.Clip(slices.Clone(l.scratch))
	if len(l.keySets) < keySetsMax {
		l.keySets = append(l.keySets, keys)
	}
	return keys
}

// keySetsMax bounds how many lists of keys are kept for classes to share.
const keySetsMax = 16
