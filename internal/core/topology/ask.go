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
// from the given one on included, and whether a pod of its own class will do.
func (l *Ledger) Joins(class, key, wishesFrom int) (joins, own bool) {
	own = true
	for i := range l.rules[class].attracting {
		a := &l.rules[class].attracting[i]
		if a.wish >= 0 && a.wish < wishesFrom {
			continue
		}
		for _, u := range a.uses {
			if l.groups[u.group].key == key {
				joins, own = true, own && a.self
			}
		}
	}
	return joins, joins && own
}

// KeepApart tells whether anti-affinity keeps pods of two classes from sharing a domain
// of the key, wishes from the given ones on included.
func (l *Ledger) KeepApart(a, b, key, wishesOfA, wishesOfB int) bool {
	return l.keepsFrom(a, b, key, wishesOfA) || l.keepsFrom(b, a, key, wishesOfB)
}

// keepsFrom tells whether a's own anti-affinity selects pods of b.
func (l *Ledger) keepsFrom(a, b, key, wishesFrom int) bool {
	for _, u := range l.rules[a].repelling {
		if (u.wish < 0 || u.wish >= wishesFrom) && l.groups[u.group].key == key && l.owns(b, u.group) {
			return true
		}
	}
	return false
}

// Repels tells whether a class has anti-affinity under the key, its own or others' to it.
func (l *Ledger) Repels(class, key int) bool {
	for _, uses := range [][]use{l.rules[class].repelling, l.rules[class].repelled} {
		for _, u := range uses {
			if l.groups[u.group].key == key {
				return true
			}
		}
	}
	return false
}
