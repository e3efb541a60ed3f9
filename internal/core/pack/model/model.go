package model

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Model is the snapshot in the solver's terms.
type Model struct {
	Snapshot *cluster.Snapshot
	Options  Options
	Space    quantity.Space
	Pools    []*Pool // by weight
	Meter    *effort.Meter
}

// New states the pools of a snapshot in the solver's terms. The work, and all that is done
// with the model later, is taken from the meter.
func New(snap *cluster.Snapshot, space quantity.Space, opts Options, meter *effort.Meter) *Model {
	m := &Model{Snapshot: snap, Options: opts, Space: space, Meter: meter}
	for _, p := range byWeight(snap.Pools) {
		m.Pools = append(m.Pools, newPool(m, p))
	}
	return m
}

// SpaceOf returns every resource that a pod asks for, a daemon needs or a limit counts.
// What nodes have besides is of no interest.
func SpaceOf(snap *cluster.Snapshot) quantity.Space {
	lists := []quantity.List{{quantity.CPU: 0, quantity.Memory: 0, quantity.Pods: 0}}
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		if sh := snap.Pending[i].Constraints; !seen[sh] {
			seen[sh] = true
			lists = append(lists, sh.Requests)
		}
	}
	for i := range snap.Daemons {
		lists = append(lists, snap.Daemons[i].Constraints.Requests)
	}
	for i := range snap.Pools {
		lists = append(lists, snap.Pools[i].Limits)
	}
	return quantity.SpaceOf(lists...)
}

// Fork returns a model with limits of its own.
func (m *Model) Fork() *Model {
	f := *m
	f.Meter, f.Pools = nil, make([]*Pool, len(m.Pools))
	for i, p := range m.Pools {
		own := *p
		own.Left, own.memory = slices.Clone(p.Left), nodeMemory{}
		f.Pools[i] = &own
	}
	return &f
}

// byWeight returns the pools, most weight first; of equals the later name first, as the
// API promises.
func byWeight(pools []cluster.Pool) []*cluster.Pool {
	sorted := make([]*cluster.Pool, len(pools))
	for i := range pools {
		sorted[i] = &pools[i]
	}
	slices.SortFunc(sorted, func(a, b *cluster.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	return sorted
}

// Assignment is where a pending pod went: an index into fixed or launches, or nowhere.
type Assignment struct {
	Kind  placeKind
	Index int32
}

type placeKind uint8

// Where a pod is: on no node yet, on a node of the snapshot, or on one that the plan launches.
const (
	Unplaced placeKind = iota
	OnExisting
	OnPlanned
)
