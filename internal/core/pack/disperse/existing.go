package disperse

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

// existing are the existing nodes, and the pods of this plan on each.
type existing struct {
	state   *place.State
	classes []int32 // by pending pod
	size    []int32 // by class, as Board's
	pods    [][]int32
	// isHeld: a node has a pod that stays, whatever is moved.
	isHeld   []bool
	moved    []move // since the node at hand
	searches int64
}

type move struct {
	pod      int32
	from, to int
}

// GatherOnExisting moves pods that may not be evicted by our choice between existing nodes, so that few nodes have such
// pods. A pod that may be evicted goes back where room is needed. No pod comes to a node that is ready later than its own,
// or that meets fewer of its preferences, or where the loss of a node or a zone would take too much of its workload. Pods
// with rules between pods, and those that an earlier plan assigned, are not moved. It returns how many nodes get their
// first pod that stays, before and after.
func GatherOnExisting(s *place.State) (before, after int) {
	if !slices.ContainsFunc(s.Model.Snapshot.Pending, func(p cluster.Pod) bool { return p.DoNotDisrupt }) {
		return 0, 0
	}
	x := &existing{state: s, classes: make([]int32, len(s.Assignments)), pods: make([][]int32, len(s.Existing)), isHeld: make([]bool, len(s.Existing))}
	of := s.ClassOf()
	for p, at := range s.Assignments {
		if at.Kind == model.OnExisting {
			x.classes[p] = int32(of[s.Model.Snapshot.Pending[p].Constraints])
			x.pods[at.Index] = append(x.pods[at.Index], int32(p))
		}
	}
	if before = x.holding(); before == 0 {
		return 0, 0
	}
	for i := range s.Existing {
		x.isHeld[i] = s.Existing[i].Node.DoNotDisrupt != "" || slices.ContainsFunc(x.pods[i], func(p int32) bool { return x.stays(p) && !x.movable(p) })
	}
	x.size = sizes(s)
	x.searches = min(searchesBase+searchesPod*int64(len(s.Assignments)), s.Model.Meter.Left()/2)
	order := x.order()
	for k, i := range order {
		x.moved = x.moved[:0]
		for _, p := range slices.Clone(x.pods[i]) {
			for t := len(order) - 1; t > k && x.searches > 0 && !x.isHeld[i] && x.stays(p) && s.Assignments[p].Index == int32(i); t-- {
				x.give(p, i, order[t])
			}
		}
		if slices.ContainsFunc(x.pods[i], x.stays) {
			x.undo() // nothing is gained
		}
	}
	return before, x.holding()
}

// order returns the nodes with pods that stay, those with the fewest first, and then those that have such a pod anyway.
func (x *existing) order() (order []int) {
	counts := make([]int, len(x.pods))
	for i := range x.pods {
		for _, p := range x.pods[i] {
			if x.stays(p) {
				counts[i]++
			}
		}
		if counts[i] > 0 || x.isHeld[i] {
			order = append(order, i)
		}
		if x.isHeld[i] {
			counts[i] += len(x.classes)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	return order
}

// holding returns how many nodes get their first pod that stays.
func (x *existing) holding() (n int) {
	for i := range x.pods {
		if x.state.Existing[i].Node.DoNotDisrupt == "" && slices.ContainsFunc(x.pods[i], x.stays) {
			n++
		}
	}
	return n
}

func (x *existing) stays(p int32) bool { return x.state.Model.Snapshot.Pending[p].DoNotDisrupt }

func (x *existing) movable(p int32) bool {
	c, pod := &x.state.Classes[x.classes[p]], &x.state.Model.Snapshot.Pending[p]
	return !c.IsBuffer && len(c.Keys) == 0 && len(c.Constraints.Ports) == 0 && pod.Planned == "" && pod.Gang == ""
}

// give moves a pod from one node to another, and one that may be evicted back if there is no room.
func (x *existing) give(p int32, i, j int) {
	if !x.search() || !x.movable(p) || !x.mayMove(p, i, j) {
		return
	}
	x.take(p, i)
	if x.fits(p, j) {
		x.put(p, i, j)
		return
	}
	for _, q := range slices.Clone(x.pods[j]) {
		if !x.search() || x.stays(q) || !x.movable(q) || !x.mayMove(q, j, i) {
			continue
		}
		x.take(q, j)
		if x.fits(p, j) && x.fits(q, i) {
			x.put(p, i, j)
			x.put(q, j, i)
			return
		}
		x.put(q, j, j)
	}
	x.put(p, i, i)
}

// search reports whether one more node may be looked at for one more pod.
func (x *existing) search() bool {
	if x.searches--; x.searches < 0 {
		return false
	}
	x.state.Model.Meter.Spend(1)
	return true
}

// mayMove reports whether a pod is as well off on another node as on its own.
func (x *existing) mayMove(p int32, from, to int) bool {
	a, b, c := &x.state.Existing[from], &x.state.Existing[to], x.classes[p]
	if b.Rank() > a.Rank() {
		return false
	}
	if x.size[c] < 2 {
		return true
	}
	if zone := a.Node.Labels[label.Zone]; zone == "" || zone != b.Node.Labels[label.Zone] {
		return false
	}
	n := int32(0) // pods of the workload there
	for _, q := range x.pods[to] {
		if x.classes[q] == c {
			n++
		}
	}
	for i := range b.Node.Reschedulable {
		if b.Node.Reschedulable[i].Constraints == x.state.Classes[c].Constraints {
			n++
		}
	}
	return n < Limit(x.size[c])
}

func (x *existing) fits(p int32, i int) bool {
	c := &x.state.Classes[x.classes[p]]
	return x.state.Existing[i].Room(c, &c.Stages[0], 1) > 0
}

func (x *existing) take(p int32, i int) {
	x.state.Existing[i].Used.AddN(x.state.Classes[x.classes[p]].Need, -1)
	x.pods[i] = slices.DeleteFunc(x.pods[i], func(other int32) bool { return other == p })
}

// put assigns a pod that was taken from a node to another, or to the same.
func (x *existing) put(p int32, from, to int) {
	x.state.Existing[to].Used.AddN(x.state.Classes[x.classes[p]].Need, 1)
	x.pods[to] = append(x.pods[to], p)
	x.state.Assignments[p].Index = int32(to)
	if from != to {
		x.moved = append(x.moved, move{p, from, to})
	}
}

// undo takes the moves back that were made since the node at hand.
func (x *existing) undo() {
	for _, m := range slices.Backward(x.moved) {
		x.take(m.pod, m.to)
		x.put(m.pod, m.from, m.from)
	}
}
