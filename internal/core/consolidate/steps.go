package consolidate

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/repack"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// groups are changes that belong together, because one removes a node that another
// bought or put pods on. Each becomes one step.
type groups struct {
	parent  []int32   // by change
	removed [][]int32 // by change that is its own parent: nodes of the snapshot
}

// forget makes each change one that is alone.
func (g *groups) forget() {
	g.parent, g.removed = g.parent[:0], g.removed[:0]
}

func (g *groups) find(change int32) int32 {
	for int(change) >= len(g.parent) {
		g.parent, g.removed = append(g.parent, int32(len(g.parent))), append(g.removed, nil)
	}
	for g.parent[change] != change {
		g.parent[change] = g.parent[g.parent[change]]
		change = g.parent[change]
	}
	return change
}

// keep makes the change under way final, and one with those that it builds on; where steps
// were too large before, unless they are more than one step may do together.
func (c *consolidator) keep(mark int, hosts []int32) bool {
	self := c.groups.find(c.s.Nodes.Change())
	roots, removed := []int32{self}, []int32(nil)
	join := func(change int32) {
		if change < 0 {
			return
		}
		if root := c.groups.find(change); !slices.Contains(roots, root) {
			roots = append(roots, root)
			removed = append(removed, c.groups.removed[root]...)
		}
	}
	for _, h := range hosts {
		if c.s.Nodes.Node(int(h)) != nil {
			removed = append(removed, h)
		}
		join(c.s.Nodes.Since(int(h)))
		for _, sh := range c.s.Nodes.Added(int(h)) {
			join(sh.Change)
		}
	}
	for _, h := range c.s.Nodes.Stocked(mark) {
		if h >= c.bought {
			join(c.s.Nodes.Since(h))
		}
	}
	if c.limited && !c.mayGo(removed) || !c.mayStock(mark, removed) || c.spotIn(roots) > c.spotMost(removed) {
		return false
	}
	if len(c.snap.Nodes) <= manyNodes {
		c.s.Rescheduler.Admit(mark)
	}
	c.s.Nodes.Keep(mark)
	for _, root := range roots {
		c.groups.parent[root], c.groups.removed[root] = self, nil
	}
	c.groups.removed[self] = removed
	return true
}

// mayStock reports whether the nodes may go if something was bought for them since the mark.
func (c *consolidator) mayStock(mark int, hosts []int32) bool {
	return c.opts.Replaceable == nil || len(c.s.Nodes.Stocked(mark)) == 0 ||
		!slices.ContainsFunc(hosts, func(h int32) bool { return !c.replaceable(int(h)).IsYes() })
}

// withinPodBudgets reports whether all pods of the nodes may be evicted at once.
func (c *consolidator) withinPodBudgets(hosts []int32) bool {
	if len(c.snap.PDBs) == 0 {
		return true
	}
	evicted := map[int]int32{}
	for _, h := range hosts {
		for i := range c.snap.Nodes[h].Reschedulable {
			for _, g := range c.snap.Nodes[h].Reschedulable[i].PDBs {
				if evicted[g]++; evicted[g] > c.snap.PDBs[g].Allowed {
					return false
				}
			}
		}
	}
	return true
}

// withinPools reports whether one step may remove so many nodes of each pool.
func (c *consolidator) withinPools(hosts []int32) bool {
	if c.opts.PoolMax == nil {
		return true
	}
	count := map[string]int{}
	for _, h := range hosts {
		pool := c.snap.Nodes[h].Pool
		if count[pool]++; count[pool] > c.opts.PoolMax(pool) {
			return false
		}
	}
	return true
}

// draft is a step while it is put together.
type draft struct {
	remove   []int32
	launches []purchase
	moves    []repack.Move
	saving   float64
	weight   float64
}

type purchase struct {
	bin  int32
	pods []repack.Share
}

// makeSteps turns drafts into commands, each judged anew after those before it. What can't be
// done as it was found is looked for once more: because of rules between pods, or because
// it is too large for one step. That is done in parts, halved until they save enough. It
// reports whether all nodes of the drafts go.
func (c *consolidator) makeSteps(drafts []*draft) (all bool) {
	c.rankStaying(drafts)
	rest := c.takeAll(drafts, c.follow)
	for i, d := range rest {
		rest[i] = c.execute(d)
	}
	c.s.Rescheduler.Probe()
	for parts := c.parts(rest); len(parts) > 0; parts = halves(rest) {
		rest = c.takeAll(parts, c.searchAnew)
	}
	for _, d := range drafts {
		if slices.ContainsFunc(d.remove, func(h int32) bool { return !c.s.Nodes.IsGone(int(h)) }) {
			return false
		}
	}
	return true
}

// takeAll makes steps of drafts, and returns those of which it can't. One may need what
// others free, so it goes round as long as something is done.
func (c *consolidator) takeAll(drafts []*draft, do func(d *draft, mark int) bool) []*draft {
	for progress := true; progress; {
		progress = false
		var later []*draft
		for _, d := range drafts {
			mark := c.s.Nodes.Begin()
			step, gain, ok := c.take(d, mark, do)
			if !ok {
				c.s.Nodes.Undo(mark)
				later = append(later, d)
				continue
			}
			c.accept(mark, step, gain)
			c.s.Rescheduler.Admit(mark)
			progress = true
		}
		drafts = later
	}
	return drafts
}

// accept makes a step final.
func (c *consolidator) accept(mark int, step plan.Command, gain float64) {
	c.s.Nodes.Keep(mark)
	c.out.Steps = append(c.out.Steps, step)
	c.out.AfterHourly -= step.SavingHourly
	c.gain += gain
}

// parts sorts the nodes of drafts into as few parts as one step each may remove, worst
// first.
func (c *consolidator) parts(drafts []*draft) []*draft {
	var parts []*draft
	for _, d := range drafts {
		from := len(parts)
		order := c.ranked(c.s.Worth, func(h int) bool { _, is := slices.BinarySearch(d.remove, int32(h)); return is })
		if c.noise%2 == 1 {
			slices.Reverse(order)
		}
		for _, h := range order {
			k := max(from, len(parts)-partsOpen)
			for k < len(parts) && !c.mayGo(append(parts[k].remove, h)) {
				k++
			}
			if k == len(parts) {
				parts = append(parts, &draft{})
			}
			parts[k].remove = append(parts[k].remove, h)
		}
	}
	return parts
}

// halves cuts drafts of several nodes in two.
func halves(drafts []*draft) []*draft {
	var out []*draft
	for _, d := range drafts {
		if n := len(d.remove); n > 1 {
			out = append(out, &draft{remove: d.remove[:n/2]}, &draft{remove: d.remove[n/2:]})
		}
	}
	return out
}

// mayGo reports whether one step may remove the nodes: they are not too many, of no pool
// either, and it would not evict more pods at once than a PodDisruptionBudget lets it. One
// node alone may: its drain waits for the budget.
func (c *consolidator) mayGo(hosts []int32) bool {
	return len(hosts) <= c.opts.StepMax && (len(hosts) < 2 || c.withinPodBudgets(hosts)) && c.withinPools(hosts)
}

// rankStaying lets only nodes take pods that no draft removes.
func (c *consolidator) rankStaying(drafts []*draft) {
	goes := make([]bool, c.s.Nodes.Hosts())
	for _, d := range drafts {
		for _, h := range d.remove {
			goes[h] = true
		}
	}
	order := c.ranked(c.s.Room, func(h int) bool { return !goes[h] })
	slices.Reverse(order)
	c.s.Rescheduler.Rank(order)
}

// drafts gathers what each group does in the end, best first.
func (c *consolidator) drafts() (all []*draft) {
	byRoot := map[int32]*draft{}
	for change, removed := range c.groups.removed {
		if len(removed) == 0 {
			continue
		}
		d := &draft{remove: slices.Sorted(slices.Values(removed))}
		for _, h := range d.remove {
			d.saving += c.s.Nodes.Price(int(h))
			d.weight += c.weight[h]
		}
		byRoot[int32(change)] = d
		all = append(all, d)
	}
	for h := range c.s.Nodes.Hosts() {
		if c.s.Nodes.IsGone(h) {
			continue
		}
		if since := c.s.Nodes.Since(h); h >= c.bought {
			if d := byRoot[c.groups.find(since)]; d != nil {
				d.launches = append(d.launches, purchase{c.s.Nodes.Bin(h), slices.Clone(c.s.Nodes.Added(h))})
				d.saving -= c.s.Nodes.Price(h)
			}
			continue
		}
		for _, sh := range c.s.Nodes.Added(h) {
			if d := byRoot[c.groups.find(sh.Change)]; d != nil {
				d.moves = append(d.moves, repack.Move{Class: sh.Class, Host: int32(h), N: sh.N})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(b.saving/max(b.weight, 0.01), a.saving/max(a.weight, 0.01)), cmp.Compare(a.remove[0], b.remove[0]))
	})
	return all
}

// take removes the nodes of a draft, finds places for their pods, and returns the step.
// It is false when there are none, or the step would not save enough.
func (c *consolidator) take(d *draft, mark int, do func(d *draft, mark int) bool) (step plan.Command, gain float64, ok bool) {
	step.Reason = plan.Underutilized
	if !c.mayGo(d.remove) {
		return step, 0, false
	}
	cost, first := 0.0, c.s.Nodes.Hosts()
	for _, h := range d.remove {
		c.s.Nodes.Remove(int(h))
		n := c.s.Nodes.Node(int(h))
		step.Remove = append(step.Remove, plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: plan.Underutilized})
		step.SavingHourly += c.s.Nodes.Price(int(h))
		step.Evictions += len(n.Reschedulable)
		cost += c.cost[h]
	}
	if step.Evictions == 0 {
		step.Reason = plan.Empty
		for i := range step.Remove {
			step.Remove[i].Reason = plan.Empty
		}
	}
	if !do(d, mark) || c.s.Nodes.AnyUnplaced() || !c.mayStock(mark, d.remove) {
		return step, 0, false
	}
	bought, spot := c.s.Nodes.Launched(mark), 0
	for _, h := range bought {
		step.SavingHourly -= c.s.Nodes.Price(h)
		if c.s.Nodes.IsSpot(h) {
			spot++
		}
	}
	if step.SavingHourly < cost || spot > c.spotMost(d.remove) || !c.balanced(d.remove, step.SavingHourly) {
		return step, 0, false
	}
	surplus, typesMin := (step.SavingHourly-cost)/float64(max(1, len(bought))), c.typesMin(d.remove)
	for i, h := range bought {
		l := plan.Launch{PriceHourly: c.s.Nodes.Price(h)}
		if !c.late || c.s.Nodes.IsSpot(h) {
			if l, ok = c.launch(h, c.s.Nodes.Price(h)+surplus, typesMin); !ok {
				c.fewTypes[d.remove[0]] = typesMin > 0
				return step, 0, false
			}
		}
		step.SavingHourly += c.s.Nodes.Price(h) - l.PriceHourly
		step.Launch = append(step.Launch, l)
		c.launched[h] = launched{len(c.out.Steps), i, c.s.Nodes.Price(h) + surplus, typesMin}
	}
	if !c.inStages && !c.relaunch(c.s.Nodes.Stocked(mark), first) {
		return step, 0, false
	}
	c.name(&step, d, bought, c.s.Nodes.Moved(mark, first))
	return step, step.SavingHourly - cost, true
}

// launched is a launch of a step, both by their index, and what it may cost.
type launched struct {
	step, at int
	priceMax float64
	typesMin int
}

// launch returns what is to be bought for a node; false where that is nothing that may be
// bought.
func (c *consolidator) launch(h int, priceMax float64, typesMin int) (plan.Launch, bool) {
	if !c.s.Nodes.IsSpot(h) {
		typesMin = 0
	}
	l, pools, ok := c.s.Launch(h, priceMax, typesMin)
	return l, ok && (!c.s.Nodes.IsSpot(h) || pools >= c.opts.SpotPools)
}

// relaunch has launches of earlier steps hold what was put on the nodes, of those that
// come before first. It is false, and nothing changes, where one can't.
func (c *consolidator) relaunch(hosts []int, first int) bool {
	slices.Sort(hosts)
	hosts = slices.DeleteFunc(slices.Compact(hosts), func(h int) bool { return h >= first })
	anew := make([]plan.Launch, len(hosts))
	for i, h := range hosts {
		var ok bool
		if anew[i], ok = c.launch(h, c.launched[h].priceMax, c.launched[h].typesMin); !ok {
			return false
		}
	}
	for i, h := range hosts {
		at := c.launched[h]
		step, l := &c.out.Steps[at.step], anew[i]
		had := &step.Launch[at.at]
		l.Pods = had.Pods
		step.SavingHourly -= l.PriceHourly - had.PriceHourly
		c.out.AfterHourly += l.PriceHourly - had.PriceHourly
		c.gain -= l.PriceHourly - had.PriceHourly
		*had = l
	}
	return true
}

// follow does what the draft says, but for buying better.
func (c *consolidator) follow(d *draft, _ int) bool {
	todo := slices.Clone(d.moves)
	c.s.Rescheduler.PutAll(todo)
	price := 0.0
	for _, p := range d.launches {
		price += c.s.Inventory.PriceOf(p.bin)
	}
	if len(d.launches) > 1 && c.s.Launcher.LaunchMany(price-leastSaving) {
		return true
	}
	return c.launchAlike(d, todo)
}

// launchAlike buys what the draft does, and puts the pods where they are there. Pods that move
// go to what is bought if there is room: what others have free is left for later steps.
func (c *consolidator) launchAlike(d *draft, moves []repack.Move) bool {
	var bought []int
	var todo []repack.Move
	for _, p := range d.launches {
		h, ok := c.s.Nodes.Open(p.bin)
		if !ok {
			return false
		}
		bought = append(bought, h)
		for _, sh := range p.pods {
			todo = append(todo, repack.Move{Class: sh.Class, Host: int32(h), N: sh.N})
		}
	}
	c.s.Rescheduler.PutAll(todo)
	for _, h := range bought {
		for i := range moves {
			m := &moves[i]
			m.N -= c.s.Rescheduler.Put(m.Class, h, min(m.N, c.s.Nodes.Unplaced(m.Class)))
		}
	}
	c.s.Rescheduler.PutAll(append(moves, todo...))
	for _, h := range bought {
		c.s.Nodes.Close(h)
	}
	return true
}

// searchAnew looks for other places.
func (c *consolidator) searchAnew(d *draft, mark int) bool {
	if c.s.Rescheduler.Reschedule() || c.opts.DrainOnly {
		return true
	}
	limit, first := 0.0, c.s.Nodes.Hosts()
	for _, h := range d.remove {
		limit += c.s.Nodes.Price(int(h)) - c.cost[h]
	}
	if c.s.Launcher.LaunchMany(limit) {
		return c.redo(d, mark, first)
	}
	if _, ok := c.s.Launcher.LaunchFor(limit); !ok {
		return false
	}
	c.s.Rescheduler.Admit(mark)
	c.windows(roundsMax, func(h int) bool { return h >= first }, func(hosts []int32) bool {
		mark := c.s.Nodes.Begin()
		gains := c.swap(mark, hosts)
		if gains {
			c.s.Rescheduler.Admit(mark)
		}
		return gains
	})
	return c.redo(d, mark, first)
}

// redo does at once what was found little by little since the mark, as far as rules between
// pods let it.
func (c *consolidator) redo(d *draft, mark, first int) bool {
	once := c.outcome(mark, first)
	c.s.Nodes.Undo(mark)
	for _, h := range d.remove {
		c.s.Nodes.Remove(int(h))
	}
	return c.launchAlike(once, once.moves)
}

// outcome returns what was bought and moved since the mark, when so many nodes there were.
func (c *consolidator) outcome(mark, first int) *draft {
	d := &draft{moves: c.s.Nodes.Moved(mark, first)}
	for _, h := range c.s.Nodes.Launched(mark) {
		d.launches = append(d.launches, purchase{c.s.Nodes.Bin(h), slices.Clone(c.s.Nodes.Added(h))})
	}
	return d
}

// name says which pods go where: pods of a class are alike.
func (c *consolidator) name(step *plan.Command, d *draft, bought []int, landed []repack.Move) {
	waiting := map[int32][]cluster.PodRef{}
	for _, h := range d.remove {
		reschedulable := c.snap.Nodes[h].Reschedulable
		for i := range reschedulable {
			class := c.s.Inventory.Class(reschedulable[i].Constraints)
			waiting[class] = append(waiting[class], reschedulable[i].PodRef)
		}
	}
	next := func(class, n int32) []cluster.PodRef {
		pods := waiting[class][:n]
		waiting[class] = waiting[class][n:]
		return pods
	}
	for i, h := range bought {
		for _, sh := range c.s.Nodes.Added(h) {
			step.Launch[i].Pods = append(step.Launch[i].Pods, next(sh.Class, sh.N)...)
		}
	}
	for _, m := range landed {
		n, at := c.s.Nodes.Node(int(m.Host)), c.launched[int(m.Host)]
		for _, ref := range next(m.Class, m.N) {
			if n == nil {
				step.Joins = append(step.Joins, plan.Join{Pod: ref, Command: at.step, Launch: at.at})
				continue
			}
			step.Moves = append(step.Moves, plan.Assignment{Pod: ref, Node: n.Name, Claim: n.Claim})
		}
	}
}

// noteKept says why candidates stay.
func (c *consolidator) noteKept() {
	gone := map[string]bool{}
	for i := range c.out.Steps {
		for _, r := range c.out.Steps[i].Remove {
			gone[r.Node] = true
		}
	}
	for h := range c.snap.Nodes {
		n := &c.snap.Nodes[h]
		switch {
		case gone[n.Name]:
		case !c.why[h].IsYes():
			if c.why[h].Subject != "" {
				c.out.Kept = append(c.out.Kept, c.why[h])
			}
		case math.IsNaN(c.cost[h]):
		case !c.replaceable(h).IsYes():
			c.out.Kept = append(c.out.Kept, c.replaceable(h))
		case !c.spotStays(h).IsYes():
			c.out.Kept = append(c.out.Kept, c.spotStays(h))
		default:
			c.out.Kept = append(c.out.Kept, verdict.Of(verdict.Unconsolidatable, n.Name,
				"nothing was found that saves enough: it costs %.4f an hour, its pods are worth %.4f on new machines, and removing it must save %.4f",
				c.s.Nodes.Price(h), c.s.Worth(h), c.cost[h]))
		}
	}
}
