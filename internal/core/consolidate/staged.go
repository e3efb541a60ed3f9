package consolidate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/repack"
)

// stages does a draft that is too large for one command in several: the next one fills the nodes that
// one has launched. So the result is what was found for all nodes together.
type stages struct {
	c       *consolidator
	targets []target
	moves   []repack.Move
	// open are targets that are launched and not full.
	open []int
	// kind is, by class, the class that represents all classes whose pods can replace each other on
	// launched nodes; classes are the classes of each kind. Targets count pods by kind, so that the
	// pods of a few nodes fill few targets.
	kind    []int32
	classes [][]int32
	// undo and did are what the current command has taken from the counts, for takeBack.
	undo  []*int32
	did   []int32
	drawn []int   // targets that it has launched
	room  []int32 // by kind
	// near are the targets that will be launched for the nodes chosen so far, and those that the
	// current command cannot use.
	near []int
	next progress
}

// execute makes several commands of a draft, and returns what is left of it. It computes all launches
// after the last stage. If one of them turns out impossible, it repeats all stages and computes the
// launches of each at once.
func (c *consolidator) execute(d *draft) *draft {
	if len(d.remove) < 2 || c.opts.DrainOnly {
		return d
	}
	whole, ok := c.atOnce(d)
	if !ok {
		return d
	}
	defer func() { c.inStages, c.late = false, false }()
	for _, late := range []bool{true, false} {
		c.inStages, c.late = true, late
		if rest, ok := c.takeStages(d, whole); ok {
			return rest
		}
	}
	return d
}

// takeStages makes commands of a draft whose result in one command would be whole, and returns what is
// left of the draft. It is false, and changes nothing, if a node launched by one command cannot hold
// what later ones put on it.
func (c *consolidator) takeStages(d, whole *draft) (rest *draft, ok bool) {
	t := newStages(c, whole)
	order := c.ranked(c.s.Worth, func(h int) bool { _, is := slices.BinarySearch(d.remove, int32(h)); return is })
	from, was, gained := c.s.Nodes.Begin(), c.out, c.gain
	rest = &draft{}
	for len(order) > 0 {
		part := t.choose(order)
		order = slices.DeleteFunc(order, func(h int32) bool { return slices.Contains(part, h) })
		mark := c.s.Nodes.Begin()
		step, gain, ok := c.take(&draft{remove: part}, mark, t.follow)
		if !ok {
			c.s.Nodes.Undo(mark)
			t.takeBack()
			rest.remove = append(rest.remove, part...)
			continue
		}
		c.accept(mark, step, gain)
		t.conclude()
	}
	if !c.relaunch(append(c.s.Nodes.Stocked(from), c.s.Nodes.Launched(from)...), c.s.Nodes.Hosts()) {
		c.s.Nodes.Undo(from)
		c.out, c.gain = was, gained
		return nil, false
	}
	for _, h := range c.s.Nodes.Launched(from) {
		c.s.Nodes.Close(h)
	}
	c.s.Rescheduler.Admit(from)
	slices.Sort(rest.remove)
	return rest, true
}

func newStages(c *consolidator, whole *draft) *stages {
	n := c.s.Inventory.Classes()
	t := &stages{c: c, moves: slices.Clone(whole.moves), kind: c.s.Inventory.Kinds(), classes: make([][]int32, n), room: make([]int32, n)}
	for class, kind := range t.kind {
		t.classes[kind] = append(t.classes[kind], int32(class))
	}
	for i := range t.moves {
		t.moves[i].Class = t.kind[t.moves[i].Class]
	}
	for _, p := range whole.launches {
		g := target{bin: p.bin, host: -1}
		for _, sh := range p.pods {
			kind := t.kind[sh.Class]
			g.worth += float64(sh.N) * c.s.Inventory.WorthOf(kind)
			k := slices.IndexFunc(g.want, func(o repack.Share) bool { return o.Class == kind })
			if k < 0 {
				k = len(g.want)
				g.want = append(g.want, repack.Share{Class: kind})
			}
			g.want[k].N += sh.N
		}
		t.targets = append(t.targets, g)
	}
	t.next = newProgress(t.targets, n, c.s.Inventory.WorthOf)
	return t
}

// atOnce returns what the draft comes to in one command.
func (c *consolidator) atOnce(d *draft) (*draft, bool) {
	mark, first := c.s.Nodes.Begin(), c.s.Nodes.Hosts()
	defer c.s.Nodes.Undo(mark)
	for _, h := range d.remove {
		c.s.Nodes.Remove(int(h))
	}
	if !c.follow(d, mark) || c.s.Nodes.AnyUnplaced() && !c.s.Rescheduler.Reschedule() {
		return nil, false
	}
	return c.outcome(mark, first), true
}

// choose returns the nodes of the next command: those whose pods fill nodes that are launched already,
// or that will be launched for other nodes of the command; else the worst.
func (t *stages) choose(order []int32) (part []int32) {
	clear(t.room)
	t.forget()
	for _, g := range t.open {
		for _, sh := range t.targets[g].want {
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
		if len(part) > 0 && !t.c.opts.mayGo(t.c.snap, append(part, h)) {
			continue
		}
		part = append(part, h)
		t.foresee(h)
	}
	slices.Sort(part)
	return part
}

// foresee takes the room that the pods of a chosen node will use, and adds the room that is left on
// the targets that will be launched for them.
func (t *stages) foresee(h int32) {
	t.next.clear()
	for _, sh := range t.c.s.Nodes.Own(int(h)) {
		kind := t.kind[sh.Class]
		n := min(sh.N, t.room[kind])
		t.room[kind] -= n
		t.next.set(kind, t.next.pods[kind]+sh.N-n)
	}
	for g := t.next.fullest(); g >= 0; g = t.next.fullest() {
		t.near, t.next.closed[g] = append(t.near, g), true
		for _, sh := range t.targets[g].want {
			n := min(sh.N, t.next.pods[sh.Class])
			t.next.set(sh.Class, t.next.pods[sh.Class]-n)
			t.room[sh.Class] += sh.N - n
		}
	}
}

// forget lets all targets be launched again.
func (t *stages) forget() {
	for _, g := range t.near {
		t.next.closed[g] = false
	}
	t.near = t.near[:0]
}

// covered returns the share of a node's worth for which there is room already, as if each class had
// the room of its kind for itself.
func (t *stages) covered(h int32) float64 {
	sum, all := 0.0, 0.0
	for _, sh := range t.c.s.Nodes.Own(int(h)) {
		worth := t.c.s.Inventory.WorthOf(sh.Class)
		sum, all = sum+worth*float64(min(sh.N, t.room[t.kind[sh.Class]])), all+worth*float64(sh.N)
	}
	if all == 0 {
		return 1
	}
	return sum / all
}

// follow puts unplaced pods on their targets, and launches further targets for the others, those
// first that become fullest.
func (t *stages) follow(*draft, int) bool {
	t.put()
	t.forget()
	t.next.clear()
	for kind := range t.classes {
		t.next.set(int32(kind), t.unplaced(int32(kind)))
	}
	for t.c.s.Nodes.AnyUnplaced() {
		g := t.next.fullest()
		if g < 0 {
			break
		}
		h, ok := t.c.s.Nodes.Open(t.targets[g].bin)
		if !ok {
			return false
		}
		t.targets[g].host = h
		if !t.fill(g) { // rules between pods keep all of them away, for now
			t.c.s.Nodes.Cancel()
			t.targets[g].host = -1
			t.near, t.next.closed[g] = append(t.near, g), true
			continue
		}
		t.open, t.drawn, t.next.closed[g] = append(t.open, g), append(t.drawn, g), true
		for _, sh := range t.targets[g].want {
			t.next.set(sh.Class, t.unplaced(sh.Class))
		}
	}
	if t.c.s.Nodes.AnyUnplaced() { // another order may satisfy rules between pods
		t.put()
		t.c.s.Rescheduler.Reschedule()
	}
	return true
}

// put moves unplaced pods to launched targets and to existing nodes.
func (t *stages) put() {
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

// fill puts unplaced pods on a launched target, and reports whether it put any.
func (t *stages) fill(g int) (some bool) {
	target := &t.targets[g]
	for k := range target.want {
		some = t.move(target.want[k].Class, target.host, &target.want[k].N) || some
	}
	return some
}

// unplaced returns how many pods of a kind have no node.
func (t *stages) unplaced(kind int32) (n int32) {
	for _, class := range t.classes[kind] {
		n += t.c.s.Nodes.Unplaced(class)
	}
	return n
}

// move puts unplaced pods of a kind on a node, as many as are wanted there.
func (t *stages) move(kind int32, host int, want *int32) bool {
	n := int32(0)
	for _, class := range t.classes[kind] {
		if most := min(*want-n, t.c.s.Nodes.Unplaced(class)); most > 0 {
			n += t.c.s.Rescheduler.Put(class, host, most)
		}
	}
	if n > 0 {
		*want -= n
		t.undo, t.did = append(t.undo, want), append(t.did, n)
	}
	return n > 0
}

// takeBack undoes the current command.
func (t *stages) takeBack() {
	for i, want := range t.undo {
		*want += t.did[i]
	}
	for _, g := range t.drawn {
		t.targets[g].host, t.next.closed[g] = -1, false
	}
	t.open = slices.DeleteFunc(t.open, func(g int) bool { return t.targets[g].host < 0 })
	t.undo, t.did, t.drawn = t.undo[:0], t.did[:0], t.drawn[:0]
}

// conclude makes the current command final.
func (t *stages) conclude() {
	t.open = slices.DeleteFunc(t.open, func(g int) bool {
		return !slices.ContainsFunc(t.targets[g].want, func(sh repack.Share) bool { return sh.N > 0 })
	})
	t.next.drop(t.targets)
	t.undo, t.did, t.drawn = t.undo[:0], t.did[:0], t.drawn[:0]
}
