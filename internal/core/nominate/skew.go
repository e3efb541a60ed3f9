package nominate

import "github.com/dovetail-sh/dovetail/internal/core/cluster"

// nominations counts the nominated pods, by node and pod constraints.
type nominations map[string]map[*cluster.Constraints]int32

func (n nominations) add(node string, podConstraints *cluster.Constraints) {
	if node == "" || podConstraints == nil {
		return
	}
	if n[node] == nil {
		n[node] = map[*cluster.Constraints]int32{}
	}
	n[node][podConstraints]++
}

// exceedsSkew reports whether a pod would wait in vain if it were nominated beside the pods
// that are nominated for its node already. When kube-scheduler tries a node it counts the pods
// nominated for that node as bound, but not the pods nominated for other nodes. If more pods of
// one topology spread constraint than its skew allows were nominated for each node, all of them
// would wait for one another for ever.
func (n nominations) exceedsSkew(p *Pod) bool {
	if p.Constraints == nil {
		return false
	}
	for i := range p.Constraints.Spread {
		spread := &p.Constraints.Spread[i]
		count := int32(0)
		if selects(spread, p.Constraints, p.Constraints) {
			count++
		}
		for other, pods := range n[p.Node] {
			if selects(spread, p.Constraints, other) {
				count += pods
			}
		}
		if count > max(spread.MaxSkew, 1) {
			return true
		}
	}
	return false
}

// selects reports whether the spread constraint of a pod counts another pod.
func selects(spread *cluster.Spread, of, other *cluster.Constraints) bool {
	return of.Namespace == other.Namespace && spread.Selector.Selects(other.Labels)
}
