package whatif

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// pin keeps from spot nodes so many pods of each kind that no more than a share may be there: those that are on
// no spot node first. A pod that is on one is taken from it. It returns how many are.
func pin(snap *cluster.Snapshot, share float64) (evicted int) {
	p := &pins{snap: snap, apart: map[*cluster.Constraints]*cluster.Constraints{}, left: map[*cluster.Constraints]int{}}
	count := map[*cluster.Constraints]int{}
	p.each(func(c *cluster.Constraints) { count[c]++ })
	for c, n := range count {
		p.left[c] = n - int(math.Floor(float64(n)*share+1e-9))
	}
	for _, spot := range []bool{false, true} {
		for i := range snap.Nodes {
			if n := &snap.Nodes[i]; n.Claim != "" && (n.Labels[label.CapacityType] == label.Spot) == spot {
				evicted += p.node(n, spot)
			}
		}
		if !spot {
			for i := range snap.Pending {
				snap.Pending[i].Constraints = p.take(snap.Pending[i].Constraints)
			}
		}
	}
	slices.SortFunc(snap.Pending, byName)
	return evicted
}

// pins are how many pods of each kind are still to be kept from spot nodes.
type pins struct {
	snap  *cluster.Snapshot
	left  map[*cluster.Constraints]int
	apart map[*cluster.Constraints]*cluster.Constraints
}

// each calls f for the constraints of each pod that may move.
func (p *pins) each(f func(*cluster.Constraints)) {
	for i := range p.snap.Nodes {
		for k := range p.snap.Nodes[i].Reschedulable {
			if p.snap.Nodes[i].Claim != "" {
				f(p.snap.Nodes[i].Reschedulable[k].Constraints)
			}
		}
	}
	for i := range p.snap.Pending {
		f(p.snap.Pending[i].Constraints)
	}
}

// take returns the constraints of the next pod of a kind: its own, or those that keep it from spot nodes.
func (p *pins) take(c *cluster.Constraints) *cluster.Constraints {
	if p.left[c] == 0 {
		return c
	}
	p.left[c]--
	if p.apart[c] == nil {
		apart := *c
		apart.Terms = make([]label.Requirements, len(c.Terms))
		for i, term := range c.Terms {
			apart.Terms[i] = term.Intersect(label.Requirements{label.CapacityType: label.NotIn(label.Spot)})
		}
		p.apart[c] = &apart
	}
	return p.apart[c]
}

// node goes through the pods of a node. From a spot node those that are kept from it are taken.
func (p *pins) node(n *cluster.Node, spot bool) (evicted int) {
	pods := slices.Clone(n.Reschedulable)
	n.Reschedulable, n.Pods = nil, slices.Clone(n.Pods)
	for _, r := range pods {
		was := r.Constraints
		r.Constraints = p.take(was)
		if r.Constraints == was {
			n.Reschedulable = append(n.Reschedulable, r)
			continue
		}
		count(n, was, -1)
		if !spot {
			count(n, r.Constraints, 1)
			n.Reschedulable = append(n.Reschedulable, r)
			continue
		}
		evicted++
		n.Used = n.Used.MinusFloor(was.Requests)
		p.snap.Pending = append(p.snap.Pending, cluster.Pod{PodRef: r.PodRef, Created: r.Created, DoNotDisrupt: r.DoNotDisrupt != "", Constraints: r.Constraints})
	}
	n.Empty = n.Empty || spot && len(n.Reschedulable) == 0
	return evicted
}

// count changes how many pods with these constraints a node has.
func count(n *cluster.Node, c *cluster.Constraints, by int32) {
	k := slices.IndexFunc(n.Pods, func(p cluster.PodCount) bool { return p.Constraints == c })
	if k < 0 {
		n.Pods = append(n.Pods, cluster.PodCount{Constraints: c})
		k = len(n.Pods) - 1
	}
	n.Pods[k].Count += by
	n.Pods = slices.DeleteFunc(n.Pods, func(p cluster.PodCount) bool { return p.Count <= 0 })
}

// byName orders pods as a snapshot has them.
func byName(a, b cluster.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
