package place

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// fewDomains is for how many domains of each key memory is taken, besides a hostname a node.
const fewDomains = 6

// NewLedger returns the topology counts for all rules between pods that matter to the classes.
// Its classes are these, in their order, then the constraints of pods that only run, then the
// DaemonSets. running is the class of each entry of the nodes' pods, one node after another.
func NewLedger(snap *cluster.Snapshot, classes []model.PodClass, meter *effort.Meter) (l *topology.Ledger, running []int32) {
	entries := 0
	for i := range snap.Nodes {
		entries += len(snap.Nodes[i].Pods)
	}
	running = make([]int32, 0, entries)
	constraintSets := make([]*cluster.Constraints, 0, len(classes)+len(snap.Daemons))
	index := make(map[*cluster.Constraints]int32, len(classes))
	for c := range classes {
		index[classes[c].Constraints] = int32(c)
		constraintSets = append(constraintSets, classes[c].Constraints)
	}
	for i := range snap.Nodes {
		for p := range snap.Nodes[i].Pods {
			sh := snap.Nodes[i].Pods[p].Constraints
			at, known := index[sh]
			if !known {
				at = int32(len(constraintSets))
				index[sh] = at
				constraintSets = append(constraintSets, sh)
			}
			running = append(running, at)
		}
	}
	daemons := len(constraintSets)
	for i := range snap.Daemons {
		constraintSets = append(constraintSets, snap.Daemons[i].Constraints)
	}
	l = topology.NewFor(constraintSets, snap.Namespaces, meter, func(c int) bool { return c < len(classes) || c >= daemons })
	for k, key := range l.Keys() {
		if domains := fewDomains; l.AsksOf(k) {
			if key == label.Hostname {
				domains += len(snap.Nodes)
			}
			l.Expect(k, domains)
		}
	}
	for c := range classes {
		classes[c].Keys = l.KeysOf(c)
	}
	return l, running
}

// newDomains returns memory for the domains of a node.
func (s *Topology) newDomains() topology.Place {
	return topology.Place{Domain: s.places.domains.Take(len(s.Ledger.Keys())), Counts: s.places.flags.Take(s.Ledger.Groups())}
}

// spreadWatcher is what a node must be to count in some spreading groups: what the owners of
// these groups select and tolerate.
type spreadWatcher struct {
	terms       []label.Requirements // nil: any node counts
	honorTaints bool
	tolerations []cluster.Toleration
	groups      []int
}

// SpreadOwners are owners of spreading groups that admit the same offerings of a NodePool.
type SpreadOwners struct {
	terms    []label.Requirements // nil: any node counts
	Admitted model.Admitted
	Groups   []int
}

func (s *Topology) fork() *Topology {
	f := *s
	f.Model, f.Ledger, f.places = s.Model.Fork(), s.Ledger.Clone(), placeMemory{}
	return &f
}

// Topology is the domains of nodes, and how many pods of each rule are in each domain.
type Topology struct {
	Model  *model.Model
	Ledger *topology.Ledger
	// SpreadOwners are, by pool, the owners of spreading groups and what they admit of it.
	SpreadOwners [][]SpreadOwners
	// watchers say which existing nodes count in which spreading groups.
	watchers []spreadWatcher
	// DaemonSets are those whose pods are counted by topology.
	DaemonSets []CountedDaemonSet
	places     placeMemory
}

// placeMemory is memory for the domains of nodes.
type placeMemory struct {
	domains model.Slab[int32]
	flags   model.Slab[bool]
	values  [][]string   // of the node at hand, by key
	both    model.Bitset // of the value at hand
}

// CountedDaemonSet is a DaemonSet whose pods are counted by topology.
type CountedDaemonSet struct {
	name        string
	constraints *cluster.Constraints
	Class       int            // in the ledger
	on          []model.Bitset // by pool: the instance types that have it
}

// Check returns why rules between pods keep a pod of the class from the domains, with the
// preferences of the stage; yes: they allow it.
func (s *Topology) Check(c *model.PodClass, st *model.Stage, at *topology.Place) topology.Miss {
	return s.Ledger.Check(c.Index, at, st.PreferencesFrom, st.RespectSpread)
}

// MakePresent notes, once, that a planned node is in its domains.
func (s *Topology) MakePresent(b *model.PlannedNode) {
	if !b.IsCounted {
		s.Ledger.Present(&b.Domains)
		b.IsCounted = true
	}
}
