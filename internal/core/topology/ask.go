package topology

import (
	"iter"
	"slices"
)

// Clone returns a ledger that counts on by itself.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.keySets, c.scratch = slices.Clip(l.keySets), nil
	c.sizes, c.groups, c.domains = slices.Clone(l.sizes), slices.Clone(l.groups), slices.Clone(l.domains)
	for k := range l.shared {
		l.shared[k] = true
	}
	c.shared = slices.Clone(l.shared)
	numbers, flags := 0, 0
	for g := range c.groups {
		gr := &c.groups[g]
		numbers += len(gr.counts) + len(gr.owners) + len(gr.maybe)
		flags += len(gr.present) + len(gr.possible) + len(gr.awaited)
	}
	l.meter.Spend(len(c.groups) + (numbers+flags)/numbersUnit)
	n, f := make([]int32, numbers), make([]bool, flags)
	for g := range c.groups {
		gr := &c.groups[g]
		n, gr.counts = moved(n, gr.counts, len(gr.counts))
		n, gr.owners = moved(n, gr.owners, len(gr.owners))
		n, gr.maybe = moved(n, gr.maybe, len(gr.maybe))
		f, gr.present = moved(f, gr.present, len(gr.present))
		f, gr.possible = moved(f, gr.possible, len(gr.possible))
		f, gr.awaited = moved(f, gr.awaited, len(gr.awaited))
	}
	return &c
}

// Suppose returns a function that forgets again where machines are that are noted from now
// on.
func (l *Ledger) Suppose() (forget func()) {
	var present []bool // of one group after another
	ends := make([]int, len(l.groups))
	for g := range l.groups {
		present = append(present, l.groups[g].present...)
		ends[g] = len(present)
	}
	l.meter.Spend(len(l.groups) + len(present)/numbersUnit)
	return func() {
		first := 0
		for g, end := range ends {
			was := l.groups[g].present
			clear(was)
			copy(was, present[first:end])
			first = end
		}
	}
}

// Everywhere reports whether machines that count in a spreading group are in every domain
// that is known.
func (l *Ledger) Everywhere(group int) bool { return !slices.Contains(l.groups[group].present, false) }

// Joins reports whether a pod of the class must be where others are under the key, preferences
// from the given one on included.
func (l *Ledger) Joins(class, key, preferencesFrom int) bool {
	for i := range l.rules[class].attracting {
		a := &l.rules[class].attracting[i]
		if a.preference >= 0 && a.preference < preferencesFrom {
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

// Minds reports whether the class has a spread or affinity of its own under the key, preferences
// before the given one have been given up.
func (l *Ledger) Minds(class, key, preferencesFrom int) bool {
	r := &l.rules[class]
	return l.Joins(class, key, preferencesFrom) || slices.ContainsFunc(r.spread, func(u use) bool {
		return l.groups[u.group].key == key && (u.preference < 0 || u.preference >= preferencesFrom)
	})
}

// KeptFrom returns the groups of pods under the key that a class keeps away from by its
// own anti-affinity, preferences from the given one on included.
func (l *Ledger) KeptFrom(class, key, preferencesFrom int) iter.Seq[int] {
	return func(yield func(group int) bool) {
		for _, u := range l.rules[class].repelling {
			if (u.preference < 0 || u.preference >= preferencesFrom) && l.groups[u.group].key == key && !yield(u.group) {
				return
			}
		}
	}
}

// CountedIn returns the groups in which pods of a class count.
func (l *Ledger) CountedIn(class int) []int { return l.rules[class].counted }

// Alike reports whether the rules of a class see no difference between two places.
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

// MindsHosts reports whether a rule of the class, or one that keeps it away, is on the hostname.
func (l *Ledger) MindsHosts(class int) bool { return l.rules[class].mindsHosts }
