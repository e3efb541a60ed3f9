package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// refusedWeight is up to what weight the rules of a refused pod are asked: the effort for that is not counted.
const refusedWeight = 256

// leaveRunning returns the snapshot in which some pods that still run on nodes that go count where they are, and need no
// other node yet: those that the spread or anti-affinity of a pod selects that kube-scheduler has refused to bind to the
// node of an earlier plan. kube-scheduler counts them there, too. A plan that counts them elsewhere may wait for ever,
// because a PodDisruptionBudget does not let them go before the refused pod runs.
func leaveRunning(snap *cluster.Snapshot) *cluster.Snapshot {
	var refused []*cluster.Constraints
	for i := range snap.Pending {
		if p := &snap.Pending[i]; p.Refused && len(p.Constraints.Spread)+len(p.Constraints.AntiAffinity) > 0 && p.Constraints.Weight() <= refusedWeight {
			refused = append(refused, p.Constraints)
		}
	}
	if len(refused) == 0 {
		return snap
	}
	at := make(map[string]int, len(snap.Nodes))
	for i := range snap.Nodes {
		at[snap.Nodes[i].Name] = i
	}
	known := map[*cluster.Constraints]bool{} // whether one of refused selects them
	isSelected := func(sh *cluster.Constraints) bool {
		if _, is := known[sh]; !is {
			known[sh] = slices.ContainsFunc(refused, func(of *cluster.Constraints) bool { return keepsApart(of, sh, snap.Namespaces) })
		}
		return known[sh]
	}
	out := *snap
	out.Nodes = slices.Clone(snap.Nodes)
	out.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool {
		i, is := at[p.On]
		if !is || p.Gang != "" || !isSelected(p.Constraints) {
			return false
		}
		n := &out.Nodes[i]
		n.Pods = append(slices.Clip(n.Pods), cluster.PodCount{Constraints: p.Constraints, Count: 1})
		return true
	})
	return &out
}

// keepsApart reports whether the spread or anti-affinity of a pod selects another one.
func keepsApart(of, other *cluster.Constraints, namespaces map[string]map[string]string) bool {
	return of.Namespace == other.Namespace && slices.ContainsFunc(of.Spread, func(s cluster.Spread) bool { return s.Selector.Selects(other.Labels) }) ||
		slices.ContainsFunc(of.AntiAffinity, func(t cluster.PodTerm) bool {
			return t.Selects(other.Namespace, other.Labels, namespaces)
		})
}
