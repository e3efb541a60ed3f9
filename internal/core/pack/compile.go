package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// model is the snapshot in the solver's terms.
type model struct {
	space quantity.Space
	pools []*poolModel // by weight
}

// class is all pending pods of one shape. Its index among the classes is its class in
// the ledger.
type class struct {
	shape  *cluster.Shape
	index  int
	need   quantity.Vector
	pods   []int32 // indexes into Snapshot.Pending that still look for a place
	stages []stage
	// keys are those of the ledger on which it matters where the class's pods are.
	keys []int
	// apart is the last miss that had to do with other pods.
	apart topology.Miss
}

// stage is a class's rules with some of its wishes given up. The last has none left.
type stage struct {
	in []classIn // by pool
	// wishesFrom is the first wish that is still kept.
	wishesFrom int
	// wish is what node labels should satisfy, too; nil: nothing.
	wish label.Requirements
	// tidy: PreferNoSchedule taints keep the class away.
	tidy bool
	// courteous: the class keeps to others' spreads, too.
	courteous bool
}

// classIn is what a class allows of one pool.
type classIn struct {
	refusal verdict.Verdict // set: nothing
	terms   []termIn
}

// termIn is one term of the class's requirements against a pool: the atoms it allows,
// and what it asks of keys that no atom decides.
type termIn struct {
	term  label.Requirements
	atoms bitset
	open  label.Requirements
}

// last returns the class's rules without any wish.
func (c *class) last() *stage { return &c.stages[len(c.stages)-1] }

// take records that the first n pods of the class went to a place.
func (c *class) take(placed []placement, n int, at placement) {
	for _, p := range c.pods[:n] {
		placed[p] = at
	}
	c.pods = c.pods[n:]
}

func compile(snap *cluster.Snapshot, opts Options) *solver {
	m := &model{space: spaceOf(snap)}
	for _, p := range byWeight(snap.Pools) {
		m.pools = append(m.pools, newPoolModel(m.space, snap, p, opts))
		m.pools[len(m.pools)-1].lift(len(snap.Pending))
	}
	s := &solver{
		snap: snap, opts: opts, model: m,
		placed: make([]placement, len(snap.Pending)), refused: make([]verdict.Verdict, len(snap.Pending)),
	}
	s.classes = classesOf(snap, m)
	s.addStages()
	s.ledger = newLedger(snap, s.classes)
	s.order = s.ledger.Order(len(s.classes))
	s.fixed = fixedBins(snap, m)
	s.locate()
	s.before = s.ledger.Clone()
	return s
}

// spaceOf returns every resource that a pod asks for, a daemon needs or a limit counts.
// What machines have besides is of no interest.
func spaceOf(snap *cluster.Snapshot) quantity.Space {
	lists := []quantity.List{{quantity.CPU: 0, quantity.Memory: 0, quantity.Pods: 0}}
	seen := map[*cluster.Shape]bool{}
	for i := range snap.Pending {
		if sh := snap.Pending[i].Shape; !seen[sh] {
			seen[sh] = true
			lists = append(lists, sh.Requests)
		}
	}
	for i := range snap.Daemons {
		lists = append(lists, snap.Daemons[i].Shape.Requests)
	}
	for i := range snap.Pools {
		lists = append(lists, snap.Pools[i].Limits)
	}
	return quantity.SpaceOf(lists...)
}

// classesOf groups the pending pods by shape. The classes are in the order in which they
// are packed: largest first by cpu, then memory, then the age of the oldest pod.
func classesOf(snap *cluster.Snapshot, m *model) []class {
	at := map[*cluster.Shape]int32{}
	var counts []int
	of := make([]int32, len(snap.Pending))
	for i := range snap.Pending {
		c, ok := at[snap.Pending[i].Shape]
		if !ok {
			c = int32(len(counts))
			at[snap.Pending[i].Shape] = c
			counts = append(counts, 0)
		}
		of[i] = c
		counts[c]++
	}
	classes, pods := make([]class, len(counts)), make([]int32, len(snap.Pending))
	needs := make(quantity.Vector, len(counts)*len(m.space))
	for c, n := range counts {
		classes[c].pods, pods = pods[:0:n], pods[n:]
	}
	for i, c := range of {
		cl := &classes[c]
		if cl.shape == nil {
			cl.shape, cl.need, needs = snap.Pending[i].Shape, needs[:len(m.space):len(m.space)], needs[len(m.space):]
			m.space.Fill(cl.need, cl.shape.Requests)
		}
		cl.pods = append(cl.pods, int32(i))
	}
	older := byAge(snap)
	for c := range classes {
		slices.SortFunc(classes[c].pods, older)
	}
	cpu, memory := slices.Index(m.space, quantity.CPU), slices.Index(m.space, quantity.Memory)
	slices.SortFunc(classes, func(a, b class) int {
		if c := cmp.Or(cmp.Compare(b.need[cpu], a.need[cpu]), cmp.Compare(b.need[memory], a.need[memory])); c != 0 {
			return c
		}
		return older(a.pods[0], b.pods[0])
	})
	for c := range classes {
		classes[c].index = c
	}
	return classes
}

// byAge returns the order of pending pods by age; of equals by name.
func byAge(snap *cluster.Snapshot) func(a, b int32) int {
	return func(a, b int32) int {
		x, y := &snap.Pending[a], &snap.Pending[b]
		if c := x.Created.Compare(y.Created); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}
}

// fixedBins returns the machines that may take pods: initialised ones first, then those
// that have a Node or are known, then open claims; each by name.
func fixedBins(snap *cluster.Snapshot, m *model) []fixedBin {
	bins := make([]fixedBin, 0, len(snap.Nodes))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Leaving {
			continue
		}
		if b, ok := newFixedBin(snap, m, n); ok {
			b.index = i
			bins = append(bins, b)
		}
	}
	rank := func(n *cluster.Node) int {
		switch {
		case n.Initialised:
			return 0
		case n.Open == nil:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(bins, func(a, b fixedBin) int {
		return cmp.Or(cmp.Compare(rank(a.node), rank(b.node)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return bins
}

// newFixedBin returns the bin of a machine; false when it cannot be judged, because its
// pool is gone before the cloud said what it is.
func newFixedBin(snap *cluster.Snapshot, m *model, n *cluster.Node) (fixedBin, bool) {
	b := fixedBin{node: n, pool: -1, ports: n.Ports, used: make(quantity.Vector, len(m.space))}
	if n.Open != nil {
		b.pool = slices.IndexFunc(m.pools, func(p *poolModel) bool { return p.pool.Name == n.Pool })
		if b.pool < 0 {
			return b, false
		}
		b.atoms, b.free = m.pools[b.pool].promise(n.Open)
		for _, t := range m.pools[b.pool].typesNamed(n.Open.Types) {
			b.ports = append(slices.Clip(b.ports), m.pools[b.pool].types[t].ports...)
		}
		return b, !b.atoms.empty()
	}
	b.ports = append(slices.Clip(b.ports), portsFor(snap.Daemons, n)...)
	b.free = roomOf(m.space, n, daemonsFor(m.space, snap.Daemons, n))
	return b, true
}

// roomOf returns what is free on a node whose daemons ask for so much together.
func roomOf(space quantity.Space, n *cluster.Node, daemons quantity.Vector) quantity.Vector {
	free := space.Room(n.Allocatable)
	for r, name := range space {
		free[r] -= n.Used[name]
		if daemons[r] > 0 {
			free[r] -= max(0, daemons[r]-n.UsedByDaemons[name])
		}
	}
	return free
}

// daemonsFor returns what the daemons that select the node ask for together.
func daemonsFor(space quantity.Space, daemons []cluster.Daemon, n *cluster.Node) quantity.Vector {
	sum := make(quantity.Vector, len(space))
	for i := range daemons {
		if !selects(&daemons[i], n) {
			continue
		}
		for r, name := range space {
			sum[r] += daemons[i].Shape.Requests[name]
		}
	}
	return sum
}

// portsFor returns the host ports of daemons that are yet to come to the node.
func portsFor(daemons []cluster.Daemon, n *cluster.Node) (ports []cluster.HostPort) {
	for i := range daemons {
		if d := &daemons[i]; len(d.Shape.Ports) > 0 && !slices.Contains(n.Daemons, d.Name) && selects(d, n) {
			ports = append(ports, d.Shape.Ports...)
		}
	}
	return ports
}

// selects tells whether a node is to carry a daemon.
func selects(d *cluster.Daemon, n *cluster.Node) bool {
	return fit.Taints(d.Shape.Tolerations, n.Taints).IsYes() && fit.Labels(d.Shape.Terms, n.Labels).IsYes()
}
