package view

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// WithNodes returns the state with those nodes alone whose labels are selected.
func (s *State) WithNodes(selects func(labels map[string]string) bool) *State {
	part, snap := *s, *s.Snapshot
	part.Snapshot = &snap
	snap.Nodes = slices.DeleteFunc(slices.Clone(snap.Nodes), func(n cluster.Node) bool { return !selects(n.Labels) })
	return &part
}

// WithPending returns the state with those pending pods alone that are in a namespace, unless it is empty, and whose
// labels are selected. Of those for which nothing is launched by choice no labels are known.
func (s *State) WithPending(namespace string, selects func(labels map[string]string) bool) *State {
	part, snap := *s, *s.Snapshot
	part.Snapshot = &snap
	isOut := func(ref cluster.PodRef, c *cluster.Constraints) bool {
		var labels map[string]string
		if c != nil {
			labels = c.Labels
		}
		return namespace != "" && ref.Namespace != namespace || !selects(labels)
	}
	snap.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return isOut(p.PodRef, p.Constraints) })
	snap.Excluded = slices.DeleteFunc(slices.Clone(snap.Excluded), func(p cluster.ExcludedPod) bool { return isOut(p.PodRef, nil) })
	return &part
}
