package cluster

import "time"

// Gang is a set of pods of which kube-scheduler binds none before it can bind so many: a
// PodGroup with the policy gang.
type Gang struct {
	Namespace, Name string
	Created         time.Time
	// Minimum is how many of its pods must have a node at once.
	Minimum int
	// Bound is how many pods have a node and keep it, or are pods that kube-scheduler makes room for.
	// Known is how many pods it has that have not ended, including those.
	Bound, Known int
}
