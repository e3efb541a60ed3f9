package pack

import "slices"

const (
	// exchangeMoves is how many pods may go elsewhere for one, exchangePair how many from one
	// machine.
	exchangeMoves, exchangePair = 3, 2
	// exchangeLooks bounds how often that is tried for all pods, exchangeOne for one.
	exchangeLooks, exchangeOne = 100_000, 50_000
)

// exchange finds places for pods that the rules between pods keep from where they were
// meant to be, on machines that are to be bought anyway: others go elsewhere for them.
type exchange struct {
	*buyer
	bins   []*opening
	seated [][]int32 // by bin: pods
	guests []guest   // by class; without a member: its pods stay where they are
	class  []int     // by pod
	queue  []int32
	looks  int // that are left
	broken int // pods whose rules were broken before
}

// guest is a class whose pods may go elsewhere, and the atoms that are right for it.
type guest struct {
	*member
	right []uint64
}

// exchangeAll does so for all pods that are left.
func (b *buyer) exchangeAll(bins []*opening) {
	if len(b.visible) > 0 {
		return
	}
	x := b.newExchange(bins)
	total := exchangeLooks
	for _, c := range b.order {
		if x.guests[c].member == nil {
			continue
		}
		cl := &b.classes[c]
		for range len(cl.pods) {
			x.broken, x.looks = x.countBroken(), min(exchangeOne, total)
			total -= x.looks
			found := false
			for moves := 0; moves <= exchangeMoves && !found; moves++ {
				x.queue = append(x.queue[:0], cl.pods[0])
				found = x.place(x.queue, moves)
			}
			total += max(x.looks, 0)
			first := cl.pods[0]
			if cl.pods = cl.pods[1:]; !found {
				cl.pods = append(slices.Clip(cl.pods), first)
			}
		}
	}
	for i := range x.bins {
		x.settle(i)
	}
}

func (b *buyer) newExchange(bins []*opening) *exchange {
	x := &exchange{
		buyer: b, guests: make([]guest, len(b.classes)), class: make([]int, len(b.placed)),
		queue: make([]int32, 0, 1+exchangeMoves),
	}
	for i := range b.shares {
		sh := &b.shares[i]
		right := sh.bins
		if sh.key >= 0 {
			right = sh.anywhere
		}
		for m := range sh.members {
			if !sh.wary {
				x.guests[sh.members[m].class.index] = guest{&sh.members[m], right}
			}
		}
	}
	at := map[int32]int{}
	for _, bin := range bins {
		if !bin.taken && !bin.pool.limited() && len(bin.minimum) == 0 {
			if bin.index >= 0 {
				at[bin.index] = len(x.bins)
			}
			x.bins = append(x.bins, bin)
		}
	}
	x.seated = make([][]int32, len(x.bins))
	classes := b.classOf()
	for p, where := range b.placed {
		x.class[p] = classes[b.snap.Pending[p].Shape]
		if i, ok := at[where.index]; ok && where.kind == onLaunch {
			x.seated[i] = append(x.seated[i], int32(p))
		}
	}
	return x
}

// place finds places for pods, for which up to so many others move.
func (x *exchange) place(homeless []int32, moves int) bool {
	if len(homeless) == 0 {
		x.looks -= len(x.placed)
		return x.countBroken() <= x.broken
	}
	p, rest := homeless[0], homeless[1:]
	g := &x.guests[x.class[p]]
	for i, bin := range x.bins {
		if x.looks--; x.looks < 0 {
			return false
		}
		if !x.admits(bin, g) {
			continue
		}
		x.count(bin, g, 1)
		x.seated[i] = append(x.seated[i], p)
		if x.place(rest, moves) {
			return true
		}
		x.seated[i] = x.seated[i][:len(x.seated[i])-1]
		x.count(bin, g, -1)
	}
	for i := range x.bins {
		if moves > 0 && x.evict(i, 0, homeless, moves, min(moves, exchangePair)) {
			return true
		}
	}
	return false
}

// evict makes room for the first of some pods on a machine: up to so many of those seated
// there, from one on, have to find another place with the rest.
func (x *exchange) evict(i, from int, homeless []int32, moves, most int) bool {
	p, bin := homeless[0], x.bins[i]
	g := &x.guests[x.class[p]]
	for n := from; n < len(x.seated[i]); n++ {
		if x.looks--; x.looks < 0 {
			break
		}
		q := x.seated[i][n]
		other := &x.guests[x.class[q]]
		if other.member == nil || other.class == g.class {
			continue
		}
		x.count(bin, other, -1)
		x.seated[i] = slices.Delete(x.seated[i], n, n+1)
		waiting := append(homeless, q)
		switch {
		case x.admits(bin, g):
			x.count(bin, g, 1)
			x.seated[i] = append(x.seated[i], p)
			if x.place(waiting[1:], moves-1) {
				return true
			}
			x.seated[i] = x.seated[i][:len(x.seated[i])-1]
			x.count(bin, g, -1)
		case most > 1 && x.evict(i, n, waiting, moves-1, most-1):
			return true
		}
		x.seated[i] = slices.Insert(x.seated[i], n, q)
		x.count(bin, other, 1)
	}
	return false
}

// admits tells whether a pod has room on a machine, and all rules let it be there.
func (x *exchange) admits(bin *opening, g *guest) bool {
	room := bin.pool.types[bin.pool.typeOf[bin.atom]].free
	for d, need := range g.class.need {
		if need > 0 && bin.used[d]+need > room[d] {
			return false
		}
	}
	if !bitset(g.right[x.base[bin.at]/64:]).has(bin.atom) {
		return false
	}
	return len(g.class.keys) == 0 || !bin.unsettled(g.class.keys) &&
		x.ledger.Check(g.class.index, &bin.place, g.st.wishesFrom, g.st.courteous).IsYes()
}

// count notes that one more of a class is on a machine, or one fewer.
func (x *exchange) count(bin *opening, g *guest, n int32) {
	if !bin.present {
		x.ledger.Present(&bin.place)
		bin.present = true
	}
	bin.used.AddN(g.class.need, int64(n))
	if len(g.class.keys) > 0 {
		x.ledger.Count(g.class.index, &bin.place, n, 0)
	}
}

// countBroken returns how many pods must not be where they are.
func (x *exchange) countBroken() (n int) {
	for i, bin := range x.bins {
		for _, p := range x.seated[i] {
			if c := &x.classes[x.class[p]]; len(c.keys) > 0 && !x.ledger.Holds(c.index, &bin.place).IsYes() {
				n++
			}
		}
	}
	return n
}

// settle writes down who came to a machine.
func (x *exchange) settle(i int) {
	bin := x.bins[i]
	if bin.index < 0 && len(x.seated[i]) > 0 {
		bin.index = int32(len(x.launches))
		x.launches = append(x.launches, bin.launchBin)
	}
	for _, p := range x.seated[i] {
		here := placement{onLaunch, bin.index}
		if x.placed[p] == here {
			continue
		}
		x.placed[p] = here
		if g := &x.guests[x.class[p]]; !bin.accept(g.member) {
			x.remove(g.class, p)
			g.class.pods = append(slices.Clip(g.class.pods), p)
		}
	}
}
