package place

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// locate finds the place of every node there is, counts the pods that run, as the ledger's
// list of them says, and notes where nodes could be launched.
func (s *State) locate(running []int32) {
	if len(s.Topology.Ledger.Keys()) == 0 {
		return
	}
	s.Topology.findVisible()
	s.Topology.AdmitOwners()
	at := make([]int, len(s.Model.Snapshot.Nodes)) // one more than the index among the fixed; 0: it is none
	for i := range s.Existing {
		s.Existing[i].Domains = s.Topology.DomainsOf(s.Existing[i].Node)
		at[s.Existing[i].Index] = i + 1
	}
	other := s.Topology.newDomains()
	for i := range s.Model.Snapshot.Nodes {
		n := &s.Model.Snapshot.Nodes[i]
		here := running[:len(n.Pods)]
		running = running[len(n.Pods):]
		place := &other
		switch f := at[i]; {
		case f > 0:
			place = &s.Existing[f-1].Domains
		case n.InFlight != nil:
			open := s.Topology.domainsOfInFlight(n)
			place = &open
		default:
			s.Topology.locateNode(n, place, len(s.Topology.DaemonSets) > 0 || slices.ContainsFunc(here, func(c int32) bool { return s.Topology.Ledger.Counts(int(c)) }))
		}
		s.Topology.Ledger.Present(place)
		for p, c := range here {
			s.Topology.Ledger.Count(int(c), place, n.Pods[p].Count, n.Pods[p].Deleting)
		}
		s.Topology.countDaemonSetsToCome(n, place)
	}
	s.Topology.LocatePools()
}

// CountOnPlanned returns how many pods are on launches.
func (s *State) CountOnPlanned() (n int) {
	for p := range s.Assignments {
		if s.Assignments[p].Kind == model.OnPlanned {
			n++
		}
	}
	return n
}

// NewState is the state before any pod has a place.
func NewState(m *model.Model) *State {
	s := &State{Model: m, Assignments: make([]model.Assignment, len(m.Snapshot.Pending)), Classes: model.ClassesOf(m.Snapshot, m)}
	m.AddStages(s.Classes)
	ledger, running := NewLedger(m.Snapshot, s.Classes, m.Meter)
	s.Topology = &Topology{Model: m, Ledger: ledger}
	s.Order = s.Topology.Ledger.Order(len(s.Classes))
	s.Existing = model.ExistingNodes(m.Snapshot, m, s.Classes)
	s.locate(running)
	return s
}

// Fork returns a state that goes on from the same point by itself. Nothing must have been
// launched yet. The work that is done with it is not metered.
func (s *State) Fork() *State {
	f := *s
	f.Topology = s.Topology.fork()
	f.Model = f.Topology.Model
	f.Classes = slices.Clone(s.Classes)
	f.Existing = slices.Clone(s.Existing)
	amounts := make(quantity.Vector, len(f.Existing)*len(s.Model.Space))
	for i := range f.Existing {
		b := &f.Existing[i]
		used := amounts[:len(b.Used):len(b.Used)]
		amounts = amounts[copy(used, b.Used):]
		b.Used, b.Ports = used, slices.Clip(b.Ports)
	}
	f.Assignments = slices.Clone(s.Assignments)
	return &f
}

// AnyUnplaced reports whether pods are left that need a node.
func (s *State) AnyUnplaced() bool {
	return slices.ContainsFunc(s.Classes, func(c model.PodClass) bool { return len(c.Pods) > 0 })
}

// CountUnplaced returns how many pods have no place yet.
func (s *State) CountUnplaced() (n int) {
	for c := range s.Classes {
		n += len(s.Classes[c].Pods)
	}
	return n
}

// FreePrices lets every launch grow. It reports whether one could not.
func (s *State) FreePrices() (changed bool) {
	for _, b := range s.Planned {
		changed = changed || b.PriceMax > 0
		b.FreePrice()
	}
	return changed
}

// State is where pods go: on nodes there are, and on launches.
type State struct {
	Model    *model.Model
	Topology *Topology
	Classes  []model.PodClass
	// Order is that in which classes are packed.
	Order []int
	// Existing are nodes of the snapshot in the order of preference; launches are new.
	Existing    []model.ExistingNode
	Planned     []*model.PlannedNode
	Assignments []model.Assignment // by pending pod
}

// DomainsAt returns where a placed pod would be.
func (s *State) DomainsAt(at model.Assignment) *topology.Place {
	if at.Kind == model.OnExisting {
		return &s.Existing[at.Index].Domains
	}
	return &s.Planned[at.Index].Domains
}

// Remove takes a placed pod of the class back.
func (s *State) Remove(c *model.PodClass, p int32) {
	at := s.Assignments[p]
	if len(c.Keys) > 0 {
		s.Topology.Ledger.Count(c.Index, s.DomainsAt(at), -1, 0)
	}
	var used quantity.Vector
	var ports *[]cluster.HostPort
	if at.Kind == model.OnExisting {
		used, ports = s.Existing[at.Index].Used, &s.Existing[at.Index].Ports
	} else {
		used, ports = s.Planned[at.Index].Used, &s.Planned[at.Index].Ports
	}
	used.AddN(c.Need, -1)
	for _, taken := range c.Constraints.Ports {
		if i := slices.Index(*ports, taken); i >= 0 {
			*ports = slices.Delete(slices.Clone(*ports), i, i+1)
		}
	}
	s.Assignments[p] = model.Assignment{}
}

// AssignedPods returns by class the pods that have a place, in the order in which they are placed.
func (s *State) AssignedPods() [][]int32 {
	at := s.ClassOf()
	assignments, older := make([][]int32, len(s.Classes)), model.ByAge(s.Model.Snapshot)
	count := make([]int, len(s.Classes))
	for p := range s.Assignments {
		if s.Assignments[p].Kind != model.Unplaced {
			count[at[s.Model.Snapshot.Pending[p].Constraints]]++
		}
	}
	memory := make([]int32, len(s.Assignments))
	for c, n := range count {
		assignments[c], memory = memory[:0:n], memory[n:]
	}
	for p := range s.Assignments {
		if s.Assignments[p].Kind != model.Unplaced {
			c := at[s.Model.Snapshot.Pending[p].Constraints]
			assignments[c] = append(assignments[c], int32(p))
		}
	}
	for c := range assignments {
		slices.SortFunc(assignments[c], older)
	}
	return assignments
}

// ClassOf returns the index of each constraints' class.
func (s *State) ClassOf() map[*cluster.Constraints]int {
	of := make(map[*cluster.Constraints]int, len(s.Classes))
	for c := range s.Classes {
		of[s.Classes[c].Constraints] = c
	}
	return of
}
