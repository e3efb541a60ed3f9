package consolidate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/repack"
)

// take removes the nodes of a draft and returns the command. do finds nodes for their pods. take is
// false if a pod has none, or the command would not save enough.
func (c *consolidator) take(d *draft, mark int, do func(d *draft, mark int) bool) (step plan.Command, gain float64, ok bool) {
	step.Reason = plan.Underutilized
	if !c.opts.mayGo(c.snap, d.remove) {
		return step, 0, false
	}
	cost, pods, first := 0.0, 0, c.s.Nodes.Hosts()
	for _, h := range d.remove {
		c.s.Nodes.Remove(int(h))
		n := c.s.Nodes.Node(int(h))
		step.Remove = append(step.Remove, plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: plan.Underutilized})
		step.SavingHourly += c.s.Nodes.Price(int(h))
		step.Evictions += n.Evictions()
		pods += len(n.Reschedulable)
		cost += c.cost[h]
	}
	if pods == 0 {
		step.Reason = plan.Empty
		for i := range step.Remove {
			step.Remove[i].Reason = plan.Empty
		}
	}
	if !do(d, mark) || c.s.Nodes.AnyUnplaced() || !c.mayStock(mark, d.remove) {
		return step, 0, false
	}
	cost += c.gatherCost(mark, d.remove)
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
	step.CostHourly = cost
	c.name(&step, d, bought, c.s.Nodes.Moved(mark, first))
	return step, step.SavingHourly - cost, true
}

// accept makes a command final.
func (c *consolidator) accept(mark int, step plan.Command, gain float64) {
	c.s.Nodes.Keep(mark)
	c.out.Steps = append(c.out.Steps, step)
	c.out.AfterHourly -= step.SavingHourly
	c.gain += gain
}

// launch returns what to launch for a node of the session; false if nothing fits that may be
// launched.
func (c *consolidator) launch(h int, priceMax float64, typesMin int) (plan.Launch, bool) {
	if !c.s.Nodes.IsSpot(h) {
		typesMin = 0
	}
	l, pools, ok := c.s.Launch(h, priceMax, typesMin)
	return l, ok && (!c.s.Nodes.IsSpot(h) || pools >= c.opts.OfferingsMin)
}

// relaunch computes the launches of the nodes anew that earlier commands have launched (those before
// first), so that they hold what was put on them since. It is false, and changes nothing, if one
// cannot.
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

// name fills in which pods go where. The search only counts pods of a class, because they are alike.
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

// follow does what the draft says, unless other launches are cheaper.
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

// launchAlike launches the same nodes as the draft, with the same pods. Pods that the draft moves to
// existing nodes go to the launched ones if there is room: the free capacity of existing nodes is left
// for later commands.
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

// outcome returns what was launched and moved since the mark. There were first nodes then.
func (c *consolidator) outcome(mark, first int) *draft {
	d := &draft{moves: c.s.Nodes.Moved(mark, first)}
	for _, h := range c.s.Nodes.Launched(mark) {
		d.launches = append(d.launches, purchase{c.s.Nodes.Bin(h), slices.Clone(c.s.Nodes.Added(h))})
	}
	return d
}
