package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

const (
	// exchangeMoves is how many pods may go elsewhere for one, exchangePair how many from one
	// node.
	exchangeMoves, exchangePair = 3, 2
	// exchangeSearches bounds how often that is tried for all pods, exchangeOne for one.
	exchangeSearches, exchangeOne = 100_000, 50_000
)

// exchange finds places for pods that the rules between pods keep from where they were
// meant to be, on nodes that are to be launched anyway: others go elsewhere for them.
type exchange struct {
	launcher   *launcher
	bins       []*opening
	assigned   [][]int32       // by bin: pods
	candidates []swapCandidate // by class; without a member: its pods stay where they are
	class      []int           // by pod
	queue      []int32
	searches   int // that are left
	broken     int // pods whose rules were broken before
}

// swapCandidate is a class whose pods may go elsewhere, and the offerings that are right for it.
type swapCandidate struct {
	member *member
	right  []uint64
}

// exchangeAll does so for all pods that are left.
func (b *launcher) exchangeAll(bins []*opening) {
	if len(b.topo.DaemonSets) > 0 {
		return
	}
	x := b.newExchange(bins)
	total := exchangeSearches
	for _, c := range b.state.Order {
		if x.candidates[c].member == nil {
			continue
		}
		cl := &b.state.Classes[c]
		for range len(cl.Pods) {
			x.broken, x.searches = x.countBroken(), min(exchangeOne, total)
			total -= x.searches
			found := false
			for moves := 0; moves <= exchangeMoves && !found; moves++ {
				x.queue = append(x.queue[:0], cl.Pods[0])
				found = x.place(x.queue, moves)
			}
			total += max(x.searches, 0)
			first := cl.Pods[0]
			if cl.Pods = cl.Pods[1:]; !found {
				cl.Pods = append(slices.Clip(cl.Pods), first)
			}
		}
	}
	for i := range x.bins {
		x.keep(i)
	}
}

func (b *launcher) newExchange(bins []*opening) *exchange {
	x := &exchange{
		launcher: b, candidates: make([]swapCandidate, len(b.state.Classes)), class: make([]int, len(b.state.Assignments)),
		queue: make([]int32, 0, 1+exchangeMoves),
	}
	for i := range b.shares {
		sh := &b.shares[i]
		right := sh.bins
		if sh.key >= 0 {
			right = sh.anywhere
		}
		for m := range sh.members {
			if !sh.labelConflict {
				x.candidates[sh.members[m].class.Index] = swapCandidate{&sh.members[m], right}
			}
		}
	}
	at := map[int32]int{}
	for _, bin := range bins {
		if !bin.taken && !bin.node.Pool.IsLimited() && len(bin.node.Minimum) == 0 {
			if bin.index >= 0 {
				at[bin.index] = len(x.bins)
			}
			x.bins = append(x.bins, bin)
		}
	}
	x.assigned = make([][]int32, len(x.bins))
	classes := b.state.ClassOf()
	for p, where := range b.state.Assignments {
		x.class[p] = classes[b.model.Snapshot.Pending[p].Constraints]
		if i, ok := at[where.Index]; ok && where.Kind == model.OnPlanned {
			x.assigned[i] = append(x.assigned[i], int32(p))
		}
	}
	return x
}

// place finds places for pods, for which up to so many others move.
func (x *exchange) place(unplaced []int32, moves int) bool {
	if len(unplaced) == 0 {
		x.searches -= len(x.launcher.state.Assignments)
		return x.countBroken() <= x.broken
	}
	p, rest := unplaced[0], unplaced[1:]
	g := &x.candidates[x.class[p]]
	for i, bin := range x.bins {
		if x.searches--; x.searches < 0 {
			return false
		}
		if !x.admits(bin, g) {
			continue
		}
		x.count(bin, g, 1)
		x.assigned[i] = append(x.assigned[i], p)
		if x.place(rest, moves) {
			return true
		}
		x.assigned[i] = x.assigned[i][:len(x.assigned[i])-1]
		x.count(bin, g, -1)
	}
	for i := range x.bins {
		if moves > 0 && x.evict(i, 0, unplaced, moves, min(moves, exchangePair)) {
			return true
		}
	}
	return false
}

// evict makes room for the first of some pods on a node: up to so many of those seated
// there, from one on, have to find another place with the rest.
func (x *exchange) evict(i, from int, unplaced []int32, moves, most int) bool {
	p, bin := unplaced[0], x.bins[i]
	g := &x.candidates[x.class[p]]
	for n := from; n < len(x.assigned[i]); n++ {
		if x.searches--; x.searches < 0 {
			break
		}
		q := x.assigned[i][n]
		other := &x.candidates[x.class[q]]
		if other.member == nil || other.member.class == g.member.class {
			continue
		}
		x.count(bin, other, -1)
		x.assigned[i] = slices.Delete(x.assigned[i], n, n+1)
		waiting := append(unplaced, q)
		switch {
		case x.admits(bin, g):
			x.count(bin, g, 1)
			x.assigned[i] = append(x.assigned[i], p)
			if x.place(waiting[1:], moves-1) {
				return true
			}
			x.assigned[i] = x.assigned[i][:len(x.assigned[i])-1]
			x.count(bin, g, -1)
		case most > 1 && x.evict(i, n, waiting, moves-1, most-1):
			return true
		}
		x.assigned[i] = slices.Insert(x.assigned[i], n, q)
		x.count(bin, other, 1)
	}
	return false
}

// admits reports whether a pod has room on a node, and all rules let it be there.
func (x *exchange) admits(bin *opening, g *swapCandidate) bool {
	c := g.member.class
	if !bin.holds(c) || !model.Bitset(g.right[x.launcher.base[bin.node.PoolIndex]/64:]).Has(bin.offering) {
		return false
	}
	return len(c.Keys) == 0 || !bin.node.IsUndetermined(c.Keys) && x.launcher.topo.Check(c, g.member.st, &bin.node.Domains).IsYes()
}

// count notes that one more of a class is on a node, or one fewer.
func (x *exchange) count(bin *opening, g *swapCandidate, n int32) {
	x.launcher.topo.MakePresent(bin.node)
	bin.node.Used.AddN(g.member.class.Need, int64(n))
	if len(g.member.class.Keys) > 0 {
		x.launcher.ledger.Count(g.member.class.Index, &bin.node.Domains, n, 0)
	}
}

// countBroken returns how many pods must not be where they are.
func (x *exchange) countBroken() (n int) {
	for i, bin := range x.bins {
		for _, p := range x.assigned[i] {
			if c := &x.launcher.state.Classes[x.class[p]]; len(c.Keys) > 0 && !x.launcher.ledger.Holds(c.Index, &bin.node.Domains).IsYes() {
				n++
			}
		}
	}
	return n
}

// keep writes down who came to a node.
func (x *exchange) keep(i int) {
	bin := x.bins[i]
	if bin.index < 0 && len(x.assigned[i]) > 0 {
		bin.index = int32(len(x.launcher.state.Planned))
		x.launcher.state.Planned = append(x.launcher.state.Planned, bin.node)
	}
	for _, p := range x.assigned[i] {
		here := model.Assignment{Kind: model.OnPlanned, Index: bin.index}
		if x.launcher.state.Assignments[p] == here {
			continue
		}
		x.launcher.state.Assignments[p] = here
		if g := &x.candidates[x.class[p]]; !bin.accept(g.member) {
			x.launcher.state.Remove(g.member.class, p)
			g.member.class.Pods = append(slices.Clip(g.member.class.Pods), p)
		}
	}
}
