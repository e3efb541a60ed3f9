package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// unmovable returns why a node that the cloud is about to take away is not replaced.
func (w *work) unmovable(n *cluster.Node) verdict.Verdict {
	switch {
	case !n.Initialized:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is not initialized")
	case w.replaces(n):
		return verdict.Of(verdict.NodeBlocked, n.Name, "it replaces nodes whose pods are still to come")
	default:
		return verdict.Verdict{}
	}
}

// blocked returns why a node may not be disrupted for any reason; yes means that it may be. With
// eventually, the node has to be replaced in the end: then its pods do not block that if its
// NodeClaim has a terminationGracePeriod.
func (w *work) blocked(n *cluster.Node, eventually bool) verdict.Verdict {
	return holdOf(w.snap, n, eventually, func() bool { return w.replaces(n) }).Why
}

// fixed returns why a node of a static pool stays: nothing can be launched in its place. For an
// interrupted node it returns yes, because the node is lost anyway.
func (w *work) fixed(n *cluster.Node, reason string) verdict.Verdict {
	if pool, ok := w.snap.PoolByName(n.Pool); ok && pool.Static && pool.Unready != "" && reason != Interrupted {
		return verdict.Of(verdict.NodeBlocked, n.Name, "pool %s has a fixed number of nodes, and nothing would replace it: %s", n.Pool, pool.Unready)
	}
	return verdict.Verdict{}
}

func meantFor(n *cluster.Node) verdict.Verdict {
	return verdict.Of(verdict.NodeBlocked, n.Name, "%d pods are meant for it", n.Planned)
}

// HadPodEvent returns why a node is not considered for consolidation yet: consolidateAfter has not
// elapsed since the last pod event. The node's pool must exist.
func HadPodEvent(snap *cluster.Snapshot, n *cluster.Node) verdict.Verdict {
	pool, _ := snap.PoolByName(n.Pool)
	idle, ever := ConsolidatableAt(n, pool)
	switch {
	case !ever:
		return verdict.Of(verdict.ConsolidateAfterNotElapsed, n.Name, "consolidateAfter of pool %s is Never", n.Pool)
	case snap.At.Before(idle):
		return verdict.Of(verdict.ConsolidateAfterNotElapsed, n.Name, "no pod event for %s, consolidateAfter of pool %s is %s",
			snap.At.Sub(n.LastPodEvent).Round(time.Second), n.Pool, pool.ConsolidateAfter)
	}
	return verdict.Verdict{}
}

// ConsolidatableAt returns from when on a node may be consolidated if there is no pod event until
// then; false: never.
func ConsolidatableAt(n *cluster.Node, pool *cluster.Pool) (at time.Time, ever bool) {
	if pool.ConsolidateAfter < 0 || pool.Static {
		return time.Time{}, false
	}
	return n.LastPodEvent.Add(pool.ConsolidateAfter), true
}

// Paused returns why a node is not disrupted for a reason: a person has paused disruption of its pool. A
// node that the cloud takes away is replaced all the same: it is lost anyway.
func Paused(snap *cluster.Snapshot, n *cluster.Node, reason string) verdict.Verdict {
	pool, ok := snap.PoolByName(n.Pool)
	if !ok || pool.Paused == "" || reason == Interrupted {
		return verdict.Verdict{}
	}
	return verdict.Of(verdict.DisruptionPaused, n.Name, "disruption of pool %s is paused: %s", n.Pool, pool.Paused)
}

// busy returns why a node may not be removed to save its price; yes means that it may be.
func (w *work) busy(n *cluster.Node) verdict.Verdict {
	if why := Paused(w.snap, n, Underutilized); !why.IsYes() {
		return why
	}
	if why := w.blocked(n, false); !why.IsYes() {
		return why
	}
	return HadPodEvent(w.snap, n)
}

// replaceable returns why nothing is launched for the pods of a node: replacements of its pool failed a
// short time ago.
func (w *work) replaceable(n *cluster.Node) verdict.Verdict {
	until := w.scope.paused[n.Pool]
	if !until.After(w.snap.At) {
		return verdict.Verdict{}
	}
	return verdict.Of(verdict.PoolPaused, n.Name, "replacements of pool %s failed, the next try is not before %s", n.Pool, until.UTC().Format(time.TimeOnly))
}

// consolidates reports whether a pool's nodes are to be consolidated, and its budgets allow that now.
func (w *work) consolidates(pool string) bool {
	p, ok := w.snap.PoolByName(pool)
	return ok && !p.Static && p.Policy != cluster.PolicyEmpty && p.ConsolidateAfter >= 0 && w.ledger.Allowed(pool, Underutilized) > 0
}
