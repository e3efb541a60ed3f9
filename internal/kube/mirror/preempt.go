package mirror

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// keepPromises takes from machines what kube-scheduler keeps for pods for which it makes
// room there: it nominated them and told others to end. As long as these have not, both
// count, which is how kube-scheduler sees it.
func (s *Store) keepPromises(snap *cluster.Snapshot) {
	var promised []*pod
	for _, p := range s.unbound {
		if p.asksForNode && s.hasRoomMade(p) {
			promised = append(promised, p)
		}
	}
	slices.SortFunc(promised, func(a, b *pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range promised {
		at, ok := slices.BinarySearchFunc(snap.Nodes, p.Status.NominatedNodeName, func(n cluster.Node, name string) int { return cmp.Compare(n.Name, name) })
		if !ok {
			continue
		}
		n := &snap.Nodes[at]
		n.Used = n.Used.Plus(p.shape.Requests)
		n.Ports = append(slices.Clip(n.Ports), p.shape.Ports...)
		n.Empty = false
	}
}
