package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

const (
	// exchangeMoves is how many pods may be moved for one, exchangePair how many from one node.
	exchangeMoves, exchangePair = 3, 2
	// exchangeSearches bounds the search for all pods, exchangeOne for one, in pairs of a pod and a
	// node that are tried.
	exchangeSearches, exchangeOne = 100_000, 50_000
)

// exchange finds room on the nodes of an answer for pods that rules between pods keep from the
// nodes where the answer puts them: other pods are moved to another node for them. It searches
// every way, so it is for few pods; batchAssigner.exchange does the same for very many, with one
// move each.
type exchange struct {
	launcher   *launcher
	bins       []*opening
	assigned   [][]int32       // by bin: pods
	candidates []swapCandidate // by class; without a member: its pods are not moved
	class      []int           // by pod
	queue      []int32
	searches   int // how many pairs may still be tried
	broken     int // how many pods had broken rules before
}

// swapCandidate is a class whose pods may be moved, and the offerings where they may be.
type swapCandidate struct {
	member *member
	right  []uint64
}

// exchangeAll exchanges pods for all that are left.
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

// place puts the unplaced pods on nodes, and moves up to so many others for them. If it cannot,
// it changes nothing and returns false.
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

// evict puts the first of the unplaced pods on a node, and takes up to so many pods off it, from
// the given one on. These have to find another node together with the rest. If that fails, it
// changes nothing and returns false.
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

// admits reports whether a node has room for a pod, and all rules allow it there.
func (x *exchange) admits(bin *opening, g *swapCandidate) bool {
	c := g.member.class
	if !bin.holds(c) || !model.Bitset(g.right[x.launcher.base[bin.node.PoolIndex]/64:]).Has(bin.offering) {
		return false
	}
	return len(c.Keys) == 0 || !bin.node.IsUndetermined(c.Keys) && x.launcher.topo.Check(c, g.member.st, &bin.node.Domains).IsYes()
}

// count adds n pods of a class on a node to what it holds and to the topology counts.
func (x *exchange) count(bin *opening, g *swapCandidate, n int32) {
	x.launcher.topo.MakePresent(bin.node)
	bin.node.Used.AddN(g.member.class.Need, int64(n))
	if len(g.member.class.Keys) > 0 {
		x.launcher.ledger.Count(g.member.class.Index, &bin.node.Domains, n, 0)
	}
}

// countBroken returns how many pods have broken rules where they are.
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

// keep assigns the pods that came to a node to it.
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
