package mirror

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// AssumeClaim counts a NodeClaim that was just created, before the watch shows it.
func (s *Store) AssumeClaim(nc *karpenterv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.assumeClaim(nc, s.opts.Now())
}

// Assign records which node each pod of a plan is for, so that the next plan does not move it:
// a Node or NodeClaim of the snapshot, or a NodeClaim just created.
func (s *Store) Assign(pods []cluster.PodRef, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		p, ok := s.pods.all[types.UID(ref.UID)]
		if !ok || p.object.Spec.NodeName != "" && !s.views.isDeleting(p.object.Spec.NodeName, s.opts.Now()) {
			continue // since the plan was made it has gone or was bound
		}
		s.assignments.assign(p, node, s.opts.Now(), 2*s.opts.BatchMax)
	}
}

// AssignAll is Assign for all assignments of a plan.
func (s *Store) AssignAll(assignments []plan.Assignment) {
	byNode := map[string][]cluster.PodRef{}
	for _, a := range assignments {
		byNode[a.Node] = append(byNode[a.Node], a.Pod)
	}
	for node, pods := range byNode {
		s.Assign(pods, node)
	}
}

// AssignFor records the target node of pods that a disruption command will evict later. Until
// then they stay where they are. The record is void once the command is gone.
func (s *Store) AssignFor(command string, pods []cluster.PodRef, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		if p, ok := s.pods.all[types.UID(ref.UID)]; ok {
			p.history.target, p.history.targetOf = node, command
			s.nodes.podsChanged(p.object.Spec.NodeName)
		}
	}
}

// Unassign forgets which node pods are planned for, so that no node is kept for them.
func (s *Store) Unassign(pods []cluster.PodRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		if s.assignments.unassign(types.UID(ref.UID)) {
			s.events.Add(1) // the node may be empty now
			s.listeners.reportNomination()
		}
	}
}

// PlannedPods returns the pods without a node that are planned for a Node or NodeClaim, by name.
func (s *Store) PlannedPods(node string) (pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.assignments.plannedFor[node] {
		if p := s.pods.all[uid]; p != nil && p.object.Spec.NodeName == "" && p.object.DeletionTimestamp == nil {
			pods = append(pods, p.object)
		}
	}
	slices.SortFunc(pods, comparePods)
	return pods
}

// PodsWith returns the pods on these nodes that have an annotation.
func (s *Store) PodsWith(annotation string, on map[string]bool) (pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods.all {
		if _, has := p.object.Annotations[annotation]; has && on[p.object.Spec.NodeName] && translate.Active(p.object) {
			pods = append(pods, p.object)
		}
	}
	slices.SortFunc(pods, comparePods)
	return pods
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Nominations answers which pods are nominated for which Nodes, or should be.
type Nominations struct{ store *Store }

// Nominations returns what answers that of this Store.
func (s *Store) Nominations() *Nominations { return &Nominations{s} }

// View returns the pods that are planned for a node or carry a nomination of ours, and
// the Nodes that they are planned for.
func (n *Nominations) View() nominate.View {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assignments.viewNominations(s.opts.Now())
}

// Assume counts a nomination that is about to be written, before the watch shows it.
func (n *Nominations) Assume(ref cluster.PodRef, node string) {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if uid := types.UID(ref.UID); s.pods.all[uid] != nil {
		s.assignments.assumeNomination(uid, node, s.opts.Now())
	}
}

// Drop takes back Assume: the write failed.
func (n *Nominations) Drop(ref cluster.PodRef) {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assignments.dropNomination(types.UID(ref.UID))
}
