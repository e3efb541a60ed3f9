package topology

import "slices"

// Absent notes that the domain has no node any more that counts in the spreading group.
func (l *Ledger) Absent(group int, domain int32) {
	if l.asked[group] {
		l.groups[group].present[domain] = false
	}
}

// ForgetPossible takes the domains without a node out of every spread: kube-scheduler does
// not know of domains in which a node could be launched. Hostnames stay, because a node that
// is launched for the pod has a new one.
func (l *Ledger) ForgetPossible() {
	for g := range l.groups {
		gr := &l.groups[g]
		if gr.kind != spreading || gr.onHosts {
			continue
		}
		clear(gr.possible)
		gr.launchable = false
	}
}

// SoldOut says that no more nodes are launched: domains without a node no longer constrain spread.
func (l *Ledger) SoldOut() { l.soldOut = true }

// Possible notes that a node could be launched in the domain that counts in the spreading
// group. It brings at least the given number of pods that the group counts.
func (l *Ledger) Possible(group int, domain, brings int32) {
	if !l.asked[group] {
		return
	}
	g := &l.groups[group]
	least, noted := g.floor[domain]
	if g.possible[domain] && !noted || noted && least <= brings {
		return
	}
	g.possible[domain], g.launchable = true, true
	if brings > 0 && g.floor == nil {
		g.floor = map[int32]int32{}
	}
	if brings > 0 || noted {
		g.floor[domain] = brings
	}
}

// IsPresent reports whether the domain has a node that counts in the spreading group.
func (l *Ledger) IsPresent(group int, domain int32) bool { return l.groups[group].present[domain] }

// OnlyPresent takes the domains without a node out of the spreads of one class. It reports
// whether there was any.
func (l *Ledger) OnlyPresent(class int) (changed bool) {
	for _, u := range l.rules[class].spread {
		gr := &l.groups[u.group]
		for d := range gr.possible {
			changed = changed || gr.possible[d] && !gr.present[d]
			gr.possible[d] = false
		}
		gr.launchable = false
	}
	return changed
}

// Present notes that there is a node at the place. From now on spreads take its domains into account.
func (l *Ledger) Present(at *Place) {
	for key, groups := range l.spreads {
		l.meter.Spend(len(groups))
		for _, g := range groups {
			if !at.counts(g) {
				continue
			}
			gr := &l.groups[g]
			domains, sure := at.domains(g, key)
			for _, d := range domains {
				if sure {
					gr.present[d] = true
				} else {
					gr.awaited = grown(gr.awaited, d)
					gr.awaited[d] = true
				}
			}
		}
	}
}

// Spreading calls f for each spreading group, also those that nobody asks about. owner is the
// class whose policies say which nodes count; the policies are the last two arguments.
func (l *Ledger) Spreading(f func(group, owner int, ignoreAffinity, honorTaints bool)) {
	l.meter.Spend(1 + len(l.groups)/numbersUnit)
	for g := range l.groups {
		if gr := &l.groups[g]; gr.kind == spreading {
			f(g, gr.owner, gr.ignoreAffinity, gr.honorTaints)
		}
	}
}

// Spreads are the spreading groups of a key that are asked about.
func (l *Ledger) Spreads(key int) []int { return l.spreads[key] }

// IsSpreading reports whether a group is of a spread.
func (l *Ledger) IsSpreading(group int) bool { return l.groups[group].kind == spreading }

// Everywhere reports whether every known domain has a node that counts in the spreading group.
func (l *Ledger) Everywhere(group int) bool { return !slices.Contains(l.groups[group].present, false) }

// Suppose returns a function that takes back every Present that is called from now on.
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
