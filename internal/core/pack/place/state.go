package place

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// locate finds the domains of every existing node, counts the pods that run there, and notes the
// domains in which nodes could be launched. running has the ledger's class of each entry of the
// nodes' pods.
func (s *State) locate(running []int32) {
	if len(s.Topology.Ledger.Keys()) == 0 {
		return
	}
	s.Topology.findCounted()
	s.Topology.AdmitOwners()
	at := make([]int, len(s.Model.Snapshot.Nodes)) // one more than the index in Existing; 0: it is not there
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

// CountOnPlanned returns how many pods are assigned to planned nodes.
func (s *State) CountOnPlanned() (n int) {
	for p := range s.Assignments {
		if s.Assignments[p].Kind == model.OnPlanned {
			n++
		}
	}
	return n
}

// NewState returns the state before any pod is assigned.
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

// Fork returns a state that goes on from the same point independently. No node must have been
// planned yet. The work that is done with it is not metered.
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

// AnyUnplaced reports whether any pod is unplaced.
func (s *State) AnyUnplaced() bool {
	return slices.ContainsFunc(s.Classes, func(c model.PodClass) bool { return len(c.Pods) > 0 })
}

// CountUnplaced returns how many pods are unplaced.
func (s *State) CountUnplaced() (n int) {
	for c := range s.Classes {
		n += len(s.Classes[c].Pods)
	}
	return n
}

// FreePrices lets pods make planned nodes dearer. It reports whether that was not allowed before.
func (s *State) FreePrices() (changed bool) {
	for _, b := range s.Planned {
		changed = changed || b.PriceMax > 0
		b.FreePrice()
	}
	return changed
}

// State is where every pending pod is: on an existing node, on a planned node, or unplaced.
type State struct {
	Model    *model.Model
	Topology *Topology
	Classes  []model.PodClass
	// Order is the order in which classes are placed.
	Order []int
	// Existing are nodes of the snapshot, the preferred ones first. Planned are the nodes to launch.
	Existing    []model.ExistingNode
	Planned     []*model.PlannedNode
	Assignments []model.Assignment // by pending pod
}

// DomainsAt returns the domains of the node that a pod is assigned to.
func (s *State) DomainsAt(at model.Assignment) *topology.Place {
	if at.Kind == model.OnExisting {
		return &s.Existing[at.Index].Domains
	}
	return &s.Planned[at.Index].Domains
}

// Remove makes an assigned pod of the class unplaced. The caller refuses it or places it anew.
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

// AssignedPods returns, by class, the pods that are assigned, in the order in which they are placed.
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

// ClassOf returns the index of the class of each constraint set.
func (s *State) ClassOf() map[*cluster.Constraints]int {
	of := make(map[*cluster.Constraints]int, len(s.Classes))
	for c := range s.Classes {
		of[s.Classes[c].Constraints] = c
	}
	return of
}
