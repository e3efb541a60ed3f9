package topology

// Order returns the first n classes in the order in which their pods are placed. Classes with
// required affinity come after all others. Within both halves, a class whose rules count pods
// of others comes after those others. Otherwise the order is that of their numbers.
//
// In another order a pod could be planned as the first of an affinity group, while a pod that
// its affinity selects is bound elsewhere before it. Or a pod could be planned within a skew, to
// which pods without that spread are added later.
func (l *Ledger) Order(n int) []int {
	w := waiting{ledger: l, left: make([]int, len(l.groups))}
	var free, dependents []int
	for c := range n {
		if l.Follows(c) {
			dependents = append(dependents, c)
		} else {
			free = append(free, c)
		}
		for _, g := range l.rules[c].counted {
			w.left[g]++
		}
		l.meter.Spend(len(l.rules[c].counted) / numbersUnit)
	}
	return append(w.order(free), w.order(dependents)...)
}

// waiting is the classes that have no place in the order yet.
type waiting struct {
	ledger *Ledger
	left   []int // by group: how many of these classes count in it
}

// order puts the classes in order: next is always the first that waits for no other. If all
// wait for each other, next is the first whose spreads do not count its own pods: the others
// can make room for it, but it cannot make room for them.
func (w *waiting) order(classes []int) []int {
	sequence := make([]int, 0, len(classes))
	done, selfless := make([]bool, len(classes)), make([]bool, len(classes))
	blocks := make([]blocker, len(classes))
	for i, c := range classes {
		selfless[i] = w.selfless(c)
		blocks[i].group = -1
	}
	for start := 0; len(sequence) < len(classes); {
		for done[start] {
			start++
		}
		next, kind := start, -1
		w.ledger.meter.Spend(1 + (len(classes)-start)/numbersUnit)
		for i := start; i < len(classes); i++ {
			if done[i] {
				continue
			}
			if !w.stands(blocks[i]) {
				if blocks[i] = w.blocker(classes[i]); blocks[i].group < 0 {
					next, kind = i, -1
					break
				}
			}
			if kind < 0 && selfless[i] {
				kind = i
			}
		}
		if kind >= 0 {
			next = kind
		}
		done[next] = true
		sequence = append(sequence, classes[next])
		for _, g := range w.ledger.rules[classes[next]].counted {
			w.left[g]--
		}
	}
	return sequence
}

// blocker is a group that a class waits for. own is 1 if the class itself counts in the group:
// it does not wait for itself.
type blocker struct{ group, own int }

// stands reports whether the class still has to wait for the group.
func (w *waiting) stands(b blocker) bool { return b.group >= 0 && w.left[b.group]-b.own > 0 }

// blocker returns a group that a rule of the class asks about and in which classes count that
// have no place in the order yet. The group is -1 if there is none.
func (w *waiting) blocker(class int) blocker {
	r := &w.ledger.rules[class]
	for i := range r.spread {
		if b := w.blocks(class, &r.spread[i]); b.group >= 0 {
			return b
		}
	}
	for i := range r.attracting {
		for j := range r.attracting[i].uses {
			if b := w.blocks(class, &r.attracting[i].uses[j]); b.group >= 0 {
				return b
			}
		}
	}
	return blocker{group: -1}
}

func (w *waiting) blocks(class int, u *use) blocker {
	b := blocker{group: u.group}
	if w.ledger.Sees(u.group, class) {
		b.own = 1
	}
	if u.preference >= 0 || !w.stands(b) {
		b.group = -1
	}
	return b
}

// selfless reports whether the class has spreads, and none of them counts its own pods.
func (w *waiting) selfless(class int) bool {
	has := false
	for _, u := range w.ledger.rules[class].spread {
		if u.preference >= 0 {
			continue
		}
		if has = true; u.self > 0 {
			return false
		}
	}
	return has
}
