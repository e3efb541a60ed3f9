package mirror

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// PodObject returns a pod as last seen. It is the cache's own: read only, as all objects here.
func (s *Store) PodObject(ref cluster.PodRef) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods.all[types.UID(ref.UID)]
	if !ok {
		return nil, false
	}
	return p.object, true
}

// NodeObject returns a Node as last seen.
func (s *Store) NodeObject(name string) (*corev1.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes.get(name)
	return n, n != nil
}

// ClaimObject returns a NodeClaim as last seen.
func (s *Store) ClaimObject(name string) (*karpenterv1.NodeClaim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.nodes.claims[name]
	if !ok {
		return nil, false
	}
	return c.object, true
}

// PoolObject returns a NodePool as last seen.
func (s *Store) PoolObject(name string) (*karpenterv1.NodePool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	np, ok := s.pools.objects[name]
	return np, ok
}

// PendingCount returns how many pods ask for a node.
func (s *Store) PendingCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.pods.unbound {
		if s.assignments.needsNode(p) {
			n++
		}
	}
	return n
}

// IsDraining reports whether any Node or NodeClaim is being deleted, so that pods may need
// another node.
func (s *Store) IsDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.isDraining()
}

// IsOpenButForOurTaint reports whether nothing but our own taint keeps pods from a Node, and
// whether there is such a Node.
func (s *Store) IsOpenButForOurTaint(node string) (isOpen, isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes.get(node)
	return n != nil && isOpenButForOurTaint(n), n != nil
}
