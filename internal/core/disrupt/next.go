package disrupt

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// NextAt returns when a decision may next change though no event happens: a node is due, for repair
// too, or consolidatable, pods are no longer expected on an empty node, or a budget's window opens or closes;
// zero: no such time is known.
func NextAt(snap *cluster.Snapshot) (next time.Time) {
	note := func(at time.Time) {
		if at.After(snap.At) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		pool, ok := snap.PoolByName(n.Pool)
		if !ok || n.Claim == "" || n.Deleting {
			continue
		}
		if at, ever := ConsolidatableAt(n, pool); ever && n.Empty {
			note(at)
			note(n.PlannedUntil)
		}
		if !n.Expires.IsZero() {
			note(DueAt(n))
		}
		for _, a := range n.Ailments {
			note(a.Due)
		}
		if slices.ContainsFunc(pool.Budgets, func(b cluster.Budget) bool { return b.Scheduled }) {
			note(snap.At.Truncate(time.Minute).Add(time.Minute))
		}
	}
	return next
}

// Cheaper reports whether a node can be launched for less than before, or could not be launched then: an
// offering is available again, or a pool is new, is ready now or has higher limits.
func Cheaper(before, now []cluster.Pool) bool {
	for i := range now {
		is := &now[i]
		at := slices.IndexFunc(before, func(was cluster.Pool) bool { return was.Name == is.Name })
		if at < 0 && len(before) > 0 {
			return true
		}
		if at < 0 {
			continue
		}
		if was := &before[at]; was.NotForPods() != "" && is.NotForPods() == "" || raised(was.Limits, is.Limits) || cheaper(was.Types, is.Types) {
			return true
		}
	}
	return false
}

// raised reports whether a limit is higher than before, or gone.
func raised(before, now quantity.List) bool {
	for name, was := range before {
		if is, limited := now[name]; !limited || is > was {
			return true
		}
	}
	return false
}

// cheaper reports whether an offering is new, or costs less than before.
func cheaper(before, now []*catalog.Type) bool {
	if slices.Equal(before, now) {
		return false
	}
	had := make(map[string]*catalog.Type, len(before))
	for _, t := range before {
		had[t.Name] = t
	}
	for _, t := range now {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if was := had[t.Name]; o.HasPrice() && (was == nil || !slices.ContainsFunc(was.Offerings, func(w catalog.Offering) bool {
				return w.HasPrice() && w.Zone == o.Zone && w.CapacityType == o.CapacityType && w.Reservation == o.Reservation && w.PriceHourly <= o.PriceHourly
			})) {
				return true
			}
		}
	}
	return false
}
