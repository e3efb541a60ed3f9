package mirror

import (
	corev1 "k8s.io/api/core/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// PodNow is a pod as last seen, and what is planned for it. The object is the cache's own: read only.
type PodNow struct {
	Object *corev1.Pod
	// AsksForNode: kube-scheduler has found no node for it, or for one like it, and one of ours may help. Planned is the node or
	// NodeClaim that it is planned for; empty: none.
	AsksForNode bool
	Planned     string
}

// PodsThat returns the pods that have not ended and match, in no order.
func (s *Store) PodsThat(match func(*corev1.Pod) bool) (found []PodNow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods.all {
		if match(p.object) {
			found = append(found, PodNow{p.object, p.asksForNode, s.assignments.planned[uid]})
		}
	}
	return found
}

// NodeNow is a node as last seen. One of Node and Claim may be nil.
type NodeNow struct {
	Node  *corev1.Node
	Claim *karpenterv1.NodeClaim
	// Pods is how many pods that have not ended are on it.
	Pods int
}

// FindNode returns a node by its own name or its NodeClaim's.
func (s *Store) FindNode(name string) (NodeNow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes.list() {
		isClaims := n.claim != nil && n.claim.object.Name == name
		if n.name != name && !isClaims {
			continue
		}
		now := NodeNow{Node: n.object, Pods: len(s.pods.byNode[n.name])}
		if n.claim != nil {
			now.Claim = n.claim.object
		}
		return now, true
	}
	return NodeNow{}, false
}

// NodeCount returns how many nodes a pool has, those that are still to come included.
func (s *Store) NodeCount(pool string) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes.list() {
		if n.claim != nil && n.claim.object.Labels[karpenterv1.NodePoolLabelKey] == pool {
			count++
		}
	}
	return count
}

// JoiningCount returns how many NodeClaims have no Node yet. One that is being deleted gets none.
func (s *Store) JoiningCount() (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes.list() {
		if n.object == nil && n.claim.object.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}
