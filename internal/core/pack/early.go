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
	// Premium is by which share a launch may cost more than nodes that are filled with such pods.
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
		if l := &p.Launches[i]; l.PriceHourly+launch.NodeFee <= (1+w.Premium)*kinds.filled(l) {
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
	// least is, by NodePool, what a pod costs on a node that is filled with pods like it, fees included.
	least map[string]map[*cluster.Constraints]float64
}

// newKinds works out what the pods of the launches would cost. If that takes too much effort, nothing is known.
func newKinds(snap *cluster.Snapshot, launches []plan.Launch, opts Options) *kinds {
	k := &kinds{of: map[cluster.PodRef]*cluster.Constraints{}, least: map[string]map[*cluster.Constraints]float64{}}
	launched := map[cluster.PodRef]bool{}
	for i := range launches {
		for _, pod := range launches[i].Pods {
			launched[pod] = true
		}
	}
	part := *snap
	part.Pending, part.Nodes, part.Gangs, part.Buffers = nil, nil, nil, nil
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
		least := k.alone(snap, m, classes, at, meter)
		if len(least) > 1 {
			for c, value := range k.mixed(snap, m, classes, at, meter) {
				if cl := &classes[c]; value < least[cl.Constraints] {
					least[cl.Constraints] = value
				}
			}
		}
		k.least[pool.NodePool.Name] = least
	}
}

// alone returns what a pod of each kind costs on nodes of a pool that are filled with pods like it.
func (k *kinds) alone(snap *cluster.Snapshot, m *model.Model, classes []model.PodClass, at int, meter *effort.Meter) map[*cluster.Constraints]float64 {
	pool, empty := m.Pools[at], make(quantity.Vector, len(m.Space))
	least := make(map[*cluster.Constraints]float64, len(classes))
	for c := range classes {
		cl := &classes[c]
		meter.Spend(1 + len(pool.Types))
		most, best := perNode(cl.Constraints, snap.Namespaces), math.Inf(1)
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
	return least
}

// mixed returns for each class what a pod of it is worth if however many pods come, of all kinds in the same proportions.
func (k *kinds) mixed(snap *cluster.Snapshot, m *model.Model, classes []model.PodClass, at int, meter *effort.Meter) []float64 {
	pool := m.Pools[at]
	meter.Spend((1 + len(classes)) * (1 + len(pool.Offerings)))
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
			p.Bins[a] = cover.Bin{Capacity: free, Price: pool.Offerings[a].Cost()}
		}
	}
	for c := range classes {
		cl := &classes[c]
		offerings := model.NewBitset(len(pool.Offerings))
		for _, term := range cl.Last().Admitted[at].Terms {
			offerings.Or(term.Offerings)
		}
		offerings.And(pool.Launchable)
		perBin := perNode(cl.Constraints, snap.Namespaces)
		if perBin == math.MaxInt64 {
			perBin = 0
		}
		p.Classes = append(p.Classes, cover.Class{Size: room(cl.Need), Count: manyMore * len(cl.Pods), PerBin: int(perBin), Bins: offerings})
	}
	return cover.Values(p, mixRounds)
}

// filled returns what the pods of a launch would cost on nodes that are filled with pods like them.
func (k *kinds) filled(l *plan.Launch) (sum float64) {
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
