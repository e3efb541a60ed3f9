// Package budget says how many nodes of a NodePool may be disrupted now: the pool's budgets, less
// the nodes that are already being disrupted or are not ready. It may import cluster and plan. Read
// Open first.
package budget

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Ledger are the budgets of all pools at the instant of a snapshot, and how far they are
// used up. They are made by Open and kept by Take and Return.
type Ledger struct {
	pools map[string]*account
}

// account is one pool's. Nodes count once they are initialized and until the termination of
// their instance is asked for. While they reboot they count, too.
type account struct {
	budgets []cluster.Budget
	// paused: none may be disrupted by choice. Interrupted nodes are no choice of ours.
	paused bool
	// total counts all nodes; going are marked, leaving or rebooting; unwell are the others that
	// are not ready. These do not count for Unhealthy: repair is for them.
	total, going, unwell int
	// goingFor counts those that are marked, or leave after having been, by reason.
	goingFor map[string]int
}

// Open counts the nodes of a snapshot.
func Open(snap *cluster.Snapshot) *Ledger {
	b := &Ledger{pools: map[string]*account{}}
	for i := range snap.Pools {
		b.pools[snap.Pools[i].Name] = &account{budgets: snap.Pools[i].Budgets, paused: snap.Pools[i].Paused != "", goingFor: map[string]int{}}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		a := b.pools[n.Pool]
		if a == nil || n.Claim == "" || !n.Initialized && !n.Rebooting || n.Ending {
			continue
		}
		a.total++
		switch {
		case n.Deleting || n.Rebooting || n.DisruptionReason != "":
			a.going++
			a.goingFor[n.DisruptionReason]++
		case !n.Ready:
			a.unwell++
		}
	}
	return b
}

// Allowed returns how many nodes of the pool may be disrupted at once for the reason,
// those that are included. Without budgets there is no limit; a pool that is not there
// allows nothing, nor does one whose disruption is paused.
func (b *Ledger) Allowed(pool, reason string) int {
	a := b.pools[pool]
	if a == nil || a.paused && reason != plan.Interrupted {
		return 0
	}
	return allowed(a.budgets, reason, a.total)
}

// Used returns how many nodes of the pool use up its budgets for the reason.
func (b *Ledger) Used(pool, reason string) int {
	a := b.pools[pool]
	switch {
	case a == nil:
		return 0
	case reason == plan.Unhealthy:
		return a.going
	default:
		return a.going + a.unwell
	}
}

// Left returns how many more nodes of the pool may be disrupted for the reason.
func (b *Ledger) Left(pool, reason string) int {
	return max(0, b.Allowed(pool, reason)-b.Used(pool, reason))
}

// Most returns how many nodes of the pool may be disrupted for the reason once those
// that are being disrupted now have gone.
func (b *Ledger) Most(pool, reason string) int {
	a := b.pools[pool]
	if a == nil {
		return 0
	}
	return max(0, b.Allowed(pool, reason)-a.unwell)
}

// Overdrawn reports whether more nodes of the pool are being disrupted for the reason
// than it allows: a window closed after they were begun. Those that go for other reasons,
// which may have been allowed more, do not make it so, nor those that are not well.
func (b *Ledger) Overdrawn(pool, reason string) bool {
	a := b.pools[pool]
	return a == nil || a.goingFor[reason] > b.Allowed(pool, reason)
}

// Return takes back that one node of the pool is disrupted for the reason. The budget allows
// another node in its place only in the next ledger: this one may not be ready again.
func (b *Ledger) Return(pool, reason string) {
	if a := b.pools[pool]; a != nil {
		a.goingFor[reason]--
	}
}

// Take counts n more nodes of the pool as being disrupted for the reason.
func (b *Ledger) Take(pool, reason string, n int) {
	if a := b.pools[pool]; a != nil {
		a.going += n
		a.goingFor[reason] += n
	}
}

// allowed returns the least that the budgets for the reason allow of total nodes; a
// percentage is rounded up.
func allowed(budgets []cluster.Budget, reason string, total int) int {
	least := math.MaxInt32
	for _, b := range budgets {
		if !b.Active || (len(b.Reasons) > 0 && !slices.Contains(b.Reasons, reason)) {
			continue
		}
		n := b.Nodes
		if b.Percent {
			n = (total*b.Nodes + 99) / 100
		}
		least = min(least, n)
	}
	return least
}
