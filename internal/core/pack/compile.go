package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
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
	meter *effort.Meter
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
	// weight is the effort of holding a pod of the class against the labels and taints of one place.
	weight int
	// apart is the last miss that had to do with other pods.
	apart topology.Miss
	// tooLarge: its pods were refused before anything was placed.
	tooLarge bool
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

// compile states the snapshot in the solver's terms. The work, and all that the solver does
// later, is taken from the meter.
func compile(snap *cluster.Snapshot, opts Options, meter *effort.Meter) *solver {
	m := &model{space: spaceOf(snap), meter: meter}
	for _, p := range byWeight(snap.Pools) {
		m.pools = append(m.pools, newPoolModel(m.space, snap, p, opts, meter))
		m.pools[len(m.pools)-1].lift(len(snap.Pending))
	}
	s := &solver{
		snap: snap, opts: opts, model: m,
		placed: make([]placement, len(snap.Pending)), refused: make([]verdict.Verdict, len(snap.Pending)),
	}
	s.classes = classesOf(snap, m)
	s.addStages()
	ledger, running := newLedger(snap, s.classes, meter)
	s.ledger = ledger
	s.order = s.ledger.Order(len(s.classes))
	s.fixed = fixedBins(snap, m, s.classes)
	s.locate(running)
	s.before = s.ledger.Clone()
	s.refuseTooLarge()
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
			cl.weight = labelWeight(cl.shape)
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

// labelsUnit is how many requirements, tolerations and ports are held against a place for a
// unit of effort.
const labelsUnit = 4

func labelWeight(sh *cluster.Shape) int { return 1 + sh.LabelWeight()/labelsUnit }

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

// fixedBins returns the machines that may take pods and have room for one: initialised ones
// first, then those that have a Node or are known, then open claims; each by name. Most
// machines of a cluster are full, and of those nothing else is worked out.
func fixedBins(snap *cluster.Snapshot, m *model, classes []class) []fixedBin {
	if len(classes) == 0 {
		return nil
	}
	f := fixer{snap: snap, model: m, least: leastOf(classes)}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !n.Leaving {
			f.add(n, i)
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
	slices.SortStableFunc(f.bins, func(a, b fixedBin) int {
		return cmp.Or(cmp.Compare(rank(a.node), rank(b.node)), cmp.Compare(a.node.Name, b.node.Name))
	})
	return f.bins
}

// leastOf returns of each resource the least that a pod of any class asks for.
func leastOf(classes []class) quantity.Vector {
	least := slices.Clone(classes[0].need)
	for c := range classes {
		for r, n := range classes[c].need {
			least[r] = min(least[r], n)
		}
	}
	return least
}

// fixer makes the bins of machines that are there.
type fixer struct {
	snap    *cluster.Snapshot
	model   *model
	least   quantity.Vector // what is asked for at least
	amounts slab[int64]
	free    quantity.Vector // of the machine at hand
	bins    []fixedBin
}

// add makes the bin of a machine, unless there is no room on it, or it cannot be judged,
// because its pool is gone before the cloud said what it is.
func (f *fixer) add(n *cluster.Node, index int) {
	b := fixedBin{node: n, index: index, pool: -1, ports: n.Ports, meter: f.model.meter}
	if n.Open != nil {
		b.pool = slices.IndexFunc(f.model.pools, func(p *poolModel) bool { return p.pool.Name == n.Pool })
		if b.pool < 0 {
			return
		}
		pool := f.model.pools[b.pool]
		if b.atoms, b.free = pool.promise(n.Open); b.atoms.empty() || !f.holds(b.free) {
			return
		}
		for _, t := range pool.typesNamed(n.Open.Types) {
			b.ports = append(slices.Clip(b.ports), pool.types[t].ports...)
		}
	} else {
		if f.free == nil {
			f.free = f.amounts.take(len(f.model.space))
		}
		if !f.measure(n) {
			return
		}
		b.free, f.free = f.free, nil
		b.ports = append(slices.Clip(b.ports), portsFor(f.snap.Daemons, n)...)
	}
	b.used = f.amounts.take(len(f.model.space))
	f.bins = append(f.bins, b)
}

// holds tells whether there is of every resource what is asked for at least.
func (f *fixer) holds(free quantity.Vector) bool {
	for r, n := range f.least {
		if n > 0 && free[r] < n {
			return false
		}
	}
	return true
}

// measure works out what is free on a machine. It stops, and returns false, where there is
// too little of a resource for any pod.
func (f *fixer) measure(n *cluster.Node) bool {
	for r, name := range f.model.space {
		f.free[r] = quantity.Sub(n.Allocatable.Room(name), n.Used[name])
		if f.least[r] > 0 && f.free[r] < f.least[r] {
			return false
		}
	}
	if len(f.snap.Daemons) == 0 {
		return true
	}
	awaitDaemons(f.model.space, f.free, n, daemonsFor(f.model.space, f.snap.Daemons, n))
	return f.holds(f.free)
}

// measureRoom writes to free what is free on a node whose daemons ask for so much together.
func measureRoom(free quantity.Vector, space quantity.Space, n *cluster.Node, daemons quantity.Vector) {
	for r, name := range space {
		free[r] = quantity.Sub(n.Allocatable.Room(name), n.Used[name])
	}
	awaitDaemons(space, free, n, daemons)
}

// awaitDaemons takes from what is free on a node what daemons that ask for so much together
// are yet to use.
func awaitDaemons(space quantity.Space, free quantity.Vector, n *cluster.Node, daemons quantity.Vector) {
	for r, name := range space {
		if daemons[r] > 0 {
			free[r] = quantity.Sub(free[r], max(0, quantity.Sub(daemons[r], n.UsedByDaemons[name])))
		}
	}
}

// daemonsFor returns what the daemons that select the node ask for together.
func daemonsFor(space quantity.Space, daemons []cluster.Daemon, n *cluster.Node) quantity.Vector {
	sum := make(quantity.Vector, len(space))
	for i := range daemons {
		if !selects(&daemons[i], n) {
			continue
		}
		for r, name := range space {
			sum[r] = quantity.Add(sum[r], daemons[i].Shape.Requests[name])
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
	return fit.Tolerated(d.Shape.Tolerations, n.Taints) && fit.Matches(d.Shape.Terms, n.Labels)
}
