package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// assumed are pods that are counted on hosts though they are not bound.
type assumed struct {
	pods  []*corev1.Pod
	hosts []*host
}

// assume counts a pod on a host.
func (a *assumed) assume(pod *corev1.Pod, h *host) {
	h.take(pod)
	a.pods, a.hosts = append(a.pods, pod), append(a.hosts, h)
}

// undo has no pod counted any more.
func (a *assumed) undo() {
	for i, pod := range a.pods {
		a.hosts[i].release(pod)
	}
}

// Without has pods counted on no Node while something is done.
func (s *Scheduler) Without(pods []*corev1.Pod, do func()) {
	var out []*corev1.Pod
	for _, pod := range pods {
		if h := s.hosts[pod.Spec.NodeName]; h != nil {
			if _, counted := h.search(pod); counted {
				h.release(pod)
				out = append(out, pod)
			}
		}
	}
	do()
	for _, pod := range out {
		s.hosts[pod.Spec.NodeName].take(pod)
	}
}

// FitTogether returns how many of some pods would fit on the Nodes beside all that are bound: the most that is
// found in a few orders, in each of which pods with a node selector come first. The pods need not exist. Pending
// pods keep no room from them, and Nodes that are being deleted have none.
func (s *Scheduler) FitTogether(pods []*corev1.Pod) (most int) {
	measures := []func(demand) amount{
		func(d demand) amount { return d.cpu },
		func(d demand) amount { return d.memory },
	}
	for _, size := range measures {
		sorted := slices.Clone(pods)
		slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(len(b.Spec.NodeSelector), len(a.Spec.NodeSelector)), cmp.Compare(size(asks(b)), size(asks(a))))
		})
		for _, left := range measures {
			if most < len(pods) {
				most = max(most, s.fitInOrder(sorted, left))
			}
		}
	}
	return most
}

// fitInOrder returns how many pods fit if each goes where the least is left.
func (s *Scheduler) fitInOrder(pods []*corev1.Pod, left func(demand) amount) int {
	var a assumed
	for _, pod := range pods {
		var best *host
		var least amount
		need := asks(pod)
		for _, h := range s.sorted {
			if h.node.DeletionTimestamp != nil || !h.taken.plus(need).within(h.all) || !s.allows(pod, h, nil) {
				continue
			}
			if free := left(h.all.minus(h.taken)); best == nil || free < least {
				best, least = h, free
			}
		}
		if best != nil {
			a.assume(pod, best)
		}
	}
	a.undo()
	return len(a.pods)
}
