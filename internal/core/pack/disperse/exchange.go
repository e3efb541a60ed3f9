package disperse

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

const (
	// searchesBase and searchesPod bound how many pairs of a class and a node are compared: so many,
	// and for each pending pod so many more.
	searchesBase, searchesPod = 100_000, 200
	// atOnce is how many pods of one class are exchanged for one of another.
	atOnce = 4
)

// Board is the planned nodes, and how many pods of which class each holds.
type Board struct {
	state    *place.State
	size     []int32  // by class: how many pods the workload has; 0: it is not to be spread
	movable  []bool   // by class
	stays    []bool   // by class: a pod of it may not be evicted by our choice
	nodes    []node   // by planned node
	class    int32    // the class at hand
	here     []int32  // by planned node: how many of its pods
	domains  *domains // what domains have is kept, too; nil: it is not
	gathers  bool     // pods that stay are not moved back
	searches int
}

// node is a planned node. Its offering stays its cheapest whatever is exchanged.
type node struct {
	plan     *model.PlannedNode
	offering int
	typ      int32
	isFixed  bool // nothing on it is exchanged
	changed  bool
	held     []held
}

// held is n pods of a class on a node. kept of them were there before.
type held struct{ class, n, kept int32 }

// NewBoard returns the board of the planned nodes.
func NewBoard(s *place.State) *Board {
	x := &Board{state: s, size: sizes(s), movable: make([]bool, len(s.Classes)), stays: make([]bool, len(s.Classes)), nodes: make([]node, len(s.Planned)), here: make([]int32, len(s.Planned))}
	for c := range s.Classes {
		cl := &s.Classes[c]
		x.movable[c] = !cl.IsBuffer && !cl.TooLarge && len(cl.Constraints.Ports) == 0
	}
	for i, b := range s.Planned {
		x.nodes[i] = node{plan: b, offering: -1, isFixed: !b.Refusal.IsYes() || len(b.Minimum) > 0 || len(b.Types) == 0}
		if b.Refusal.IsYes() && len(b.Types) > 0 {
			x.nodes[i].typ, x.nodes[i].offering = cheapest(b)
			x.nodes[i].isFixed = x.nodes[i].isFixed || s.Model.Supplies != nil && drawsDiffer(b, b.Pool.Offerings[x.nodes[i].offering])
		}
	}
	of := s.ClassOf()
	for p, at := range s.Assignments {
		if at.Kind == model.OnPlanned {
			pod := &s.Model.Snapshot.Pending[p]
			c := of[pod.Constraints]
			x.nodes[at.Index].of(int32(c)).n++
			x.stays[c] = x.stays[c] || pod.DoNotDisrupt
		}
	}
	x.searches = searchesBase + searchesPod*len(s.Assignments)
	return x
}

// cheapest returns the cheapest type of a node, and its cheapest offering.
func cheapest(b *model.PlannedNode) (typ int32, offering int) {
	typ, offering = b.Cheapest(), -1
	tm := &b.Pool.Types[typ]
	for a := tm.First; a < tm.End; a++ {
		if b.Offerings.Has(a) && (offering < 0 || b.Pool.Offerings[a].Cost() < b.Pool.Offerings[offering].Cost()) {
			offering = a
		}
	}
	return typ, offering
}

// drawsDiffer reports whether a node has another offering as cheap as its cheapest one that draws something else on
// supplies. Which of them is launched could depend on what is exchanged.
func drawsDiffer(b *model.PlannedNode, cheapest *catalog.Offering) bool {
	for _, t := range b.Types {
		for a := b.Pool.Types[t].First; a < b.Pool.Types[t].End; a++ {
			if o := b.Pool.Offerings[a]; b.Offerings.Has(a) && o.Cost() <= cheapest.Cost() && !slices.Equal(o.Draws, cheapest.Draws) {
				return true
			}
		}
	}
	return false
}

// of returns what the node holds of a class.
func (n *node) of(class int32) *held {
	for i := range n.held {
		if n.held[i].class == class {
			return &n.held[i]
		}
	}
	n.held = append(n.held, held{class: class})
	return &n.held[len(n.held)-1]
}

// count returns how many pods of a class the node holds.
func (n *node) count(class int32) int32 {
	for i := range n.held {
		if n.held[i].class == class {
			return n.held[i].n
		}
	}
	return 0
}

// Balance exchanges pods between nodes, so that no node has more pods of a workload than it should,
// as far as that costs nothing.
func (x *Board) Balance() {
	for c := range x.size {
		if x.size[c] < 2 || !x.movable[c] {
			continue
		}
		limit := Limit(x.size[c])
		x.class = int32(c)
		any := false
		for i := range x.nodes {
			x.here[i] = x.nodes[i].count(int32(c))
			any = any || x.here[i] > limit
		}
		for i := 0; any && i < len(x.nodes); i++ {
			x.relieve(int32(c), i, limit)
		}
	}
	x.finish()
}

// relieve moves pods of the class at hand off a node that has more than limit.
func (x *Board) relieve(c int32, i int, limit int32) {
	if x.nodes[i].isFixed {
		return
	}
	for d := 1; d < len(x.nodes) && x.here[i] > limit; d++ {
		j := (i + d) % len(x.nodes)
		for x.here[i] > limit && x.here[j] < limit && x.searches > 0 && x.pass(c, i, j, min(x.here[i]-limit, limit-x.here[j])) {
		}
	}
}

// pass moves pods of a class from one node to another, most of them at most, and others back if room is needed. It
// reports whether it did.
func (x *Board) pass(c int32, i, j int, most int32) bool {
	x.searches--
	if x.nodes[j].isFixed || !x.alike(c, i, j) || !x.admits(c, j) {
		return false
	}
	if x.fits(j, c, 1, -1, 0) {
		x.move(c, i, j, 1)
		return true
	}
	most = min(most, atOnce)
	for h := range x.nodes[j].held {
		u := x.nodes[j].held[h].class
		x.searches--
		x.state.Model.Meter.Spend(1)
		if u == c || x.nodes[j].held[h].n == 0 || !x.movable[u] || x.gathers && x.stays[u] || !x.alike(u, i, j) || !x.admits(u, i) {
			continue
		}
		back := min(x.nodes[j].held[h].n, atOnce)
		if x.domains != nil {
			back = min(back, x.domains.room(u, i, j))
		}
		if x.size[u] > 1 {
			back = min(back, Limit(x.size[u])-x.nodes[i].count(u))
		}
		for m := int32(1); m <= back && x.fits(i, u, m, c, 1); m++ {
			if x.fits(j, c, 1, u, m) {
				x.move(c, i, j, 1)
				x.move(u, j, i, m)
				return true
			}
		}
		for k := int32(2); back > 0 && k <= most && x.fits(j, c, k, u, 1); k++ {
			if x.fits(i, u, 1, c, k) {
				x.move(c, i, j, k)
				x.move(u, j, i, 1)
				return true
			}
		}
	}
	return false
}

// alike reports whether it makes no difference to rules between pods on which of two nodes a pod of
// the class is.
func (x *Board) alike(c int32, i, j int) bool {
	keys := x.state.Classes[c].Keys
	if len(keys) == 0 {
		return true
	}
	a, b := &x.nodes[i].plan.Domains, &x.nodes[j].plan.Domains
	if !slices.Equal(a.Counts, b.Counts) || !slices.Equal(a.Doubt, b.Doubt) {
		return false
	}
	for _, k := range keys {
		if a.Domain[k] < 0 || a.Domain[k] != b.Domain[k] {
			return false
		}
	}
	return true
}

// admits reports whether a node may keep its offering with pods of the class, all preferences met.
func (x *Board) admits(c int32, j int) bool {
	n, cl := &x.nodes[j], &x.state.Classes[c]
	_, ok := term(n, cl)
	return ok && (!cl.Stages[0].AvoidPreferNoSchedule || !fit.Undesired(cl.Constraints.Tolerations, n.plan.Pool.NodePool.Taints))
}

// term returns the term of the class under which the node keeps its offering.
func term(n *node, cl *model.PodClass) (*model.AdmittedTerm, bool) {
	in := &cl.Stages[0].Admitted[n.plan.PoolIndex]
	if !in.Refusal.IsYes() {
		return nil, false
	}
	for t := range in.Terms {
		if !in.Terms[t].Offerings.Has(n.offering) {
			continue
		}
		if len(in.Terms[t].Open) > 0 {
			if _, conflict := n.plan.Open.Conflict(in.Terms[t].Open); conflict {
				return nil, false
			}
		}
		return &in.Terms[t], true
	}
	return nil, false
}

// fits reports whether the node's cheapest type has room for n more pods of a class without m pods
// of another; -1: of none.
func (x *Board) fits(j int, class, n, other, m int32) bool {
	b := x.nodes[j].plan
	free, need := b.Pool.Types[x.nodes[j].typ].Free, x.state.Classes[class].Need
	for d, v := range need {
		if v <= 0 {
			continue
		}
		used := b.Used[d] + int64(n)*v
		if other >= 0 {
			used -= int64(m) * x.state.Classes[other].Need[d]
		}
		if used > free[d] {
			return false
		}
	}
	return true
}

// move moves n pods of a class from one node to another.
func (x *Board) move(c int32, i, j int, n int32) {
	from, to, cl := &x.nodes[i], &x.nodes[j], &x.state.Classes[c]
	if to.count(c) == 0 {
		if t, ok := term(to, cl); ok {
			to.plan.Offerings.And(t.Offerings)
			to.plan.Require(t)
		}
	}
	if x.domains != nil {
		x.domains.move(c, i, j, n)
	}
	from.of(c).n -= n
	to.of(c).n += n
	from.plan.Used.AddN(cl.Need, -int64(n))
	to.plan.Used.AddN(cl.Need, int64(n))
	from.changed, to.changed = true, true
	if c == x.class {
		x.here[i], x.here[j] = x.nodes[i].count(c), x.nodes[j].count(c)
	}
}

// finish assigns pods as the nodes hold them now, and leaves each node the types that hold its pods.
func (x *Board) finish() {
	surplus := make([][]int32, len(x.size))
	for i := range x.nodes {
		for h := range x.nodes[i].held {
			x.nodes[i].held[h].kept = 0
		}
	}
	of := x.state.ClassOf()
	for p, at := range x.state.Assignments {
		if at.Kind != model.OnPlanned || !x.nodes[at.Index].changed {
			continue
		}
		c := int32(of[x.state.Model.Snapshot.Pending[p].Constraints])
		if h := x.nodes[at.Index].of(c); h.kept < h.n {
			h.kept++
		} else {
			surplus[c] = append(surplus[c], int32(p))
		}
	}
	for i := range x.nodes {
		n := &x.nodes[i]
		if !n.changed {
			continue
		}
		for _, h := range n.held {
			for range h.n - h.kept {
				x.state.Assignments[surplus[h.class][0]] = model.Assignment{Kind: model.OnPlanned, Index: int32(i)}
				surplus[h.class] = surplus[h.class][1:]
			}
		}
		b := n.plan
		b.Types = slices.DeleteFunc(b.Types, func(t int32) bool {
			tm := &b.Pool.Types[t]
			return !model.RoomFor(tm.Free, b.Used) || !b.Offerings.AnyIn(tm.First, tm.End)
		})
		b.RoomUnknown = true
	}
}

// IsOver reports whether a node has more pods of a workload than it should.
func (x *Board) IsOver() bool {
	for i := range x.nodes {
		for _, h := range x.nodes[i].held {
			if x.size[h.class] > 1 && h.n > Limit(x.size[h.class]) {
				return true
			}
		}
	}
	return false
}

// Cap limits how many pods of each workload one new node may have: to one in so many.
func (x *Board) Cap(classes []model.PodClass, share int32) {
	for c := range classes {
		if x.size[c] > 1 {
			classes[c].PerNode = int(limitOf(x.size[c], share))
		}
	}
}

// Loss returns the largest shares of workloads that are lost at once, and what the nodes cost that are
// launched as spot.
func (x *Board) Loss() (l plan.Loss, spotHourly float64) {
	counts := map[classDomain]int32{}
	for i := range x.nodes {
		n := &x.nodes[i]
		if n.offering < 0 {
			continue
		}
		o := n.plan.Pool.Offerings[n.offering]
		isSpot := o.CapacityType == label.Spot
		if isSpot && o.HasPrice() {
			spotHourly += o.Price()
		}
		for _, h := range n.held {
			if x.size[h.class] < ReportedMin {
				continue
			}
			l.Node = max(l.Node, float64(h.n)/float64(x.size[h.class]))
			counts[classDomain{h.class, domain{zone: o.Zone}}] += h.n
			if isSpot {
				counts[classDomain{h.class, domain{o.Zone, n.plan.Pool.Types[n.typ].Name}}] += h.n
			}
		}
	}
	for at, n := range counts {
		most := &l.Zone
		if at.typ != "" {
			most = &l.SpotOffering
		}
		*most = max(*most, float64(n)/float64(x.size[at.class]))
	}
	return l, spotHourly
}

// classDomain is a domain that has pods of a class.
type classDomain struct {
	class int32
	domain
}
