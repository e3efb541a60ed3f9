package topology

// Order returns the first n classes in the order in which they are placed: theirs, but
// those that must be with others come after all that need not, and whose rules count
// others after those whom they count.
//
// Otherwise a pod could be planned as the first of those it must be with, while another
// that it selects is bound elsewhere before it; or within a skew, to which pods that have
// no such rule then add.
func (l *Ledger) Order(n int) []int {
	w := waiting{Ledger: l, left: make([]int, len(l.groups))}
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

// waiting is classes that have no turn yet.
type waiting struct {
	*Ledger
	left []int // by group: how many of them count in it
}

// order gives each class its turn: the first that need not wait. If they wait for each
// other, the first whose spreads do not count its own pods: the others can make room for
// it, it cannot for them.
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
		w.meter.Spend(1 + (len(classes)-start)/numbersUnit)
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
		for _, g := range w.rules[classes[next]].counted {
			w.left[g]--
		}
	}
	return sequence
}

// blocker is a group that a class has to wait for, and how many classes in it do not
// count: its own.
type blocker struct{ group, own int }

// stands reports whether a blocker still is one.
func (w *waiting) stands(b blocker) bool { return b.group >= 0 && w.left[b.group]-b.own > 0 }

// blocker returns a group that a rule of the class counts and in which others are that
// have no turn yet; group -1: there is none.
func (w *waiting) blocker(class int) blocker {
	r := &w.rules[class]
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
	if w.owns(class, u.group) {
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
	for _, u := range w.rules[class].spread {
		if u.preference >= 0 {
			continue
		}
		if has = true; u.self > 0 {
			return false
		}
	}
	return has
}
