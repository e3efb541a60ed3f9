package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// leaveRunning returns the snapshot for kube-scheduler's eyes, where it has refused to bind pods to the nodes of earlier
// plans: pods that still run on nodes that go, and that the rules of a refused pod select, count where they are and need
// no other node yet. A plan that counts them elsewhere already may wait for ever: a PodDisruptionBudget does not let
// them go before the refused pod runs.
func leaveRunning(snap *cluster.Snapshot) *cluster.Snapshot {
	var refused []*cluster.Constraints
	for i := range snap.Pending {
		if p := &snap.Pending[i]; p.Refused && len(p.Constraints.Spread)+len(p.Constraints.AntiAffinity) > 0 && !slices.Contains(refused, p.Constraints) {
			refused = append(refused, p.Constraints)
		}
	}
	if len(refused) == 0 {
		return snap
	}
	at := map[string]int{}
	for i := range snap.Nodes {
		at[snap.Nodes[i].Name] = i
	}
	out := *snap
	out.Nodes, out.Pending = slices.Clone(snap.Nodes), slices.Clone(snap.Pending)
	out.Pending = slices.DeleteFunc(out.Pending, func(p cluster.Pod) bool {
		i, is := at[p.On]
		if !is || p.Gang != "" || !slices.ContainsFunc(refused, func(of *cluster.Constraints) bool { return concerns(of, p.Constraints) }) {
			return false
		}
		n := &out.Nodes[i]
		n.Pods = append(slices.Clip(n.Pods), cluster.PodCount{Constraints: p.Constraints, Count: 1})
		return true
	})
	return &out
}

// concerns reports whether a rule that keeps pods apart selects pods with other constraints.
func concerns(of, other *cluster.Constraints) bool {
	return of.Namespace == other.Namespace && slices.ContainsFunc(of.Spread, func(s cluster.Spread) bool { return s.Selector.Selects(other.Labels) }) ||
		slices.ContainsFunc(of.AntiAffinity, func(t cluster.PodTerm) bool {
			return slices.Contains(t.Namespaces, other.Namespace) && t.Selector.Selects(other.Labels)
		})
}
