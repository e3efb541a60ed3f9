package disrupt

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// groups are changes that belong together, because one removes a machine that another
// bought or put pods on. Each becomes one step.
type groups struct {
	parent  []int32   // by change
	removed [][]int32 // by change that is its own parent: machines of the snapshot
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

// keep makes the change under way final, unless the step that it would be part of is
// larger than it may be, or would evict more pods at once than a PodDisruptionBudget lets
// it. One machine alone may: its drain waits for the budget.
func (c *consolidator) keep(mark int, hosts []int32) bool {
	self := c.groups.find(c.s.Change())
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
		if c.s.Node(int(h)) != nil {
			removed = append(removed, h)
		}
		join(c.s.Since(int(h)))
		for _, sh := range c.s.Added(int(h)) {
			join(sh.Change)
		}
	}
	if len(removed) > c.opts.StepMax || len(removed) > 1 && !c.guarded(removed) || !c.withinPools(removed) {
		return false
	}
	c.s.Keep(mark)
	for _, root := range roots {
		c.groups.parent[root], c.groups.removed[root] = self, nil
	}
	c.groups.removed[self] = removed
	return true
}

// guarded tells whether all pods of the machines may be evicted at once.
func (c *consolidator) guarded(hosts []int32) bool {
	if len(c.snap.Guards) == 0 {
		return true
	}
	evicted := map[int]int32{}
	for _, h := range hosts {
		for i := range c.snap.Nodes[h].Residents {
			for _, g := range c.snap.Nodes[h].Residents[i].Guards {
				if evicted[g]++; evicted[g] > c.snap.Guards[g].Allowed {
					return false
				}
			}
		}
	}
	return true
}

// withinPools tells whether one step may remove so many machines of each pool.
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
	remove []int32
	buy    []purchase
	moves  []pack.Move
	saving float64
	weight float64
}

type purchase struct {
	bin  int32
	pods []pack.Share
}

// makeSteps turns the groups into steps, each judged anew after those before it. What
// can't be done as it was found, because of rules between pods, is looked for once more.
func (c *consolidator) makeSteps() {
	drafts := c.drafts()
	c.s.Undo(0)
	c.rankStaying(drafts)
	for _, do := range []func(*draft) bool{c.follow, c.search} {
		for progress := true; progress && len(drafts) > 0; {
			progress = false
			var later []*draft
			for _, d := range drafts {
				mark := c.s.Begin()
				step, ok := c.take(d, mark, do)
				if !ok {
					c.s.Undo(mark)
					later = append(later, d)
					continue
				}
				c.s.Keep(mark)
				c.out.Steps = append(c.out.Steps, step)
				c.out.AfterHourly -= step.SavingHourly
				progress = true
			}
			drafts = later
		}
	}
}

// rankStaying lets only machines take pods that no draft removes.
func (c *consolidator) rankStaying(drafts []*draft) {
	goes := make([]bool, len(c.snap.Nodes))
	for _, d := range drafts {
		for _, h := range d.remove {
			goes[h] = true
		}
	}
	order := c.ranked(func(h int) bool { return !goes[h] })
	slices.Reverse(order)
	c.s.Rank(order)
}

// drafts gathers what each group does in the end, best first.
func (c *consolidator) drafts() []*draft {
	byRoot := map[int32]*draft{}
	var all []*draft
	for change, removed := range c.groups.removed {
		if len(removed) == 0 {
			continue
		}
		d := &draft{remove: slices.Sorted(slices.Values(removed))}
		for _, h := range d.remove {
			d.saving += c.s.Price(int(h))
			d.weight += c.weight[h]
		}
		byRoot[int32(change)] = d
		all = append(all, d)
	}
	for h := range c.s.Hosts() {
		if c.s.IsGone(h) {
			continue
		}
		if since := c.s.Since(h); since >= 0 {
			d := byRoot[c.groups.find(since)]
			d.buy = append(d.buy, purchase{c.s.Bin(h), slices.Clone(c.s.Added(h))})
			d.saving -= c.s.Price(h)
			continue
		}
		for _, sh := range c.s.Added(h) {
			if d := byRoot[c.groups.find(sh.Change)]; d != nil {
				d.moves = append(d.moves, pack.Move{Class: sh.Class, Host: int32(h), N: sh.N})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(b.saving/max(b.weight, 0.01), a.saving/max(a.weight, 0.01)), cmp.Compare(a.remove[0], b.remove[0]))
	})
	return all
}

// take removes the machines of a draft, finds places for their pods, and returns the step.
// It is false when there are none, or the step would not save enough.
func (c *consolidator) take(d *draft, mark int, do func(*draft) bool) (plan.Step, bool) {
	step := plan.Step{Reason: Underutilized}
	cost := 0.0
	for _, h := range d.remove {
		c.s.Remove(int(h))
		n := c.s.Node(int(h))
		step.Remove = append(step.Remove, plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: Underutilized})
		step.SavingHourly += c.s.Price(int(h))
		step.Evictions += len(n.Residents)
		cost += c.cost[h]
	}
	if step.Evictions == 0 {
		step.Reason = Empty
		for i := range step.Remove {
			step.Remove[i].Reason = Empty
		}
	}
	if !do(d) || c.s.AnyLoose() {
		return step, false
	}
	bought := c.s.Bought(mark)
	for _, h := range bought {
		step.SavingHourly -= c.s.Price(h)
	}
	if step.SavingHourly < cost || !c.balanced(d.remove, step.SavingHourly) {
		return step, false
	}
	spare := (step.SavingHourly - cost) / float64(max(1, len(bought)))
	for _, h := range bought {
		l, pools, ok := c.s.Launch(h, c.s.Price(h)+spare)
		if !ok || c.s.IsSpot(h) && pools < c.opts.SpotPools {
			return step, false
		}
		step.SavingHourly += c.s.Price(h) - l.PriceHourly
		step.Launch = append(step.Launch, l)
	}
	c.name(&step, d, bought, c.s.Moved(mark))
	return step, true
}

// follow does what the draft says. Rules between pods may ask for another order of the
// pods than that in which they were found, so it goes round as long as something is done.
func (c *consolidator) follow(d *draft) bool {
	todo := slices.Clone(d.moves)
	var bought []int
	for _, p := range d.buy {
		h, ok := c.s.Open(p.bin)
		if !ok {
			return false
		}
		bought = append(bought, h)
		for _, sh := range p.pods {
			todo = append(todo, pack.Move{Class: sh.Class, Host: int32(h), N: sh.N})
		}
	}
	for progress := true; progress; {
		progress = false
		for i := range todo {
			m := &todo[i]
			n := c.s.Put(m.Class, int(m.Host), min(m.N, c.s.Loose(m.Class)))
			m.N -= n
			progress = progress || n > 0
		}
	}
	for _, h := range bought {
		c.s.Close(h)
	}
	return true
}

// search looks for other places.
func (c *consolidator) search(d *draft) bool {
	if c.s.Settle() {
		return true
	}
	limit := 0.0
	for _, h := range d.remove {
		limit += c.s.Price(int(h)) - c.cost[h]
	}
	_, ok := c.s.Buy(limit)
	return ok
}

// name says which pods go where: pods of a class are alike.
func (c *consolidator) name(step *plan.Step, d *draft, bought []int, landed []pack.Move) {
	waiting := map[int32][]cluster.PodRef{}
	for _, h := range d.remove {
		residents := c.snap.Nodes[h].Residents
		for i := range residents {
			class := c.s.Class(residents[i].Shape)
			waiting[class] = append(waiting[class], residents[i].PodRef)
		}
	}
	next := func(class, n int32) []cluster.PodRef {
		pods := waiting[class][:n]
		waiting[class] = waiting[class][n:]
		return pods
	}
	for i, h := range bought {
		for _, sh := range c.s.Added(h) {
			step.Launch[i].Pods = append(step.Launch[i].Pods, next(sh.Class, sh.N)...)
		}
	}
	for _, m := range landed {
		n := c.s.Node(int(m.Host))
		for _, ref := range next(m.Class, m.N) {
			step.Moves = append(step.Moves, plan.Placement{Pod: ref, Node: n.Name, Claim: n.Claim})
		}
	}
}

// tellKept says why candidates stay.
func (c *consolidator) tellKept() {
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
		default:
			c.out.Kept = append(c.out.Kept, verdict.Of(verdict.Unconsolidatable, n.Name,
				"nothing was found that saves enough: it costs %.4f an hour, its pods are worth %.4f on new machines, and removing it must save %.4f",
				c.s.Price(h), c.s.Worth(h), c.cost[h]))
		}
	}
}
