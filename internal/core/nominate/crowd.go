package nominate

import "github.com/dovetail-sh/dovetail/internal/core/cluster"

// hinted counts the pods that carry a hint, by node and shape.
type hinted map[string]map[*cluster.Shape]int32

func (l *look) countHints() {
	l.hinted = hinted{}
	for i := range l.Pods {
		l.hinted.add(l.Pods[i].Hint, l.Pods[i].Shape)
	}
}

func (h hinted) add(node string, shape *cluster.Shape) {
	if node == "" || shape == nil {
		return
	}
	if h[node] == nil {
		h[node] = map[*cluster.Shape]int32{}
	}
	h[node][shape]++
}

// crowd tells whether a pod would wait in vain if it were hinted beside those that are
// hinted to its node already. When kube-scheduler tries a node it takes the pods hinted
// there for bound, but none of those hinted elsewhere: of pods that are spread, more than
// the skew allows would wait for each other on every node, for ever.
func (h hinted) crowd(p *Pod) bool {
	if p.Shape == nil {
		return false
	}
	for i := range p.Shape.Spread {
		spread := &p.Shape.Spread[i]
		n := int32(0)
		if selects(spread, p.Shape, p.Shape) {
			n++
		}
		for other, pods := range h[p.Node] {
			if selects(spread, p.Shape, other) {
				n += pods
			}
		}
		if n > max(spread.MaxSkew, 1) {
			return true
		}
	}
	return false
}

// selects tells whether a shape's spread counts pods of another.
func selects(spread *cluster.Spread, of, other *cluster.Shape) bool {
	return of.Namespace == other.Namespace && spread.Selector.Selects(other.Labels)
}
