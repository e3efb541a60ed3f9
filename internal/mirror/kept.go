package mirror

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

// kept is what the last snapshot made of a Node and its pods. It holds for the next as long as
// neither changes: there is at most one for each Node, and a change of a pod drops it. What
// time alone changes is not kept.
type kept struct {
	node    *corev1.Node
	claim   *karpenterv1.NodeClaim
	machine cluster.Node
	limited bool // its Node says how many volumes it attaches
	// residents are those that guards were looked up for when that many changes of them had
	// been heard of; nil: they are not known.
	residents []cluster.Resident
	guarding  uint64
}

// machine returns a Node and its pods as the core sees them, but for volumes and plans, and
// whether it says itself how many volumes it attaches.
func (s *Store) machine(n *corev1.Node, nc *karpenterv1.NodeClaim, now time.Time) (m cluster.Node, isLimited bool) {
	if k := s.kept[n.Name]; k != nil && k.node == n && k.claim == nc {
		return k.machine, k.limited
	}
	delete(s.kept, n.Name)
	m = translate.Machine(n, nc, now)
	isLimited = limited(m.Allocatable)
	s.settle(&m, now)
	m.Ports, m.Daemons, m.Pods, m.Taints = slices.Clip(m.Ports), slices.Clip(m.Daemons), slices.Clip(m.Pods), slices.Clip(m.Taints)
	if !m.Leaving && !isTimed(n) && (nc == nil || !isTimed(nc)) && !s.timedPods(n.Name) {
		s.kept[n.Name] = &kept{node: n, claim: nc, machine: m, limited: isLimited}
	}
	return m, isLimited
}

// residentsOf returns the pods on a node that would want another, sorted; fill adds to each
// what the pod alone does not say.
func (s *Store) residentsOf(node string, now time.Time, fill func(*pod, *cluster.Resident)) (all []cluster.Resident) {
	k := s.kept[node]
	if k != nil && k.residents != nil && k.guarding == s.guarding {
		return k.residents
	}
	volumes := false
	for _, p := range s.byNode[node] {
		if !translate.Reschedulable(p.Pod) {
			continue
		}
		r := translate.Resident(p.Pod, now)
		fill(p, &r)
		all = append(all, r)
		volumes = volumes || len(p.Spec.Volumes) > 0
	}
	slices.SortFunc(all, func(a, b cluster.Resident) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	if k != nil && !volumes {
		k.residents, k.guarding = all, s.guarding
	}
	return all
}

// isTimed tells whether something has an annotation that may hold it for a time.
func isTimed(o metav1.Object) bool {
	_, is := o.GetAnnotations()[karpenterv1.DoNotDisruptAnnotationKey]
	return is
}

func (s *Store) timedPods(node string) bool {
	for _, p := range s.byNode[node] {
		if isTimed(p.Pod) {
			return true
		}
	}
	return false
}
