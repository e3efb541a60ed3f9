package consolidate

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// evictionWeight returns how much worse it is to evict the pod than an ordinary one. What the pod
// says of its cost and its priority count as they do for Karpenter; a pod
// that keeps state, or work that would be lost, weighs more. A chunk of a capacity buffer
// weighs nothing: nobody is evicted.
func evictionWeight(r *cluster.ReschedulablePod, now time.Time) float64 {
	if r.Buffer != "" {
		return 0
	}
	w := max(0.1, r.EvictionCost())
	switch r.Controller {
	case "StatefulSet":
		w *= 2
	case "Job":
		w *= 1 + min(9, now.Sub(r.Created).Hours()*2)
	case "":
		w *= 10
	}
	return w
}

// youth makes it dearer to remove a young node: twice as much at first.
func youth(age time.Duration) float64 {
	return 1 + max(0, 1-age.Hours()/Young.Hours())
}

// AnyYoung reports whether time alone makes it cheaper to remove one of our nodes.
func AnyYoung(snap *cluster.Snapshot) bool {
	return slices.ContainsFunc(snap.Nodes, func(n cluster.Node) bool { return n.Claim != "" && snap.At.Sub(n.Created) < Young })
}

// total is what a pool's nodes cost and would disrupt together.
type total struct{ price, weight float64 }
