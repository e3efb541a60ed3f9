package disrupt

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// DueAt returns when a node is to be replaced because it is about to expire or be interrupted. Nodes with
// the same end are due at different times in the first half of the window before it. The second half is
// left for budgets and failures.
func DueAt(n *cluster.Node) time.Time {
	life := n.Expires.Sub(n.Created)
	window := min(max(life/10, expiryWindowMin), expiryWindowMax)
	if n.Reclaimed == "" {
		window = min(window, life/2)
	}
	return n.Expires.Add(-window + time.Duration(float64(window)/2*float64(DueShare(n))/math.MaxUint32))
}

// DueShare returns the node's DueShare, or what follows from the name of its NodeClaim if it has none.
func DueShare(n *cluster.Node) uint32 {
	if n.DueShare > 0 {
		return n.DueShare
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(n.Claim))
	return h.Sum32()
}

// urgent reports whether the cloud interrupts a node so soon that neither budgets nor pods are asked.
func (w *work) urgent(n *cluster.Node, reason string) bool {
	return reason == Interrupted && n.Expires.Sub(w.snap.At) <= expiryWindowMin
}

// goesSoon reports whether a node is going to be removed, so that pods are better planned for others. A
// node that starts is not ready for other reasons than that it is unhealthy.
func (w *work) goesSoon(n *cluster.Node) bool {
	return n.Initialized && len(n.Ailments) > 0 || n.Drifted != "" && w.fixed(n, Drifted).IsYes() || n.PrefersOthers() || !n.Expires.IsZero() && !w.snap.At.Before(DueAt(n))
}
