package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// terminateFirst returns the command that removes a node before anything is launched for its pods: it
// holds the place in a reservation that the next node needs. why is why nothing can be launched now. It
// is returned if the place would not help, or if a node may not be removed first for the reason.
func (r *replacer) terminateFirst(i int, reason string, why verdict.Verdict) (plan.Command, verdict.Verdict) {
	n := &r.work.snap.Nodes[i]
	id := n.Labels[r.work.snap.ReservationKey]
	pool, ok := r.work.snap.PoolByName(n.Pool)
	if !r.work.opts.TerminateFirst.allows(reason) || n.Labels[label.CapacityType] != label.Reserved || id == "" || !ok || pool.Unready != "" {
		return plan.Command{}, why
	}
	with, known := credited(r.work.future.ahead().without([]int{i}), id)
	if !known {
		return plan.Command{}, why
	}
	step, still := r.stepOf(i, reason, r.work.decidePods(with))
	if !still.IsYes() {
		return plan.Command{}, why
	}
	step.Launch, step.TerminateFirst = nil, plan.NoReservedCapacity
	return step, verdict.Verdict{}
}

// credited returns the snapshot with one more place in a reservation; false: no pool offers it.
func credited(snap *cluster.Snapshot, id string) (with *cluster.Snapshot, known bool) {
	with = copyOf(snap)
	is := func(o catalog.Offering) bool { return o.Reservation == id && o.Available }
	for p := range with.Pools {
		pool := &with.Pools[p]
		pool.Types = slices.Clone(pool.Types)
		for t := range pool.Types {
			if !slices.ContainsFunc(pool.Types[t].Offerings, is) {
				continue
			}
			known = true
			own := *pool.Types[t]
			own.Offerings = slices.Clone(own.Offerings)
			for o := range own.Offerings {
				if is(own.Offerings[o]) {
					own.Offerings[o].Left++
				}
			}
			pool.Types[t] = &own
		}
	}
	return with, known
}

// reservationsFull reports whether a static pool can launch into reservations only, and none has a
// place left.
func reservationsFull(pool *cluster.Pool) bool {
	all := catalog.Offered(pool.Types, pool.Requirements)
	return len(all) > 0 && !slices.ContainsFunc(all, func(o *catalog.Offering) bool {
		return o.Reservation == "" || o.Launchable()
	})
}

// holdsPlace reports whether a node of a static pool has a place in one of the reservations that the pool
// can launch into: if it goes there is room for another.
func (w *work) holdsPlace(n *cluster.Node, pool *cluster.Pool) bool {
	id := n.Labels[w.snap.ReservationKey]
	return id != "" && slices.ContainsFunc(catalog.Offered(pool.Types, pool.Requirements), func(o *catalog.Offering) bool {
		return o.Reservation == id && o.Available
	})
}
