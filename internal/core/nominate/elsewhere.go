package nominate

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

const (
	// elsewhereAfter is how long a node has been open to a pod before the pod is tried
	// elsewhere; twice as long each time, and not more than elsewhereMost times.
	elsewhereAfter = 30 * time.Second
	elsewhereMost  = 3
	// elsewhereSettled is how long kube-scheduler may take to see that a node is open.
	elsewhereSettled = 5 * time.Second
	// elsewhereAtOnce is how many pods are tried elsewhere at the same time. If we are
	// wrong about all pods of a cluster, that is all that it costs.
	elsewhereAtOnce = 10
)

// Stuck is a pod that no node has, though it is meant for a node that is open.
type Stuck struct {
	cluster.PodRef
	// Since is when the node was open and the pod meant for it.
	Since time.Time
	// TriedAt is when kube-scheduler is last known to have tried the pod in vain.
	TriedAt time.Time
	// Times is how often it was tried elsewhere before.
	Times int
}

// Elsewhere returns the pods that are to be planned for another node: those that
// kube-scheduler has refused to bind where we meant them to be. A pod that it has not got
// round to, because it is slow or down, waits. Already is how many pods that no node has
// were tried elsewhere before.
func Elsewhere(at time.Time, stuck []Stuck, already int) []cluster.PodRef {
	var out []cluster.PodRef
	for i := range stuck {
		p := &stuck[i]
		if p.Times >= elsewhereMost || p.Since.Add(elsewhereAfter<<p.Times).After(at) || !p.TriedAt.After(p.Since.Add(elsewhereSettled)) {
			continue
		}
		if p.Times == 0 {
			if already >= elsewhereAtOnce {
				continue
			}
			already++
		}
		out = append(out, p.PodRef)
	}
	return out
}
