package mirror

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// addPending adds the pods that ask for a node, and those whose node is going.
func (b *builder) addPending() {
	s := b.store
	for uid, p := range s.pods.unbound {
		if s.assignments.needsNode(p) {
			b.addPendingPod(p, s.assignments.planned[uid])
		}
	}
	for i := range b.snap.Nodes {
		v := &b.snap.Nodes[i]
		if !v.Deleting {
			continue
		}
		for _, p := range s.pods.byNode[v.Name] {
			if s.views.willMove(p.object, v.Deadline, b.now) {
				b.addPendingPod(p, cmp.Or(s.assignments.planned[p.object.UID], p.history.targetBy(v.Step)))
			}
		}
	}
	slices.SortFunc(b.snap.Pending, func(a, b cluster.Pod) int { return a.Compare(b.PodRef) })
	slices.SortFunc(b.snap.Excluded, func(a, b cluster.ExcludedPod) int { return a.Compare(b.PodRef) })
}

// addPendingPod adds a pod that needs a node: to Excluded, if nothing is launched for it now.
func (b *builder) addPendingPod(p *pod, planned string) {
	if out, is := b.store.opts.Autoscaler.Excluded(p.object, b.now); is {
		b.snap.Excluded = append(b.snap.Excluded, out)
		return
	}
	constraints, _ := b.constraints.of(p)
	b.snap.Pending = append(b.snap.Pending, cluster.Pod{
		PodRef: translate.PodRef(p.object), Created: p.object.CreationTimestamp.Time, Planned: planned, Constraints: constraints,
		Running: p.object.Spec.NodeName != "", On: p.object.Spec.NodeName, Refused: len(p.history.refusedBy) > 0,
		DoNotDisrupt: b.store.opts.Autoscaler.BlocksDisruption(p.object, b.now) != "", Gang: b.store.gangs.nameOf(p),
	})
}

// addMovable adds to each node the pods that would need another one if it went, and to the
// snapshot the PodDisruptionBudgets that limit their eviction.
func (b *builder) addMovable() {
	s := b.store
	// Volumes of pods that have a node are no reason to wake the provisioner.
	defer func(wanted bool) { s.volumes.isWanted = wanted }(s.volumes.isWanted)
	byNamespace, selected := s.pdbs.addTo(b.snap), selected{}
	nodes := s.nodes.list()
	for i := range b.snap.Nodes {
		v := &b.snap.Nodes[i]
		if v.Deleting {
			continue
		}
		v.Reschedulable = b.movableOf(nodes[i], func(p *pod, r *cluster.ReschedulablePod) {
			r.Moved, r.Moves, r.TargetNode = s.evictions.movedTo(v, p), p.history.moves, p.history.targetBy(v.Step)
			if translate.Evictable(p.object, b.now) {
				selected.addTo(r, p, byNamespace[p.object.Namespace])
			}
		})
	}
}

// movableOf returns the pods on a node that would need another one, sorted by name. fill adds
// to each what neither its object nor its volumes say.
func (b *builder) movableOf(n *node, fill func(*pod, *cluster.ReschedulablePod)) []cluster.ReschedulablePod {
	s := b.store
	if !n.hasMovable || n.pdbsVersion != s.pdbs.version {
		n.movable, n.withClaims = nil, nil
		for _, p := range s.pods.byNode[n.name] {
			if !translate.Reschedulable(p.object) {
				continue
			}
			r := translate.ReschedulablePod(p.object, s.opts.Autoscaler, b.now)
			r.Constraints = b.held(p, p.constraints.constraints)
			cost, _ := translate.EvictionCost(p.object, s.opts.DeletionCosts)
			r.DeletionCost = float64(cost)
			fill(p, &r)
			if p.hasClaims {
				n.withClaims = append(n.withClaims, podWithClaims{p, len(n.movable)})
			}
			n.movable = append(n.movable, r)
		}
		n.hasMovable, n.pdbsVersion, n.volumesVersion = n.hasPods, s.pdbs.version, 0
	}
	if len(n.withClaims) > 0 && n.volumesVersion != s.volumes.version {
		n.movable, n.volumesVersion = slices.Clone(n.movable), s.volumes.version
		for _, p := range n.withClaims {
			constraints, isLasting := b.constraints.of(p.pod)
			if n.movable[p.at].Constraints = b.held(p.pod, constraints); !isLasting {
				n.volumesVersion = 0
			}
		}
	}
	return n.movable
}
