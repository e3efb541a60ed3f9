package consolidate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// turns is a draft that is too large for one step, done in several: what one of them buys
// is filled by the next. So it comes to what was found for all machines together.
type turns struct {
	c     *consolidator
	goals []goal
	moves []pack.Move
	// open are goals that are bought and not full.
	open []int
	// kind is, by class, the class that stands for all whose pods can take each other's places
	// on what is bought; classes are those of each. What is meant for whom goes by kinds: the
	// pods of a few machines then fill few goals.
	kind    []int32
	classes [][]int32
	// undo says what the step under way has done.
	undo  []*int32
	did   []int32
	drawn []int   // goals that it has bought
	room  []int32 // by kind
	// near are the goals that the machines chosen for the next step will want bought, and those
	// that the step under way can't use.
	near []int
	next tally
}

// goal is a machine to be bought, and what is still to come to it, by kind.
type goal struct {
	bin   int32
	want  []pack.Share
	worth float64
	host  int // -1: it is not bought
}

// inTurn makes several steps of a draft, and returns what is left of it. What is launched is
// written down when all turns have been taken; where that fails for one of the launches,
// which nothing showed before, they are taken again with each written down at once.
func (c *consolidator) inTurn(d *draft) *draft {
	if len(d.remove) < 2 || c.opts.DrainOnly {
		return d
	}
	whole, ok := c.atOnce(d)
	if !ok {
		return d
	}
	defer func() { c.inTurns, c.late = false, false }()
	for _, late := range []bool{true, false} {
		c.inTurns, c.late = true, late
		if rest, ok := c.takeTurns(d, whole); ok {
			return rest
		}
	}
	return d
}

// takeTurns makes steps of a draft that comes to the whole, and returns what is left of it. It
// is false, and nothing changes, where what was launched for one can't hold what others put on it.
func (c *consolidator) takeTurns(d, whole *draft) (rest *draft, ok bool) {
	t := newTurns(c, whole)
	order := c.ranked(c.s.Worth, func(h int) bool { _, is := slices.BinarySearch(d.remove, int32(h)); return is })
	from, was, gained := c.s.Begin(), c.out, c.gain
	rest = &draft{}
	for len(order) > 0 {
		part := t.choose(order)
		order = slices.DeleteFunc(order, func(h int32) bool { return slices.Contains(part, h) })
		mark := c.s.Begin()
		step, gain, ok := c.take(&draft{remove: part}, mark, t.follow)
		if !ok {
			c.s.Undo(mark)
			t.takeBack()
			rest.remove = append(rest.remove, part...)
			continue
		}
		c.accept(mark, step, gain)
		t.settle()
	}
	if !c.relaunch(append(c.s.Stocked(from), c.s.Bought(from)...), c.s.Hosts()) {
		c.s.Undo(from)
		c.out, c.gain = was, gained
		return nil, false
	}
	for _, h := range c.s.Bought(from) {
		c.s.Close(h)
	}
	c.s.Welcome(from)
	slices.Sort(rest.remove)
	return rest, true
}

func newTurns(c *consolidator, whole *draft) *turns {
	n := c.s.Classes()
	t := &turns{c: c, moves: slices.Clone(whole.moves), kind: c.s.Kinds(), classes: make([][]int32, n), room: make([]int32, n)}
	for class, kind := range t.kind {
		t.classes[kind] = append(t.classes[kind], int32(class))
	}
	for i := range t.moves {
		t.moves[i].Class = t.kind[t.moves[i].Class]
	}
	for _, p := range whole.buy {
		g := goal{bin: p.bin, host: -1}
		for _, sh := range p.pods {
			kind := t.kind[sh.Class]
			g.worth += float64(sh.N) * c.s.WorthOf(kind)
			k := slices.IndexFunc(g.want, func(o pack.Share) bool { return o.Class == kind })
			if k < 0 {
				k = len(g.want)
				g.want = append(g.want, pack.Share{Class: kind})
			}
			g.want[k].N += sh.N
		}
		t.goals = append(t.goals, g)
	}
	t.next = newTally(t.goals, n, c.s.WorthOf)
	return t
}

// atOnce returns what the draft comes to if all is done in one step.
func (c *consolidator) atOnce(d *draft) (*draft, bool) {
	mark, first := c.s.Begin(), c.s.Hosts()
	defer c.s.Undo(mark)
	for _, h := range d.remove {
		c.s.Remove(int(h))
	}
	if !c.follow(d, mark) || c.s.AnyLoose() && !c.s.Settle() {
		return nil, false
	}
	return c.outcome(mark, first), true
}

// choose returns the machines of the next step: those whose pods fill what is bought already,
// or what will be for others of the step; else the worst.
func (t *turns) choose(order []int32) (part []int32) {
	clear(t.room)
	t.forget()
	for _, g := range t.open {
		for _, sh := range t.goals[g].want {
			t.room[sh.Class] += sh.N
		}
	}
	for _, m := range t.moves {
		t.room[m.Class] += m.N
	}
	among := slices.Clone(order[:min(len(order), stageNodesMax)])
	for len(among) > 0 && len(part) < t.c.opts.StepMax {
		best, most := 0, -1.0
		for i, h := range among {
			if share := t.covered(h); share > most {
				best, most = i, share
			}
		}
		h := among[best]
		among = slices.Delete(among, best, best+1)
		if len(part) > 0 && !t.c.mayGo(append(part, h)) {
			continue
		}
		part = append(part, h)
		t.foresee(h)
	}
	slices.Sort(part)
	return part
}

// foresee takes the room that the pods of a machine will have, and adds what is left of that
// of the goals that will be bought for them.
func (t *turns) foresee(h int32) {
	t.next.clear()
	for _, sh := range t.c.s.Own(int(h)) {
		kind := t.kind[sh.Class]
		n := min(sh.N, t.room[kind])
		t.room[kind] -= n
		t.next.set(kind, t.next.pods[kind]+sh.N-n)
	}
	for g := t.next.fullest(); g >= 0; g = t.next.fullest() {
		t.near, t.next.closed[g] = append(t.near, g), true
		for _, sh := range t.goals[g].want {
			n := min(sh.N, t.next.pods[sh.Class])
			t.next.set(sh.Class, t.next.pods[sh.Class]-n)
			t.room[sh.Class] += sh.N - n
		}
	}
}

// forget leaves open again which goals will be bought next.
func (t *turns) forget() {
	for _, g := range t.near {
		t.next.closed[g] = false
	}
	t.near = t.near[:0]
}

// covered returns the share of a machine's worth that has a place already, as if each class had
// the room of its kind for itself.
func (t *turns) covered(h int32) float64 {
	sum, all := 0.0, 0.0
	for _, sh := range t.c.s.Own(int(h)) {
		worth := t.c.s.WorthOf(sh.Class)
		sum, all = sum+worth*float64(min(sh.N, t.room[t.kind[sh.Class]])), all+worth*float64(sh.N)
	}
	if all == 0 {
		return 1
	}
	return sum / all
}

// follow puts loose pods where they are meant to be, and buys what it takes, fullest first.
func (t *turns) follow(*draft, int) bool {
	t.put()
	t.forget()
	t.next.clear()
	for kind := range t.classes {
		t.next.set(int32(kind), t.loose(int32(kind)))
	}
	for t.c.s.AnyLoose() {
		g := t.next.fullest()
		if g < 0 {
			break
		}
		h, ok := t.c.s.Open(t.goals[g].bin)
		if !ok {
			return false
		}
		t.goals[g].host = h
		if !t.fill(g) { // rules say no to all of them, for now
			t.c.s.Forgo()
			t.goals[g].host = -1
			t.near, t.next.closed[g] = append(t.near, g), true
			continue
		}
		t.open, t.drawn, t.next.closed[g] = append(t.open, g), append(t.drawn, g), true
		for _, sh := range t.goals[g].want {
			t.next.set(sh.Class, t.loose(sh.Class))
		}
	}
	if t.c.s.AnyLoose() { // rules may have asked for another order
		t.put()
		t.c.s.Settle()
	}
	return true
}

// put moves loose pods to what is bought already, and to machines that there are.
func (t *turns) put() {
	for progress := true; progress; {
		progress = false
		for _, g := range t.open {
			progress = t.fill(g) || progress
		}
		for i := range t.moves {
			m := &t.moves[i]
			progress = t.move(m.Class, int(m.Host), &m.N) || progress
		}
	}
}

// fill puts loose pods on a goal that is bought, and tells whether there were any.
func (t *turns) fill(g int) (some bool) {
	goal := &t.goals[g]
	for k := range goal.want {
		some = t.move(goal.want[k].Class, goal.host, &goal.want[k].N) || some
	}
	return some
}

// loose returns how many pods of a kind have no machine.
func (t *turns) loose(kind int32) (n int32) {
	for _, class := range t.classes[kind] {
		n += t.c.s.Loose(class)
	}
	return n
}

// move puts loose pods of a kind on a machine, as many as are wanted there.
func (t *turns) move(kind int32, host int, want *int32) bool {
	n := int32(0)
	for _, class := range t.classes[kind] {
		if most := min(*want-n, t.c.s.Loose(class)); most > 0 {
			n += t.c.s.Put(class, host, most)
		}
	}
	if n > 0 {
		*want -= n
		t.undo, t.did = append(t.undo, want), append(t.did, n)
	}
	return n > 0
}

// takeBack forgets the step under way.
func (t *turns) takeBack() {
	for i, want := range t.undo {
		*want += t.did[i]
	}
	for _, g := range t.drawn {
		t.goals[g].host, t.next.closed[g] = -1, false
	}
	t.open = slices.DeleteFunc(t.open, func(g int) bool { return t.goals[g].host < 0 })
	t.undo, t.did, t.drawn = t.undo[:0], t.did[:0], t.drawn[:0]
}

// settle makes the step under way final.
func (t *turns) settle() {
	t.open = slices.DeleteFunc(t.open, func(g int) bool {
		return !slices.ContainsFunc(t.goals[g].want, func(sh pack.Share) bool { return sh.N > 0 })
	})
	t.next.drop(t.goals)
	t.undo, t.did, t.drawn = t.undo[:0], t.did[:0], t.drawn[:0]
}
