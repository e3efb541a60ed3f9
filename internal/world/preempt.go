package world

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// leastPriority is that of pods which ask for none: nobody here asks for less.
const leastPriority = 0

// preempt makes room for a pod that fits nowhere: it picks a Node, has pods of lower priority
// leave it, and nominates the pod for it. Without one the pod loses what it was nominated for.
func (s *scheduler) preempt(pod *corev1.Pod, need demand, spreads []spread) (nominated string) {
	if priorityOf(pod) <= leastPriority {
		return ""
	}
	if h := s.hosts[pod.Status.NominatedNodeName]; h != nil && h.makesRoom(pod) {
		return h.name
	}
	var best *eviction
	for _, h := range s.sorted {
		if e := s.victims(pod, need, h, spreads); e != nil && (best == nil || e.compare(best) < 0) {
			best = e
		}
	}
	if best == nil {
		return ""
	}
	for _, victim := range best.pods {
		s.w.note("preempted %s for %s", victim.Name, pod.Name)
		s.w.count("pods preempted")
		s.w.api.remove(victim, graceOf(victim))
	}
	return best.from.name
}

// makesRoom tells whether pods of lower priority than a pod's are leaving a host.
func (h *host) makesRoom(pod *corev1.Pod) bool {
	for _, other := range h.pods {
		if other.DeletionTimestamp != nil && priorityOf(other) < priorityOf(pod) {
			return true
		}
	}
	return false
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return leastPriority
	}
	return *pod.Spec.Priority
}

// eviction is what it takes to make room on a host.
type eviction struct {
	from *host
	pods []*corev1.Pod // of the highest priority first
	// against is how many of them a disruption budget guards, highest their highest priority,
	// sum that of all, since when the first of the highest runs.
	against int
	highest int32
	sum     int64
	since   time.Time
}

// compare orders by which is better: as kube-scheduler has it.
func (e *eviction) compare(o *eviction) int {
	return cmp.Or(cmp.Compare(e.against, o.against), cmp.Compare(e.highest, o.highest), cmp.Compare(e.sum, o.sum),
		cmp.Compare(len(e.pods), len(o.pods)), o.since.Compare(e.since))
}

// victims returns the fewest pods of lower priority whose end makes room for a pod on a host,
// those first spared that a budget guards; nil: it would have no room without them either.
func (s *scheduler) victims(pod *corev1.Pod, need demand, h *host, spreads []spread) *eviction {
	var lower []*corev1.Pod
	for _, other := range h.pods {
		if priorityOf(other) < priorityOf(pod) {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return nil
	}
	slices.SortFunc(lower, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(priorityOf(b), priorityOf(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), compareKeys(keyOf(a), keyOf(b)))
	})
	guarded := s.guarded(lower)
	lower = slices.Concat(only(lower, guarded, true), only(lower, guarded, false))
	for _, other := range lower {
		h.leave(keyOf(other))
	}
	e := &eviction{from: h}
	fits := s.fits(pod, need, h, spreads)
	for _, other := range lower {
		h.take(other)
		if fits && !s.fits(pod, need, h, spreads) {
			h.leave(keyOf(other))
			e.add(other, guarded[other])
		}
	}
	for _, victim := range e.pods {
		h.take(victim)
	}
	if !fits {
		return nil
	}
	return e
}

func (e *eviction) add(pod *corev1.Pod, guarded bool) {
	p := priorityOf(pod)
	if guarded {
		e.against++
	}
	if at := pod.CreationTimestamp.Time; len(e.pods) == 0 || p > e.highest || p == e.highest && at.Before(e.since) {
		e.highest, e.since = max(p, e.highest), at
	}
	e.pods, e.sum = append(e.pods, pod), e.sum+int64(p)
}

// only returns those of the pods that are guarded, or those that are not.
func only(pods []*corev1.Pod, guarded map[*corev1.Pod]bool, yes bool) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return guarded[p] != yes })
}

// guarded returns which of some pods may not go together, as far as disruption budgets are
// asked.
func (s *scheduler) guarded(pods []*corev1.Pod) map[*corev1.Pod]bool {
	against := map[*corev1.Pod]bool{}
	asked := map[*policyv1.PodDisruptionBudget]int32{}
	for _, pod := range pods {
		for _, b := range s.w.api.budgetsOf(pod) {
			if asked[b]++; asked[b] > b.Status.DisruptionsAllowed {
				against[pod] = true
			}
		}
	}
	return against
}
