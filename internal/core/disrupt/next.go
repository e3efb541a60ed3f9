package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// NextAt returns when time alone may next give a machine a reason to go, or take away what
// keeps an empty one; zero: it is not known to.
func NextAt(snap *cluster.Snapshot) (next time.Time) {
	note := func(at time.Time) {
		if at.After(snap.At) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		pool, ok := snap.PoolByName(n.Pool)
		if !ok || n.Claim == "" || n.Leaving {
			continue
		}
		if at, ever := QuietAt(n, pool); ever && n.Empty {
			note(at)
			note(n.PlannedUntil)
		}
		if !n.Expires.IsZero() {
			note(due(n))
		}
	}
	return next
}
