package launch

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// entry is pods of a share that the answer puts on one node, and that wait until the rules
// between pods allow them there.
type entry struct {
	bin   *opening
	share int32
	left  int
}

// openAll turns an answer into planned nodes. It reports whether there are any.
//
// Filling a node means something else here than in core/cover: the answer says how many pods of
// each share a node gets, and openAll finds out which of them the exact rules let there. Pods
// without rules are put there at once (fillByMeanSize, or fill where host ports or minValues are
// counted). Pods with rules wait until all nodes are open, because each may depend on others.
func (b *launcher) openAll(answer *cover.Solution) bool {
	before := len(b.state.Planned)
	b.expectNodes(answer)
	var waiting []entry
	var bins []*opening
	few := len(b.model.Snapshot.Pending) <= smallMax
	for i := range answer.Patterns {
		p := &answer.Patterns[i]
		at, offering := b.offeringOf(p.Bin)
		if !b.exact {
			pool := b.model.Pools[at]
			largestFirst(p.Items, b.shares, pool.Types[pool.TypeOf[offering]].Free)
		}
		for range p.Times {
			bin := b.openOne(at, offering, p.Items)
			if bin == nil {
				break
			}
			bins = append(bins, bin)
			waits := len(waiting)
			for _, item := range p.Items {
				switch sh := &b.shares[item.Class]; {
				case len(sh.members[0].class.Keys) > 0:
					waiting = append(waiting, entry{bin, item.Class, item.N})
				case len(sh.members[0].class.Constraints.Ports) > 0 || len(bin.node.Minimum) > 0:
					b.fill(bin, sh, item.N)
				default:
					b.fillByMeanSize(bin, sh, item.N)
				}
			}
			if len(waiting) == waits && !few || bin.node.Pool.IsLimited() {
				b.take(bin)
			}
		}
	}
	b.admit(waiting)
	if few && b.state.CountUnplaced() > 0 {
		b.exchangeAll(bins)
	}
	for _, bin := range bins {
		b.take(bin)
	}
	for _, l := range b.state.Planned[before:] {
		l.KeepPrice()
	}
	b.fillSlack()
	return len(b.state.Planned) > before
}

// expectNodes takes memory for the domains of all nodes of an answer at once.
func (b *launcher) expectNodes(answer *cover.Solution) {
	if b.hostname < 0 {
		return
	}
	nodes := 0
	for i := range answer.Patterns {
		nodes += answer.Patterns[i].Times
	}
	b.ledger.Expect(b.hostname, nodes)
}

// fillSlack puts pods that are left on planned nodes where that makes no node dearer. For pods
// with rules each node has to be asked, so this is not done for very many of them.
func (b *launcher) fillSlack() {
	for i := range b.shares {
		for _, m := range b.shares[i].members {
			if len(m.class.Keys) == 0 || len(b.model.Snapshot.Pending) <= place.FirstFitMax {
				b.state.FillPlanned(m.class, m.st)
			}
		}
	}
}

// largestFirst sorts what a pattern has on a node by how much of the node, which is free so far, one pod takes.
// The pods of a share are not of the size that the answer reckons with. What then has no room are small pods, which
// find it elsewhere.
func largestFirst(items []cover.Item, shares []share, free quantity.Vector) {
	taken := func(i cover.Item) (most float64) {
		for d, v := range shares[i.Class].size {
			if free[d] > 0 {
				most = max(most, float64(v)/float64(free[d]))
			}
		}
		return most
	}
	slices.SortStableFunc(items, func(x, y cover.Item) int { return cmp.Compare(taken(y), taken(x)) })
}

// openOne returns an empty node for a pattern, in the domains that matter to its items; nil if
// the pool's limits do not allow another node.
func (b *launcher) openOne(at, offering int, items []cover.Item) *opening {
	pool := b.model.Pools[at]
	l := pool.NewNode(at)
	if l == nil || !l.AnyTypeOf(offering) {
		if !pool.ShrinkToCheapest(b.state.Planned) {
			return nil
		}
		if l = pool.NewNode(at); l == nil || !l.AnyTypeOf(offering) {
			return nil
		}
	}
	b.topo.LocatePlanned(l)
	for _, item := range items {
		if k := b.shares[item.Class].key; k >= 0 && l.Domains.Domain[k] == topology.Open {
			b.pin(l, k, offering)
		}
	}
	o := &b.openings.Take(1)[0]
	*o = opening{node: l, offering: offering, index: -1}
	return o
}

// pin narrows the node to the offering's value of a topology key.
func (b *launcher) pin(l *model.PlannedNode, k, offering int) {
	key := b.ledger.Keys()[k]
	model, decided := l.Pool.Label(key)
	if !decided {
		return
	}
	for i, v := range model.Values {
		if model.Offerings[i].Has(offering) {
			l.Domains.Domain[k] = b.ledger.Domain(k, v)
			l.Requirements = append(l.Requirements, model.Requirement(key, i))
			l.Offerings.And(model.Offerings[i])
			l.Types = slices.DeleteFunc(l.Types, func(t int32) bool { return !l.Offerings.AnyIn(l.Pool.Types[t].First, l.Pool.Types[t].End) })
			l.RoomUnknown = true
			b.topo.CountSpreads(l)
			return
		}
	}
}

// assignOne puts one pod with rules on a node, if they allow it. As long as the node's types are
// not found out (see take), only the offering's own type is asked whether it has room.
func (b *launcher) assignOne(bin *opening, m *member) bool {
	c, st := m.class, m.st
	if bin.taken || bin.node.Pool.IsLimited() || len(bin.node.Minimum) > 0 || len(c.Constraints.Ports) > 0 || len(b.topo.DaemonSets) > 0 || bin.node.IsUndetermined(c.Keys) {
		if !bin.affordable() || !b.state.PlaceOneOnPlanned(bin.node, c, st) {
			return false
		}
		b.assign(bin, c, 1)
		b.take(bin)
		return true
	}
	if !bin.holds(c) || !b.topo.Check(c, st, &bin.node.Domains).IsYes() || !b.put(bin, m) {
		return false
	}
	b.topo.MakePresent(bin.node)
	b.ledger.Count(c.Index, &bin.node.Domains, 1, 0)
	return true
}

// fill adds up to n pods of a share, one class after another, under all of the node's rules.
func (b *launcher) fill(bin *opening, sh *share, n int) {
	for i := range sh.members {
		m := &sh.members[i]
		if n > 0 && len(m.class.Pods) > 0 {
			got := bin.node.AddOn(m.class, m.st, min(n, len(m.class.Pods)), bin.offering)
			b.assign(bin, m.class, got)
			n -= got
		}
	}
}

// fillByMeanSize adds up to n pods of a share, as far as the offering's own type holds them, and
// returns how many did not fit. The answer knows only the mean size of the share's pods, so
// large and small ones alternate such that their sum stays close to what the answer reckons.
func (b *launcher) fillByMeanSize(bin *opening, sh *share, n int) (rest int) {
	ahead := 0.0 // by how many pods of mean size the sum exceeds what the answer reckons
	for ; n > 0 && sh.low <= sh.high; n-- {
		at, other := sh.low, sh.high
		if ahead > 0 {
			at, other = other, at
		}
		m := &sh.members[at]
		if !bin.holds(m.class) {
			if m = &sh.members[other]; !bin.holds(m.class) {
				return n
			}
		}
		if !b.put(bin, m) {
			return n
		}
		for d, v := range m.class.Need {
			if sh.size[d] > 0 {
				ahead += float64(v)/float64(sh.size[d]) - 1
			}
		}
		for sh.low <= sh.high && len(sh.members[sh.low].class.Pods) == 0 {
			sh.low++
		}
		for sh.low <= sh.high && len(sh.members[sh.high].class.Pods) == 0 {
			sh.high--
		}
	}
	return n
}

// put puts one pod of a class on a node that holds it, if what the class asks of labels leaves
// the node its offering. Whether rules between pods allow it is for the caller to check.
func (b *launcher) put(bin *opening, m *member) bool {
	if !bin.accept(m) {
		return false
	}
	bin.node.Used.AddN(m.class.Need, 1)
	b.assign(bin, m.class, 1)
	return true
}

// assign assigns n pods of the class to the node.
func (b *launcher) assign(bin *opening, c *model.PodClass, n int) {
	if n == 0 {
		return
	}
	if bin.index < 0 {
		bin.index = int32(len(b.state.Planned))
		b.state.Planned = append(b.state.Planned, bin.node)
	}
	c.Take(b.state.Assignments, n, model.Assignment{Kind: model.OnPlanned, Index: bin.index})
}

// take ends the opening of a node that has pods: it leaves the node the types that hold all of
// them, and takes from the pool's limits what the node may need.
func (b *launcher) take(bin *opening) {
	if bin.index < 0 || bin.taken {
		return
	}
	bin.taken, bin.node.IsEmpty = true, false
	bin.node.Types = slices.DeleteFunc(bin.node.Types, func(t int32) bool {
		tm := &bin.node.Pool.Types[t]
		return !model.RoomFor(tm.Free, bin.node.Used) || !bin.node.Offerings.AnyIn(tm.First, tm.End)
	})
	bin.node.RoomUnknown = true
	bin.node.Pool.TakeLimits(bin.node)
}

// admit places waiting pods one by one, as long as rules between pods allow any: of each class
// one pod for each share, which is one for each domain, and again.
func (b *launcher) admit(waiting []entry) {
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
	b.byClass(func(first, end int) bool { return b.turn(queues[first:end]) })
}

// byClass calls round with the shares of one class after another, again as long as it reports
// progress, and goes through all classes again as long as one of them had any. Shares are in
// the order of their classes.
func (b *launcher) byClass(round func(first, end int) (progress bool)) {
	for progress := true; progress; {
		progress = false
		for first := 0; first < len(b.shares); {
			end := first + 1
			for end < len(b.shares) && b.shares[end].members[0].class == b.shares[first].members[0].class {
				end++
			}
			for round(first, end) {
				progress = true
			}
			first = end
		}
	}
}

// queue is the waiting entries of one share.
type queue struct{ entries []*entry }

// turn places one pod of each queue of a class. It reports whether it placed any.
func (b *launcher) turn(queues []queue) (progress bool) {
	for i := range queues {
		q := &queues[i]
		for j, e := range q.entries {
			if b.assignOne(e.bin, &b.shares[e.share].members[0]) {
				if e.left--; e.left == 0 {
					q.entries = slices.Delete(q.entries, j, j+1)
				}
				progress = true
				break
			}
			// If the hostname does not matter, the other nodes of the domain will not do either.
			if b.hostname < 0 || !slices.Contains(b.shares[e.share].members[0].class.Keys, b.hostname) {
				break
			}
		}
	}
	return progress
}
