package cluster

import "time"

// Gang is a set of pods of which kube-scheduler binds none before it can bind so many: a
// PodGroup with the policy gang.
type Gang struct {
	Namespace, Name string
	Created         time.Time
	// Minimum is how many of its pods must have a node at once.
	Minimum int
	// Bound are the pods that have a node and keep it, or that kube-scheduler makes room for.
	// Known are all its pods that are not over, those among them.
	Bound, Known int
}
