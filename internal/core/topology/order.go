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
	var free, followers []int
	for c := range n {
		if l.Follows(c) {
			followers = append(followers, c)
		} else {
			free = append(free, c)
		}
		for _, g := range l.rules[c].counted {
			w.left[g]++
		}
	}
	return append(w.order(free), w.order(followers)...)
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
	turns := make([]int, 0, len(classes))
	done := make([]bool, len(classes))
	for start := 0; len(turns) < len(classes); {
		for done[start] {
			start++
		}
		next, selfless := start, -1
		for i := start; i < len(classes); i++ {
			if !done[i] && !w.waits(classes[i]) {
				next, selfless = i, -1
				break
			}
			if !done[i] && selfless < 0 && w.selfless(classes[i]) {
				selfless = i
			}
		}
		if selfless >= 0 {
			next = selfless
		}
		done[next] = true
		turns = append(turns, classes[next])
		for _, g := range w.rules[classes[next]].counted {
			w.left[g]--
		}
	}
	return turns
}

// waits tells whether a rule of the class counts pods of others that have no turn yet.
func (w *waiting) waits(class int) bool {
	others := func(u *use) bool {
		n := w.left[u.group]
		if w.owns(class, u.group) {
			n--
		}
		return u.wish < 0 && n > 0
	}
	r := &w.rules[class]
	for i := range r.spread {
		if others(&r.spread[i]) {
			return true
		}
	}
	for i := range r.attracting {
		for j := range r.attracting[i].uses {
			if others(&r.attracting[i].uses[j]) {
				return true
			}
		}
	}
	return false
}

// selfless tells whether the class has spreads, and none of them counts its own pods.
func (w *waiting) selfless(class int) bool {
	has := false
	for _, u := range w.rules[class].spread {
		if u.wish >= 0 {
			continue
		}
		if has = true; u.self > 0 {
			return false
		}
	}
	return has
}
