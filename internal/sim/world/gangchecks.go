package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// gangState is how far a gang is.
type gangState struct {
	// minimum is how many pods must be bound at once, bound how many are, waiting how many are not.
	minimum, bound, waiting int
	// moves: a pod is on a node that goes, so that it needs another, or may not be seen to have a node yet.
	moves bool
}

// stateOf returns how far the gang of a workload is.
func (g *gangs) stateOf(a *cluster.Workload) (s gangState) {
	_, minimum, pods := g.w.api.GangOf(cluster.Key{Namespace: cluster.Namespace, Name: a.Name})
	s.minimum = minimum
	for _, pod := range pods {
		node, there := cluster.Find[*corev1.Node](g.w.api, "", pod.Spec.NodeName)
		switch {
		case pod.Spec.NodeName == "":
			s.waiting++
		case g.w.at.Sub(g.w.checks.boundAt[cluster.KeyOf(pod)]) < blind || g.goes(pod.Spec.NodeName):
			s.moves = true
			s.bound++
		case !there || node.DeletionTimestamp != nil || cluster.HasTaint(node, karpenterv1.DisruptedTaintKey) || cluster.HasTaint(node, corev1.TaintNodeUnreachable):
			s.moves = true
			s.bound++
		default:
			s.bound++
		}
	}
	return s
}

// goes reports whether the instance of a Node is going to be terminated or does not work.
func (g *gangs) goes(node string) bool {
	i := g.w.cloud.byNode[node]
	if i == nil || !g.w.cloud.kubeletUp(node) {
		return true
	}
	nc := g.w.checks.claimOf(i)
	return nc == nil || !isActive(nc)
}

// canRun reports whether a gang that waits can be whole with so many nodes more.
func (s *gangState) canRun(nodes int) bool {
	return s.waiting > 0 && s.bound+s.waiting >= s.minimum && nodes > 0 && s.minimum-s.bound <= nodes
}

// nodesLeft returns how many nodes there can be for pods that wait: those without a pod of a gang, and those
// within the limit.
func (g *gangs) nodesLeft() int {
	nodes, free := 0, 0
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](g.w.api) {
		if nc.Labels[karpenterv1.NodePoolLabelKey] != gangPool || nc.DeletionTimestamp != nil {
			continue
		}
		nodes++
		if i := g.w.checks.instanceOf(nc); i == nil || !g.w.checks.hasPods(i.node) {
			free++
		}
	}
	limit := g.pool.Spec.Limits[corev1.ResourceCPU]
	return free + max(0, int(limit.Value()/gangNodeCPU)-nodes)
}

// observe takes note of pods that go, and judges each NodeClaim as it is created.
func (g *gangs) observe(kind string, was, is client.Object) {
	switch before, _ := was.(*corev1.Pod); {
	case kind == "Pod" && before != nil && before.Spec.SchedulingGroup != nil && (is == nil || is.GetDeletionTimestamp() != nil):
		g.changed = g.w.at
	case kind == "NodeClaim" && was == nil && is.GetLabels()[karpenterv1.NodePoolLabelKey] == gangPool && is.GetAnnotations()[replacesKey] == "":
		g.created(is)
	}
}

// created: no node is launched while no gang can be whole.
func (g *gangs) created(nc client.Object) {
	if g.w.at.Sub(g.changed) < blind || g.w.at.Sub(g.limitAt) < known {
		return
	}
	left := g.nodesLeft()
	for _, of := range g.all {
		if s := g.stateOf(of.Workload); s.moves || s.canRun(left) {
			return
		}
	}
	g.w.fail("claim %s is created for gangs, of which none can be whole: %d nodes are left%s", nc.GetName(), left, g)
}

// disrupts: a gang that runs is not broken by choice.
func (g *gangs) disrupts(nc *karpenterv1.NodeClaim, reason string) {
	i := g.w.checks.instanceOf(nc)
	if !g.on || i == nil || reason == "Unhealthy" || nc.Labels[karpenterv1.NodePoolLabelKey] != gangPool {
		return
	}
	for _, of := range g.all {
		_, minimum, pods := g.w.api.GangOf(cluster.Key{Namespace: cluster.Namespace, Name: of.Name})
		bound, on, young := 0, 0, false
		for _, pod := range pods {
			if pod.Spec.NodeName == "" {
				continue
			}
			bound++
			young = young || g.w.at.Sub(g.w.checks.boundAt[cluster.KeyOf(pod)]) < blind
			if pod.Spec.NodeName == i.node {
				on++
			}
		}
		switch {
		case on == 0 || young || g.w.at.Sub(g.changed) < blind:
		case of.Together:
			g.w.fail("claim %s is disrupted (%s): gang %s has %d of its %d pods there, which are only disrupted all at once", nc.Name, reason, of.Name, on, bound)
		case bound >= minimum && bound-on < minimum:
			g.w.fail("claim %s is disrupted (%s): gang %s has %d pods bound, %d there, and needs %d", nc.Name, reason, of.Name, bound, on, minimum)
		}
	}
}

// atRest: every gang runs that can, and of the others no pod.
func (g *gangs) atRest() {
	if !g.on || g.w.at.Sub(g.changed) < movesFor {
		return
	}
	left := g.nodesLeft()
	for _, of := range g.all {
		s := g.stateOf(of.Workload)
		switch {
		case s.canRun(left):
			g.w.fail("at rest, gang %s waits though it can run: %+v, %d nodes are left", of.Name, s, left)
		case s.bound+s.waiting != of.Replicas:
			g.w.fail("at rest, gang %s has %d of %d pods", of.Name, s.bound+s.waiting, of.Replicas)
		}
	}
}

// gangsLate is how long a gang that can run may wait after the storm.
const gangsLate = 20 * time.Minute

// check: after the storm every gang runs in time that can.
func (g *gangs) check() {
	left := g.nodesLeft()
	for _, of := range g.all {
		s := g.stateOf(of.Workload)
		if lasts(g.w, &of.lateSince, !g.w.chaos.stormy && g.w.acts() && s.canRun(left)) > gangsLate {
			g.w.fail("gang %s waits since %s though it can run: %+v, %d nodes are left", of.Name, g.w.at.Sub(of.lateSince), s, left)
		}
	}
}

// holds reports whether a pod of a gang keeps its node, for as long as it runs.
func (g *gangs) holds(nc *karpenterv1.NodeClaim) bool {
	i := g.w.checks.instanceOf(nc)
	return nc.Labels[karpenterv1.NodePoolLabelKey] == gangPool && i != nil && g.w.checks.hasPods(i.node)
}

// String returns how far each gang is.
func (g *gangs) String() (all string) {
	for _, of := range g.all {
		all += fmt.Sprintf(", %s %+v", of.Name, g.stateOf(of.Workload))
	}
	return all
}
