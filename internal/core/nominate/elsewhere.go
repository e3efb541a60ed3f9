package nominate

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

const (
	// elsewhereAfter is how long a node has been open to a pod before the pod is planned for
	// another node. The time doubles with each attempt, and there are elsewhereMost attempts.
	elsewhereAfter = 30 * time.Second
	elsewhereMost  = 3
	// elsewhereSettled is how long kube-scheduler may take to see that a node is open.
	elsewhereSettled = 5 * time.Second
	// elsewhereAtOnce is how many pods are planned for another node at the same time. If we
	// are wrong about all pods of a cluster, that many extra nodes is all that it costs.
	elsewhereAtOnce = 10
)

// Stuck is a pod that is not bound though its target node is open.
type Stuck struct {
	cluster.PodRef
	// Since is when the node was both open and the pod's target node.
	Since time.Time
	// TriedAt is when kube-scheduler is last known to have tried the pod in vain.
	TriedAt time.Time
	// Times is how often the pod was planned for another node before.
	Times int
}

// Elsewhere returns the pods that are to be planned for another node: those that
// kube-scheduler has refused to bind to their target node. A pod that kube-scheduler has not
// tried, because it is slow or down, waits. already is how many unbound pods were planned for
// another node before.
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
