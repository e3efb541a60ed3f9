package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/launch"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// This file makes decisions before a batch window ends: what is launched at once, because no pod
// that may still come would change it by much.

// Window is what is known of a batch window that has not ended.
type Window struct {
	// Idle: no pod has come for a while.
	Idle bool
	// Coming is how many pods are known to come: they exist and kube-scheduler has not tried them
	// yet, or their owners have yet to create them.
	Coming int
	// Premium is by which share a launch may cost more than its pods are worth.
	Premium float64
}

// Complete reports whether nothing speaks for more pods to come.
func (w Window) Complete() bool { return w.Idle && w.Coming == 0 }

// DecideEarly is Decide while the batch window is open. The plan is whole if the window is complete.
// Else it has only those launches that are certain: pods like theirs, however many come, would not
// get nodes that are cheaper by more than the premium. What else there is to decide is left to the
// next decision, pods that have room on nodes of the snapshot included.
//
// Nothing is launched for pods that do not exist: Coming can only have a launch wait.
func DecideEarly(snap *cluster.Snapshot, w Window, opts Options) plan.Plan {
	p := Decide(snap, opts)
	if w.Complete() {
		return p
	}
	early := plan.Plan{At: p.At, GivenUp: p.GivenUp, Effort: p.Effort}
	if len(p.GivenUp) > 0 || len(p.Launches) == 0 {
		return early
	}
	kinds := newKinds(snap, p.Launches, opts)
	for i := range p.Launches {
		if l := &p.Launches[i]; l.PriceHourly+launch.NodeFee <= (1+w.Premium)*kinds.worth(l) {
			early.Launches = append(early.Launches, *l)
		}
	}
	return early
}

const (
	// manyMore is how many times as many pods as there are may come.
	manyMore = 1000
	// mixRounds bounds how long mixes are sought.
	mixRounds = 20
)

// kinds are the pods of launches by their constraints.
type kinds struct {
	of map[cluster.PodRef]*cluster.Constraints
	// least is, by NodePool that nodes are launched from, what a pod costs at least, fees included.
	least map[string]map[*cluster.Constraints]float64
}

// newKinds works out what the pods of the launches would cost. If that takes too much effort, nothing is known.
func newKinds(snap *cluster.Snapshot, launches []plan.Launch, opts Options) *kinds {
	k := &kinds{of: map[cluster.PodRef]*cluster.Constraints{}, least: map[string]map[*cluster.Constraints]float64{}}
	launched := map[cluster.PodRef]bool{}
	for i := range launches {
		if pool := launches[i].Pool; k.least[pool] == nil {
			k.least[pool] = map[*cluster.Constraints]float64{}
		}
		for _, pod := range launches[i].Pods {
			launched[pod] = true
		}
	}
	part := *snap
	part.Pending, part.Nodes, part.Gangs, part.Buffers = make([]cluster.Pod, 0, len(launched)), nil, nil, nil
	for i := range snap.Pending {
		if p := &snap.Pending[i]; launched[p.PodRef] {
			k.of[p.PodRef] = p.Constraints
			part.Pending = append(part.Pending, *p)
		}
	}
	meter := effort.New(effortFor(opts, snap))
	if !meter.Run(func() { k.price(&part, opts, meter) }) {
		k.of = nil
	}
	return k
}

// price finds what a pod of each kind costs at least in each NodePool: on a node that is filled with pods like it, or with a
// mix of all kinds.
func (k *kinds) price(snap *cluster.Snapshot, opts Options, meter *effort.Meter) {
	m := model.New(snap, model.SpaceOf(snap), opts, meter)
	classes := model.ClassesOf(snap, m)
	m.AddStages(classes)
	for at, pool := range m.Pools {
		least, isUsed := k.least[pool.NodePool.Name]
		if !isUsed {
			continue
		}
		alone(m, classes, at, least)
		if len(least) > 1 {
			for c, value := range mixed(m, classes, at) {
				if of := classes[c].Constraints; value < least[of] {
					least[of] = value
				}
			}
		}
	}
}

// alone finds what a pod of each kind costs on nodes of a pool that are filled with pods like it.
func alone(m *model.Model, classes []model.PodClass, at int, least map[*cluster.Constraints]float64) {
	pool, empty := m.Pools[at], make(quantity.Vector, len(m.Space))
	for c := range classes {
		cl := &classes[c]
		m.Meter.Spend(1 + len(pool.Types))
		most, best := perNode(cl.Constraints, m.Snapshot.Namespaces), math.Inf(1)
		for t := range pool.Types {
			n := quantity.Times(pool.Types[t].Free, empty, cl.Need, most)
			if n == 0 {
				continue
			}
			for _, term := range cl.Last().Admitted[at].Terms {
				for a := pool.Types[t].First; a < pool.Types[t].End; a++ {
					if term.Offerings.Has(a) && pool.Launchable.Has(a) {
						best = min(best, (pool.Offerings[a].Cost()+launch.NodeFee)/float64(n))
					}
				}
			}
		}
		if !math.IsInf(best, 1) {
			least[cl.Constraints] = best
		}
	}
}

// mixed returns for each class what a pod of it is worth if however many pods come, of all kinds in the same proportions.
func mixed(m *model.Model, classes []model.PodClass, at int) []float64 {
	pool := m.Pools[at]
	usable := pool.Launchable.Clone()
	m.Meter.Spend((1 + len(classes)) * (1 + len(pool.Offerings)))
	p := &cover.Problem{Dims: len(m.Space), Bins: make([]cover.Bin, len(pool.Offerings)), BinFee: launch.NodeFee}
	room := func(v quantity.Vector) []int64 {
		room := slices.Clone([]int64(v))
		for d := range room {
			room[d] = max(0, room[d])
		}
		return room
	}
	for t := range pool.Types {
		free := room(pool.Types[t].Free)
		for a := pool.Types[t].First; a < pool.Types[t].End; a++ {
			if o := pool.Offerings[a]; o.HasPrice() {
				p.Bins[a] = cover.Bin{Capacity: free, Price: o.Cost()}
			} else {
				usable.Clear(a)
			}
		}
	}
	for c := range classes {
		cl := &classes[c]
		offerings := model.NewBitset(len(pool.Offerings))
		for _, term := range cl.Last().Admitted[at].Terms {
			offerings.Or(term.Offerings)
		}
		offerings.And(usable)
		perBin := perNode(cl.Constraints, m.Snapshot.Namespaces)
		if perBin == math.MaxInt64 {
			perBin = 0
		}
		p.Classes = append(p.Classes, cover.Class{Size: room(cl.Need), Count: manyMore * len(cl.Pods), PerBin: int(perBin), Bins: offerings})
	}
	return cover.Values(p, mixRounds)
}

// worth returns what the pods of a launch cost at least.
func (k *kinds) worth(l *plan.Launch) (sum float64) {
	for _, pod := range l.Pods {
		sum += k.least[l.Pool][k.of[pod]]
	}
	return sum
}

// perNode returns how many pods with the constraints can be on one node, as far as their host ports
// and their anti-affinity to each other say.
func perNode(c *cluster.Constraints, namespaces map[string]map[string]string) int64 {
	alone := slices.ContainsFunc(c.AntiAffinity, func(t cluster.PodTerm) bool {
		return t.Key == label.Hostname && t.Selects(c.Namespace, c.Labels, namespaces)
	})
	if alone || len(c.Ports) > 0 {
		return 1
	}
	return math.MaxInt64
}
