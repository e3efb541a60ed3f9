package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
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
	part, seen := *snap, map[*cluster.Constraints]bool{}
	part.Pending, part.Nodes, part.Gangs, part.Buffers = nil, nil, nil, nil
	for i := range snap.Pending {
		p := &snap.Pending[i]
		if !launched[p.PodRef] {
			continue
		}
		k.of[p.PodRef] = p.Constraints
		if !seen[p.Constraints] {
			seen[p.Constraints] = true
			part.Pending = append(part.Pending, *p)
		}
	}
	meter := effort.New(effortFor(opts, snap))
	if !meter.Run(func() { k.price(&part, opts, meter) }) {
		k.of = nil
	}
	return k
}

// price finds what a pod of each kind costs at least in each NodePool.
func (k *kinds) price(snap *cluster.Snapshot, opts Options, meter *effort.Meter) {
	m := model.New(snap, model.SpaceOf(snap), opts, meter)
	classes := model.ClassesOf(snap, m)
	m.AddStages(classes)
	empty := make(quantity.Vector, len(m.Space))
	for at, pool := range m.Pools {
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
		k.least[pool.NodePool.Name] = least
	}
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
