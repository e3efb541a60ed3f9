package place

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// placeSingly places the pods of a class one after another.
func (s *State) placeSingly(c *model.PodClass, st *model.Stage) {
	for len(c.Pods) > 0 {
		at, ok := s.placeOne(c, st)
		if !ok {
			return
		}
		c.Take(s.Assignments, 1, at)
	}
}

// placeOne places one pod of the class on an existing node, on a planned one, or on a new one.
func (s *State) placeOne(c *model.PodClass, st *model.Stage) (model.Assignment, bool) {
	if at, ok := s.PlaceOneOnExisting(c, st); ok {
		return at, true
	}
	for i, b := range s.Planned {
		if b.Refusal.IsYes() && s.PlaceOneOnPlanned(b, c, st) {
			return model.Assignment{Kind: model.OnPlanned, Index: int32(i)}, true
		}
	}
	if b := s.OpenNode(c, st, func(b *model.PlannedNode) bool { return s.PlaceOneOnPlanned(b, c, st) }); b != nil {
		return model.Assignment{Kind: model.OnPlanned, Index: int32(len(s.Planned) - 1)}, true
	}
	return model.Assignment{}, false
}

// PlaceOneOnPlanned places one pod of the class on a planned node, after it has decided the
// domains of the node that matter for the pod. It reports whether it could.
func (s *State) PlaceOneOnPlanned(b *model.PlannedNode, c *model.PodClass, st *model.Stage) bool {
	in := &st.Admitted[b.PoolIndex]
	if c.Waits || b.IsFull(c) || !in.Refusal.IsYes() || st.AvoidPreferNoSchedule && fit.Undesired(c.Constraints.Tolerations, b.Pool.NodePool.Taints) ||
		len(c.Constraints.Ports) > 0 && !model.PortsFree(s.Model.Meter, c.Constraints.Ports, b.Ports) {
		return false
	}
	if b.DaemonSetPods.Determined {
		if v := s.Topology.Check(c, st, &b.Domains); !v.IsYes() {
			c.LastMiss = v
			return false
		}
	}
	try := trial{state: s, node: b, class: c, stage: st}
	for i := range in.Terms {
		t := &in.Terms[i]
		if !b.Scratch.Intersection(b.Offerings, t.Offerings) {
			continue
		}
		offerings := b.Scratch.Clone()
		try.term = t
		if b.DaemonSetPods.Determined {
			if try.determine(offerings, c.Keys, nil) {
				return true
			}
			continue
		}
		for _, way := range s.Topology.daemonSetChoices(b, offerings) {
			s.Topology.determineDaemonSets(b, way)
			if try.determine(way.offerings, c.Keys, nil) {
				return true
			}
			s.Topology.forgetDaemonSets(b)
		}
	}
	return false
}

// trial is an attempt to put one pod on a planned node under one term of its class.
type trial struct {
	state *State
	node  *model.PlannedNode
	class *model.PodClass
	stage *model.Stage
	term  *model.AdmittedTerm
}

// determine chooses a domain for each of the keys that is still open, tries the best first, and
// places the pod when none is open. offerings are those that the choices leave, and pins is what
// was chosen so far.
func (t *trial) determine(offerings model.Bitset, keys []int, pins label.Requirements) bool {
	s, b, c, st := t.state, t.node, t.class, t.stage
	for len(keys) > 0 && b.Domains.Domain[keys[0]] != topology.Open {
		keys = keys[1:]
	}
	if len(keys) == 0 {
		return t.add(offerings, pins)
	}
	k := keys[0]
	key := s.Topology.Ledger.Keys()[k]
	choices := b.Pool.Choices(key, offerings, b.Open[key].Values())
	if len(choices) == 0 {
		// The node will not have the label at all.
		s.Topology.setDomain(b, k, topology.None)
		if s.Topology.Check(c, st, &b.Domains).IsYes() && t.determine(offerings, keys[1:], pins) {
			return true
		}
		s.Topology.setDomain(b, k, topology.Open)
		return false
	}
	for i := range choices {
		choices[i].Domain = s.Topology.Ledger.Domain(k, choices[i].Value)
		choices[i].Appeal = s.Topology.Ledger.Appeal(c.Index, k, choices[i].Domain)
	}
	slices.SortFunc(choices, func(x, y model.DomainChoice) int {
		return cmp.Or(cmp.Compare(x.Appeal, y.Appeal), cmp.Compare(x.Price, y.Price), cmp.Compare(x.Value, y.Value))
	})
	left := model.NewBitset(len(b.Pool.Offerings))
	for _, ch := range choices {
		s.Topology.setDomain(b, k, ch.Domain)
		if v := s.Topology.Check(c, st, &b.Domains); !v.IsYes() {
			c.LastMiss = v
			continue
		}
		if st.RespectSpread && !s.Topology.daemonSetsMayStay(b) {
			continue
		}
		copy(left, offerings)
		if ch.Offerings != nil {
			left.And(ch.Offerings)
		}
		if t.determine(left.Clone(), keys[1:], pins.With(key, label.In(ch.Value))) {
			return true
		}
	}
	s.Topology.setDomain(b, k, topology.Open)
	return false
}

// add places the pod, with all its domains decided.
func (t *trial) add(offerings model.Bitset, pins label.Requirements) bool {
	s, b, c, st := t.state, t.node, t.class, t.stage
	if v := s.Topology.Check(c, st, &b.Domains); !v.IsYes() {
		c.LastMiss = v
		return false
	}
	if _, conflict := b.Open.Conflict(pins); conflict {
		return false
	}
	copy(b.Scratch, offerings)
	if b.AddWithin(c, t.term, 1) == 0 {
		return false
	}
	if len(pins) > 0 {
		b.Requirements = append(b.Requirements, pins)
		b.Open = b.Open.Intersect(pins)
		s.Topology.CountSpreads(b)
	}
	b.IsCounted = b.IsCounted && len(pins) == 0
	s.Topology.MakePresent(b)
	s.Topology.Ledger.Count(c.Index, &b.Domains, 1, 0)
	return true
}

// FirstFitMax is up to how many pods first-fit-decreasing is tried where rules require it pod by
// pod. For more pods, in every scenario tried, it takes long and its plan is dearer.
//
// It is the second one in the core. core/cover packs problems by first-fit-decreasing too
// (cover/firstfit.go), without any rules between pods, so its answer there is only a limit on
// the price.
const FirstFitMax = 3000

// awaits reports whether pods of the class must be with pods of another class of which some are
// unplaced.
func (s *State) awaits(c int) bool {
	if !s.Topology.Ledger.Follows(c) {
		return false
	}
	for o := range s.Classes {
		if o != c && len(s.Classes[o].Pods) > 0 && s.Topology.Ledger.Leads(o, c) {
			return true
		}
	}
	return false
}

// PlaceOneOnExisting places one pod that rules between pods concern on an existing node, if one
// takes it.
func (s *State) PlaceOneOnExisting(c *model.PodClass, st *model.Stage) (model.Assignment, bool) {
	for i := range s.Existing {
		b := &s.Existing[i]
		if s.Model.Meter.Spend(c.Weight); quantity.Times(b.Free, b.Used, c.Need, 1) == 0 ||
			!s.Topology.Check(c, st, &b.Domains).IsYes() || b.Add(c, st, 1) == 0 {
			continue
		}
		s.Topology.Ledger.Count(c.Index, &b.Domains, 1, 0)
		return model.Assignment{Kind: model.OnExisting, Index: int32(i)}, true
	}
	return model.Assignment{}, false
}

// PlaceOnExisting places pods on existing nodes, as far as all their preferences are met. Pods
// that must be with others that are unplaced wait for them.
func (s *State) PlaceOnExisting() {
	if len(s.Existing) == 0 {
		return
	}
	for _, c := range s.Order {
		cl := &s.Classes[c]
		switch st := &cl.Stages[0]; {
		case cl.Constraints.Invalid != "" || s.awaits(c):
		case len(cl.Keys) == 0:
			s.fillExisting(cl, st)
		default:
			for len(cl.Pods) > 0 {
				at, ok := s.PlaceOneOnExisting(cl, st)
				if !ok {
					break
				}
				cl.Take(s.Assignments, 1, at)
			}
		}
	}
}

// chunkTries bounds in how many ways the chunks of capacity buffers are placed, chunkEffort which part of the effort that is
// left that may take, one in so many.
const chunkTries, chunkEffort = 10, 4

// PlaceChunksOnExisting places chunks of capacity buffers on existing nodes, in the orders of chunkClasses and
// nodesForChunks. Where some find no room, each class takes the nodes first that have least room for it; then those of
// their buffers are placed before the others, and so on. The way that leaves fewest is taken: what others took may have
// been all that they can take. Chunks have no preferences.
func (s *State) PlaceChunksOnExisting() {
	type way struct {
		classes []*model.PodClass
		isTight bool
	}
	now := way{classes: s.chunkClasses()}
	all, chunks := now.classes, make([][]int32, len(now.classes))
	for i, cl := range all {
		chunks[i] = cl.Pods
	}
	undo := func() {
		for i, cl := range all {
			for _, p := range chunks[i][:len(chunks[i])-len(cl.Pods)] {
				s.Remove(cl, p)
			}
			cl.Pods = chunks[i]
		}
	}
	best, last, effort := now, now, s.Model.Meter.Left()
	least := s.placeChunks(now.classes, now.isTight)
	once := effort - s.Model.Meter.Left()
	// The next way may take twice as much as the first, and the best one is then placed again.
	mayTry := func() bool { return s.Model.Meter.Left()-3*once >= effort-effort/chunkEffort }
	for left, tried := least, 1; left > 0 && tried < chunkTries && mayTry(); tried++ {
		if now.isTight {
			now.classes = slices.Clone(now.classes)
			slices.SortStableFunc(now.classes, func(a, b *model.PodClass) int { return cmp.Compare(min(len(b.Pods), 1), min(len(a.Pods), 1)) })
			if slices.Equal(now.classes, last.classes) {
				break
			}
		}
		now.isTight = !now.isTight
		undo()
		if left = s.placeChunks(now.classes, now.isTight); left < least {
			best, least = now, left
		}
		last = now
	}
	if best.isTight != last.isTight || !slices.Equal(best.classes, last.classes) {
		undo()
		s.placeChunks(best.classes, best.isTight)
	}
}

// placeChunks places chunks of the classes on existing nodes, in this order, and returns how many are left. A chunk
// elsewhere may let a further one on a node: that goes on as long as it places any.
func (s *State) placeChunks(classes []*model.PodClass, isTight bool) (left int) {
	nodes := s.nodesForChunks(nil)
	for before := -1; left != before; {
		before, left = left, 0
		for _, cl := range classes {
			if isTight && len(cl.Pods) > 0 {
				nodes = s.nodesForChunks(cl)
			}
			for were := len(cl.Pods) + 1; len(cl.Pods) < were; {
				were = len(cl.Pods)
				for _, i := range nodes {
					if len(cl.Pods) > 0 {
						s.placeChunksOn(cl, i)
					}
				}
			}
			left += len(cl.Pods)
		}
	}
	return left
}

// chunkClasses returns the classes of chunks that are not placed, in the order in which they are: those first for
// which there is least room beyond what they need, lest others take it that could be elsewhere. Of equals the
// largest comes first.
func (s *State) chunkClasses() (classes []*model.PodClass) {
	beyond := map[*model.PodClass]int{}
	for _, c := range s.Order {
		cl := &s.Classes[c]
		if !cl.IsBuffer || len(cl.Pods) == 0 || cl.Constraints.Invalid != "" {
			continue
		}
		s.Model.Meter.Spend(len(s.Existing) * cl.Weight)
		beyond[cl] = -len(cl.Pods)
		for i := range s.Existing {
			beyond[cl] += s.Existing[i].Room(cl, cl.Last(), len(cl.Pods))
		}
		classes = append(classes, cl)
	}
	slices.SortStableFunc(classes, func(a, b *model.PodClass) int { return cmp.Compare(beyond[a], beyond[b]) })
	return classes
}

// nodesForChunks returns the existing nodes in the order in which they hold chunks: those with pods
// first, because they stay anyway, then empty ones, then those that kube-scheduler is to avoid, and in
// the end those that are about to go. Of equals those come first that have least room for the class, if there is one, then
// the oldest: what it held it holds when a node is launched for the rest.
func (s *State) nodesForChunks(cl *model.PodClass) []int {
	rank := func(b *model.ExistingNode) int {
		switch n := b.Node; {
		case n.DisruptionReason != "":
			return 3
		case n.PrefersOthers():
			return 2
		case n.Empty && n.Planned == 0 && !slices.ContainsFunc(b.Used, func(used int64) bool { return used > 0 }):
			return 1
		default:
			return 0
		}
	}
	nodes, ranks, room := make([]int, len(s.Existing)), make([]int, len(s.Existing)), make([]int, len(s.Existing))
	for i := range s.Existing {
		nodes[i], ranks[i] = i, rank(&s.Existing[i])
		if cl != nil {
			s.Model.Meter.Spend(cl.Weight)
			room[i] = s.Existing[i].Room(cl, cl.Last(), len(cl.Pods))
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(room[a], room[b]), s.Existing[a].Node.Created.Compare(s.Existing[b].Node.Created))
	})
	return nodes
}

// placeChunksOn places as many chunks of a class on an existing node as it can.
func (s *State) placeChunksOn(c *model.PodClass, i int) {
	b, at := &s.Existing[i], model.Assignment{Kind: model.OnExisting, Index: int32(i)}
	s.Model.Meter.Spend(c.Weight)
	if len(c.Keys) == 0 {
		c.Take(s.Assignments, b.Add(c, c.Last(), len(c.Pods)), at)
		return
	}
	for len(c.Pods) > 0 && s.Topology.Check(c, c.Last(), &b.Domains).IsYes() && b.Add(c, c.Last(), 1) > 0 {
		s.Topology.Ledger.Count(c.Index, &b.Domains, 1, 0)
		c.Take(s.Assignments, 1, at)
	}
}

// PlaceAll places all pods that it can by first-fit-decreasing, giving preferences up one by one.
// Pods with rules are tried again as long as that places any, for they may depend on others.
func (s *State) PlaceAll() {
	for first, progress := true, true; first || progress; first = false {
		progress = false
		for _, p := range s.Model.Pools {
			p.ShrunkTo = 0 // pods that came since may have narrowed a planned node further
		}
		for _, c := range s.Order {
			cl := &s.Classes[c]
			before := len(cl.Pods)
			if before == 0 || !first && len(cl.Keys) == 0 {
				continue
			}
			for i := 0; i < len(cl.Stages) && len(cl.Pods) > 0; i++ {
				switch {
				case len(cl.Keys) > 0:
					s.placeSingly(cl, &cl.Stages[i])
				case cl.Stages[i].RespectSpread: // the last stage only differs for pods with rules
					s.placeClass(cl, &cl.Stages[i])
				}
			}
			progress = progress || len(cl.Pods) < before
		}
	}
}

// fillExisting places pods of a class without rules between pods on existing nodes.
func (s *State) fillExisting(c *model.PodClass, st *model.Stage) {
	s.Model.Meter.Spend(len(s.Existing) * c.Weight)
	for i := range s.Existing {
		c.Take(s.Assignments, s.Existing[i].Add(c, st, len(c.Pods)), model.Assignment{Kind: model.OnExisting, Index: int32(i)})
	}
}

// FillPlanned places pods of a class on planned nodes, each as full as possible.
func (s *State) FillPlanned(c *model.PodClass, st *model.Stage) {
	s.Model.Meter.Spend(1 + len(s.Planned))
	for i, b := range s.Planned {
		switch {
		case len(c.Pods) == 0:
			return
		case !b.Refusal.IsYes():
		case len(c.Keys) == 0:
			c.Take(s.Assignments, b.Add(c, st, len(c.Pods)), model.Assignment{Kind: model.OnPlanned, Index: int32(i)})
		default:
			for len(c.Pods) > 0 && s.PlaceOneOnPlanned(b, c, st) {
				c.Take(s.Assignments, 1, model.Assignment{Kind: model.OnPlanned, Index: int32(i)})
			}
		}
	}
}

// placeClass places pods of a class without rules between pods.
func (s *State) placeClass(c *model.PodClass, st *model.Stage) {
	s.fillExisting(c, st)
	s.FillPlanned(c, st)
	for len(c.Pods) > 0 {
		n := 0
		s.OpenNode(c, st, func(b *model.PlannedNode) bool {
			n = b.Add(c, st, len(c.Pods))
			return n > 0
		})
		if n == 0 {
			return
		}
		c.Take(s.Assignments, n, model.Assignment{Kind: model.OnPlanned, Index: int32(len(s.Planned) - 1)})
	}
}

// OpenNode plans a node of the first NodePool, by weight, of which fill can use one. It returns
// the node, or nil.
func (s *State) OpenNode(c *model.PodClass, st *model.Stage, fill func(*model.PlannedNode) bool) *model.PlannedNode {
	if c.Waits || c.Constraints.Invalid != "" {
		return nil
	}
	for at, pool := range s.Model.Pools {
		if !st.Admitted[at].Refusal.IsYes() {
			continue
		}
		b := s.tryPool(pool, at, fill)
		if b == nil && pool.ShrinkToCheapest(s.Planned) {
			b = s.tryPool(pool, at, fill)
		}
		if b != nil {
			pool.TakeLimits(b)
			s.Planned = append(s.Planned, b)
			return b
		}
	}
	return nil
}

func (s *State) tryPool(pool *model.Pool, at int, fill func(*model.PlannedNode) bool) *model.PlannedNode {
	b := pool.NewNode(at)
	if b == nil {
		return nil
	}
	s.Topology.LocatePlanned(b)
	if !fill(b) {
		s.Topology.forgetDaemonSets(b)
		return nil
	}
	return b
}

// PlaceAnew places one pod of the class that was removed from its node, if it fits anywhere.
func (s *State) PlaceAnew(c *model.PodClass, p int32) {
	others := c.Pods
	c.Pods = []int32{p}
	for i := 0; i < len(c.Stages) && len(c.Pods) > 0; i++ {
		s.placeSingly(c, &c.Stages[i])
	}
	c.Pods = append(c.Pods, others...)
}
