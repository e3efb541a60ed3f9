package cluster

import "time"

// Resident is a pod on a machine that would want another machine if that one went.
type Resident struct {
	PodRef
	Created time.Time
	// Shape is shared by all pods that are alike to the scheduler.
	Shape *Shape
	// DeletionCost is the annotation controller.kubernetes.io/pod-deletion-cost; 0: none.
	DeletionCost float64
	Priority     int32
	// Controller is the kind of what made the pod ("ReplicaSet"); empty: nothing, so nobody
	// makes another when it is evicted.
	Controller string
	// Held says why the pod may not be evicted by our choice ("annotation
	// karpenter.sh/do-not-disrupt"); empty: it may be, as far as its Guards let it.
	Held string
	// Guards are the indexes in Snapshot.Guards of those that count its eviction.
	Guards []int
}

// Guard is a PodDisruptionBudget.
type Guard struct {
	Name string // namespace/name
	// Allowed is how many of the pods it selects may be evicted now.
	Allowed int32
}
