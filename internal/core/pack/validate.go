package pack

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// sweepsMost bounds how often a round goes through all pods while it moves some.
const sweepsMost = 8

// validate is the final validation: the rules of every pod must hold with all other pods where
// they are planned, for kube-scheduler may bind those first. A pod whose rules are broken is
// moved, the last one first, and so are the pods that needed it. A pod is moved once, and in
// the last round it is refused instead. validate reports whether all pods could stay.
func (s *solver) validate(last bool) (all bool) {
	if len(s.state.Topology.Ledger.Keys()) == 0 {
		return true
	}
	assignments := s.state.AssignedPods()
	for c := range assignments {
		for _, p := range assignments[c] {
			if at := s.state.Assignments[p]; at.Kind == model.OnPlanned && !s.state.Planned[at.Index].Refusal.IsYes() {
				s.refused[p] = s.state.Planned[at.Index].Refusal
				s.state.Remove(&s.state.Classes[c], p)
			}
		}
	}
	s.recountAll(assignments)
	all = true
	u := validation{assignments: assignments, moved: map[int32]bool{}, mayStay: map[model.Assignment]bool{}, last: last}
	for sweep, again := 0, true; again && (last || sweep < sweepsMost); sweep++ {
		again = false
		for _, c := range slices.Backward(s.state.Order) {
			if cl := &s.state.Classes[c]; len(cl.Keys) > 0 {
				again = s.validateClass(cl, &u) || again
			}
		}
		if !again {
			again = s.validateAffinityOrder(assignments, last)
		}
		all = all && !again
	}
	return all
}

// recountAll counts all pods by topology anew. Now it is known which nodes are launched and
// what they can be, and domains without a planned node do not constrain spread.
func (s *solver) recountAll(assignments [][]int32) {
	s.state.Topology.Ledger = s.before.Clone()
	if !s.state.Model.Options.BuyableBinds {
		s.state.Topology.Ledger.SoldOut()
	}
	if k := slices.Index(s.state.Topology.Ledger.Keys(), label.Hostname); k >= 0 {
		s.state.Topology.Ledger.Expect(k, len(s.state.Planned))
	}
	for i, b := range s.state.Planned {
		if b.Refusal.IsYes() {
			s.locateFinal(i, b)
		}
	}
	for c := range assignments {
		if len(s.state.Classes[c].Keys) == 0 {
			continue
		}
		for _, p := range assignments[c] {
			if at := s.state.Assignments[p]; at.Kind != model.Unplaced {
				s.state.Topology.Ledger.Count(c, s.state.DomainsAt(at), 1, 0)
			}
		}
	}
}

// locateFinal notes the domains that a planned node may be in, whatever the cloud chooses.
func (s *solver) locateFinal(i int, b *model.PlannedNode) {
	has := b.Pool.NodePool.Requirements
	if len(b.Open) > 0 {
		has = has.Intersect(b.Open)
	}
	b.Domains = s.state.Topology.DomainsOfUndetermined(&place.Undetermined{Host: "launch " + strconv.Itoa(i), PoolIndex: b.PoolIndex, Offerings: b.UsableOfferingsIn(b.Scratch), Requirements: has})
	s.state.Topology.Ledger.Present(&b.Domains)
	for _, d := range s.state.Topology.DaemonSetsOn(b) {
		s.state.Topology.Ledger.Count(s.state.Topology.DaemonSets[d].Class, &b.Domains, 1, 0)
	}
}

// validation is a round of validate.
type validation struct {
	assignments [][]int32 // by class: the pods that are assigned
	moved       map[int32]bool
	mayStay     map[model.Assignment]bool // nodes where pods of the class at hand may stay
	last        bool
}

// validateClass is the final validation of one class. It reports whether any of its pods was
// removed from its node.
func (s *solver) validateClass(c *model.PodClass, u *validation) (gone bool) {
	clear(u.mayStay)
	for _, p := range slices.Backward(u.assignments[c.Index]) {
		at := s.state.Assignments[p]
		if at.Kind == model.Unplaced || u.mayStay[at] {
			continue
		}
		miss := s.state.Topology.Ledger.Holds(c.Index, s.state.DomainsAt(at))
		if miss.IsYes() || s.holdsFirst(c, at, u.assignments) {
			u.mayStay[at] = true
			continue
		}
		s.state.Remove(c, p)
		s.refused[p] = miss.Verdict()
		if !u.last && !u.moved[p] {
			u.moved[p] = true
			s.state.PlaceAnew(c, p)
		}
		gone = true
		clear(u.mayStay)
	}
	return gone
}

// readmitMost bounds for how many refused pods room is searched, and judgedMost how often all
// other pods are validated for that.
const (
	readmitMost = 50
	judgedMost  = 200
)

// readmission assigns refused pods to the room, and within the limits, that removed pods gave
// back, as far as all other pods may stay.
type readmission struct {
	solver      *solver
	assignments [][]int32 // by class: the pods that are assigned
	judged      int       // how often all others were validated
}

// readmit assigns refused pods where that is possible. It reports whether any was assigned.
func (s *solver) readmit() (any bool) {
	s.dropEmpty()
	refused := make([][]int32, len(s.state.Classes))
	of := s.state.ClassOf()
	for p := range s.state.Assignments {
		why := s.refused[p] // yes: a chunk that is held back
		if s.state.Assignments[p].Kind == model.Unplaced && !why.IsYes() && why.Reason != verdict.BufferWaits {
			c := of[s.state.Model.Snapshot.Pending[p].Constraints]
			refused[c] = append(refused[c], int32(p))
		}
	}
	var r *readmission
	tries := readmitMost
	for again := true; again; {
		again = false
		for _, c := range s.state.Order {
			for len(refused[c]) > 0 && !s.state.Classes[c].TooLarge {
				if tries--; tries < 0 {
					return any
				}
				if r == nil {
					r = &readmission{solver: s, assignments: s.state.AssignedPods()}
				}
				p := refused[c][0]
				if !r.one(&s.state.Classes[c], p) {
					break
				}
				refused[c], r.assignments[c] = refused[c][1:], append(r.assignments[c], p)
				any, again = true, true
			}
		}
	}
	return any
}

// one assigns one refused pod, and reports whether it could.
func (r *readmission) one(c *model.PodClass, p int32) bool {
	for i := range c.Stages {
		st := &c.Stages[i]
		if at, ok := r.solver.state.PlaceOneOnExisting(c, st); ok && r.keeps(c, p, at) {
			return true
		}
		for l, b := range r.solver.state.Planned {
			if b.Refusal.IsYes() && r.harmless(c, st, b) && r.solver.state.PlaceOneOnPlanned(b, c, st) && r.keeps(c, p, model.Assignment{Kind: model.OnPlanned, Index: int32(l)}) {
				return true
			}
		}
		if r.solver.state.OpenNode(c, st, func(b *model.PlannedNode) bool { return r.solver.state.PlaceOneOnPlanned(b, c, st) }) != nil && r.keeps(c, p, model.Assignment{Kind: model.OnPlanned, Index: int32(len(r.solver.state.Planned) - 1)}) {
			return true
		}
	}
	return false
}

// keeps reports whether a pod may stay on the node where it was just placed, with all others
// where they are. If not, it is removed from there.
func (r *readmission) keeps(c *model.PodClass, p int32, at model.Assignment) bool {
	r.solver.state.Assignments[p] = at
	if r.solver.state.Topology.Ledger.Holds(c.Index, r.solver.state.DomainsAt(at)).IsYes() && r.othersStay() {
		return true
	}
	r.solver.state.Remove(c, p)
	r.solver.dropEmpty()
	return false
}

// harmless reports whether a pod of the class could be on the planned node with all others
// staying. It is asked before the planned node is narrowed to what holds the pod.
func (r *readmission) harmless(c *model.PodClass, st *model.Stage, b *model.PlannedNode) bool {
	if b.IsFull(c) {
		return false
	}
	if len(c.Keys) == 0 {
		return true
	}
	if !r.solver.state.Topology.Check(c, st, &b.Domains).IsYes() {
		return false
	}
	r.solver.state.Topology.Ledger.Count(c.Index, &b.Domains, 1, 0)
	defer r.solver.state.Topology.Ledger.Count(c.Index, &b.Domains, -1, 0)
	return r.solver.state.Topology.Ledger.Holds(c.Index, &b.Domains).IsYes() && r.othersStay()
}

// othersStay reports whether every assigned pod may stay, as long as that may still be asked.
func (r *readmission) othersStay() bool {
	r.judged++
	return r.judged <= judgedMost && r.solver.allHold(r.assignments)
}

// allHold reports whether the rules of every assigned pod hold.
func (s *solver) allHold(assignments [][]int32) bool {
	for c := range assignments {
		cl := &s.state.Classes[c]
		if len(cl.Keys) == 0 {
			continue
		}
		for _, p := range assignments[c] {
			at := s.state.Assignments[p]
			if at.Kind != model.Unplaced && !s.state.Topology.Ledger.Holds(c, s.state.DomainsAt(at)).IsYes() && !s.holdsFirst(cl, at, assignments) {
				return false
			}
		}
	}
	return true
}

// dropEmpty cancels planned nodes that have no pod left, and gives their limits back.
func (s *solver) dropEmpty() {
	left := make([]int, len(s.state.Planned))
	for _, at := range s.state.Assignments {
		if at.Kind == model.OnPlanned {
			left[at.Index]++
		}
	}
	for i, b := range s.state.Planned {
		if left[i] == 0 && b.Refusal.IsYes() {
			s.cancel(b, verdict.Of(verdict.NoPlace, "pool "+b.Pool.NodePool.Name, "the pods it was for are refused"))
		}
	}
}

// finishRounds bounds how often pods that could not stay where they were are placed anew.
const finishRounds = 3
