package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// entry is pods of a share that are meant for one machine to be bought, and wait until the
// rules between pods admit them.
type entry struct {
	bin   *opening
	share int32
	left  int
}

// opening is a machine to be bought for a pattern. It becomes a launch with its first pod.
type opening struct {
	*launchBin
	atom  int   // what the pattern is for
	index int32 // among the launches; -1: not yet
	taken bool  // its types are those that hold its pods, and the pool's limits count it
}

// openAll turns an answer into launches. It tells whether any pod found a place.
func (b *buyer) openAll(answer *cover.Solution) bool {
	before := len(b.launches)
	b.expectMachines(answer)
	var waiting []entry
	var bins []*opening
	few := len(b.snap.Pending) <= smallMax
	for i := range answer.Patterns {
		p := &answer.Patterns[i]
		at, _ := slices.BinarySearch(b.base, int(p.Bin)+1)
		at--
		atom := int(p.Bin) - b.base[at]
		for range p.Times {
			bin := b.openOne(at, atom, p.Items)
			if bin == nil {
				break
			}
			bins = append(bins, bin)
			waits := len(waiting)
			for _, item := range p.Items {
				switch sh := &b.shares[item.Class]; {
				case len(sh.members[0].class.keys) > 0:
					waiting = append(waiting, entry{bin, item.Class, item.N})
				case len(sh.members[0].class.shape.Ports) > 0 || len(bin.minimum) > 0:
					b.fill(bin, sh, item.N)
				default:
					b.stuff(bin, sh, item.N)
				}
			}
			if len(waiting) == waits && !few || bin.pool.limited() {
				b.take(bin)
			}
		}
	}
	b.admit(waiting)
	if few && b.left() > 0 {
		b.exchangeAll(bins)
	}
	for _, bin := range bins {
		b.take(bin)
	}
	for _, l := range b.launches[before:] {
		l.seal()
	}
	b.fillSlack()
	return len(b.launches) > before
}

// expectMachines takes memory for the places of all machines of an answer at once.
func (b *buyer) expectMachines(answer *cover.Solution) {
	if b.hostname < 0 {
		return
	}
	machines := 0
	for i := range answer.Patterns {
		machines += answer.Patterns[i].Times
	}
	b.ledger.Expect(b.hostname, machines)
}

// fillSlack places what is left where it makes no launch dearer. Pods with rules are asked
// of each launch one by one, so of very many of them none is.
func (b *buyer) fillSlack() {
	for i := range b.shares {
		for _, m := range b.shares[i].members {
			if len(m.class.keys) == 0 || len(b.snap.Pending) <= firstFitMax {
				b.fillLaunches(m.class, m.st)
			}
		}
	}
}

// openOne returns an empty bin for a pattern, settled on the domains that matter to its
// items; nil if the pool's limits allow no more.
func (b *buyer) openOne(at, atom int, items []cover.Item) *opening {
	pool := b.model.pools[at]
	l := pool.fresh(at)
	if l == nil || !l.anyTypeOf(atom) {
		if !pool.settle(b.launches) {
			return nil
		}
		if l = pool.fresh(at); l == nil || !l.anyTypeOf(atom) {
			return nil
		}
	}
	b.locateLaunch(l)
	for _, item := range items {
		if k := b.shares[item.Class].key; k >= 0 && l.place.Domain[k] == topology.Open {
			b.pin(l, k, atom)
		}
	}
	o := &b.openings.take(1)[0]
	*o = opening{launchBin: l, atom: atom, index: -1}
	return o
}

// anyTypeOf tells whether the bin may become the type of the atom.
func (b *launchBin) anyTypeOf(atom int) bool {
	_, is := slices.BinarySearch(b.types, b.pool.typeOf[atom])
	return is
}

// pin settles the bin on the atom's own value of a key of the ledger.
func (b *buyer) pin(l *launchBin, k, atom int) {
	key := b.ledger.Keys()[k]
	model, decided := l.pool.decided(key)
	if !decided {
		return
	}
	for i, v := range model.values {
		if model.with[i].has(atom) {
			l.place.Domain[k] = b.ledger.Domain(k, v)
			l.terms = append(l.terms, model.pin(key, i))
			l.atoms.and(model.with[i])
			l.types = slices.DeleteFunc(l.types, func(t int32) bool { return !l.atoms.anyIn(l.pool.types[t].first, l.pool.types[t].end) })
			l.stale = true
			b.recount(l)
			return
		}
	}
}

// enterOne places one pod that the places of others matter to. Of a bin whose types are
// still to be found out only the pattern's own is asked whether it has room.
func (b *buyer) enterOne(bin *opening, m *member) bool {
	c, st := m.class, m.st
	if bin.taken || bin.pool.limited() || len(bin.minimum) > 0 || len(c.shape.Ports) > 0 || len(b.visible) > 0 || bin.unsettled(c.keys) {
		if !bin.affordable() || !b.addSettled(bin.launchBin, c, st) {
			return false
		}
		b.enter(bin, c, 1)
		b.take(bin)
		return true
	}
	if quantity.Times(bin.pool.types[bin.pool.typeOf[bin.atom]].free, bin.used, c.need, 1) == 0 ||
		!b.ledger.Check(c.index, &bin.place, st.wishesFrom, st.courteous).IsYes() || !bin.accept(m) {
		return false
	}
	bin.used.AddN(c.need, 1)
	if !bin.present {
		b.ledger.Present(&bin.place)
		bin.present = true
	}
	b.ledger.Count(c.index, &bin.place, 1, 0)
	b.enter(bin, c, 1)
	return true
}

// unsettled tells whether the bin's domain is open under any of the keys.
func (b *launchBin) unsettled(keys []int) bool {
	return slices.ContainsFunc(keys, func(k int) bool { return b.place.Domain[k] == topology.Open })
}

// affordable tells whether the pool's limits, of which others have taken since the bin was
// opened, still allow it.
func (b *opening) affordable() bool {
	if b.taken {
		return true
	}
	b.types = slices.DeleteFunc(b.types, func(t int32) bool { return !b.pool.types[t].capacity.Fits(b.pool.left) })
	return b.pool.nodesLeft > 0
}

// addAt is add by a term that leaves the bin the atom.
func (b *launchBin) addAt(c *class, st *stage, most, atom int) int {
	in := &st.in[b.at]
	for i := range in.terms {
		t := &in.terms[i]
		if t.atoms.has(atom) {
			if len(c.shape.Ports) > 0 {
				return b.add(c, st, most)
			}
			return b.addUnder(c, t, most)
		}
	}
	return 0
}

// fill adds up to n pods of a share, one class after another.
func (b *buyer) fill(bin *opening, sh *share, n int) {
	for i := range sh.members {
		m := &sh.members[i]
		if n > 0 && len(m.class.pods) > 0 {
			got := bin.addAt(m.class, m.st, min(n, len(m.class.pods)), bin.atom)
			b.enter(bin, m.class, got)
			n -= got
		}
	}
}

// stuff adds up to n pods of a share as far as the atom's own type holds them; which other
// types do is found out by take. The answer knows only the pods' mean size, so large ones
// and small ones are drawn such that the sum stays close to it.
func (b *buyer) stuff(bin *opening, sh *share, n int) (rest int) {
	room := bin.pool.types[bin.pool.typeOf[bin.atom]].free
	ahead := 0.0 // how much more was drawn than n pods of mean size, in such pods
	for ; n > 0 && sh.low <= sh.high; n-- {
		at, other := sh.low, sh.high
		if ahead > 0 {
			at, other = other, at
		}
		m := &sh.members[at]
		if quantity.Times(room, bin.used, m.class.need, 1) == 0 {
			if m = &sh.members[other]; quantity.Times(room, bin.used, m.class.need, 1) == 0 {
				return n
			}
		}
		if !bin.accept(m) {
			return n
		}
		for d, v := range m.class.need {
			if sh.size[d] > 0 {
				ahead += float64(v)/float64(sh.size[d]) - 1
			}
		}
		bin.used.AddN(m.class.need, 1)
		b.enter(bin, m.class, 1)
		for sh.low <= sh.high && len(sh.members[sh.low].class.pods) == 0 {
			sh.low++
		}
		for sh.low <= sh.high && len(sh.members[sh.high].class.pods) == 0 {
			sh.high--
		}
	}
	return n
}

// accept narrows the bin to what a class allows, if that leaves the atom.
func (b *opening) accept(m *member) bool {
	in := &m.st.in[b.at]
	for i := range in.terms {
		t := &in.terms[i]
		if !t.atoms.has(b.atom) {
			continue
		}
		if _, conflict := b.open.Conflict(t.open); conflict {
			return false
		}
		b.atoms.and(t.atoms)
		b.ask(t)
		return true
	}
	return false
}

// enter records that n pods of the class went to the bin.
func (b *buyer) enter(bin *opening, c *class, n int) {
	if n == 0 {
		return
	}
	if bin.index < 0 {
		bin.index = int32(len(b.launches))
		b.launches = append(b.launches, bin.launchBin)
	}
	c.take(b.placed, n, placement{onLaunch, bin.index})
}

// take leaves a bin that has pods the types that hold them all, and takes from the pool's
// limits what it may need.
func (b *buyer) take(bin *opening) {
	if bin.index < 0 || bin.taken {
		return
	}
	bin.taken, bin.fresh = true, false
	bin.types = slices.DeleteFunc(bin.types, func(t int32) bool {
		tm := &bin.pool.types[t]
		return !roomFor(tm.free, bin.used) || !bin.atoms.anyIn(tm.first, tm.end)
	})
	bin.stale = true
	bin.pool.take(bin.launchBin)
}

// admit places pods that other pods' places matter to, one by one, each class's in turn
// over its domains, as long as any finds its place.
func (b *buyer) admit(waiting []entry) {
	queues, count := make([]queue, len(b.shares)), make([]int, len(b.shares))
	for i := range waiting {
		count[waiting[i].share]++
	}
	memory := make([]*entry, len(waiting))
	for i, n := range count {
		queues[i].entries, memory = memory[:0:n], memory[n:]
	}
	for i := range waiting {
		e := &waiting[i]
		queues[e.share].entries = append(queues[e.share].entries, e)
	}
	for progress := true; progress; {
		progress = false
		// Shares are in the order of their classes.
		for first := 0; first < len(queues); {
			end := first + 1
			for end < len(queues) && b.shares[end].members[0].class == b.shares[first].members[0].class {
				end++
			}
			for b.turn(queues[first:end]) {
				progress = true
			}
			first = end
		}
	}
}

// queue is the entries of one share that still wait.
type queue struct{ entries []*entry }

// turn gives each queue of a class one pod's place. It tells whether any found one.
func (b *buyer) turn(queues []queue) (progress bool) {
	for i := range queues {
		q := &queues[i]
		for j, e := range q.entries {
			if b.enterOne(e.bin, &b.shares[e.share].members[0]) {
				if e.left--; e.left == 0 {
					q.entries = slices.Delete(q.entries, j, j+1)
				}
				progress = true
				break
			}
			// Another machine of the same domain will do only where the hostname matters.
			if b.hostname < 0 || !slices.Contains(b.shares[e.share].members[0].class.keys, b.hostname) {
				break
			}
		}
	}
	return progress
}
