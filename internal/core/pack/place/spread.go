package place

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// SpreadOnExisting places pods on initialized nodes as kube-scheduler does by default: the largest pod
// first, each on the emptiest node that takes it. Pods that no such node takes stay unplaced.
func (s *State) SpreadOnExisting() {
	e := s.emptiestFirst()
	for progress := true; progress; { // a pod may have to be with one that comes later
		progress = false
		for _, c := range s.Order {
			cl := &s.Classes[c]
			for len(cl.Pods) > 0 {
				at, ok := e.place(cl)
				if !ok {
					break
				}
				cl.Take(s.Assignments, 1, at)
				progress = true
			}
		}
	}
}

// emptiest has the initialized nodes in the order in which kube-scheduler prefers them.
type emptiest struct {
	state *State
	order []int     // indexes in Existing
	share []float64 // by index in Existing: how much is free, as a share of cpu plus a share of memory
}

func (s *State) emptiestFirst() *emptiest {
	e := &emptiest{state: s, share: make([]float64, len(s.Existing))}
	for i := range s.Existing {
		if s.Existing[i].Node.Initialized {
			e.share[i] = s.freeShare(&s.Existing[i])
			e.order = append(e.order, i)
		}
	}
	slices.SortStableFunc(e.order, func(a, b int) int { return cmp.Compare(e.share[b], e.share[a]) })
	return e
}

// freeShare returns how much of a node's cpu and memory is free, as kube-scheduler adds it up.
func (s *State) freeShare(b *model.ExistingNode) (share float64) {
	for r, name := range s.Model.Space {
		if name != quantity.CPU && name != quantity.Memory {
			continue
		}
		all := b.Node.Allocatable[name]
		if b.Node.InFlight != nil { // nothing is on it yet
			all = b.Free[r]
		}
		if all > 0 {
			share += float64(quantity.Sub(b.Free[r], b.Used[r])) / float64(all)
		}
	}
	return share
}

// place places one pod of the class.
func (e *emptiest) place(c *model.PodClass) (model.Assignment, bool) {
	s := e.state
	for i := range c.Stages {
		for at, node := range e.order {
			b := &s.Existing[node]
			s.Model.Meter.Spend(c.Weight)
			if quantity.Times(b.Free, b.Used, c.Need, 1) == 0 || len(c.Keys) > 0 && !s.Topology.Check(c, &c.Stages[i], &b.Domains).IsYes() || b.Add(c, &c.Stages[i], 1) == 0 {
				continue
			}
			if len(c.Keys) > 0 {
				s.Topology.Ledger.Count(c.Index, &b.Domains, 1, 0)
			}
			e.share[node] = s.freeShare(b)
			e.sink(at)
			return model.Assignment{Kind: model.OnExisting, Index: int32(node)}, true
		}
	}
	return model.Assignment{}, false
}

// sink moves a node on in the order, behind those that are emptier now.
func (e *emptiest) sink(at int) {
	for ; at+1 < len(e.order) && e.share[e.order[at+1]] > e.share[e.order[at]]; at++ {
		e.order[at], e.order[at+1] = e.order[at+1], e.order[at]
	}
}
