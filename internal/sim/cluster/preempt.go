package cluster

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// preempt makes room for a pod that fits on no Node: it chooses a Node, deletes pods of lower priority
// there, and returns the Node that the pod is now nominated for; empty: there is none.
func (s *Scheduler) preempt(pod *corev1.Pod, need demand, spreads []spread) (nominated string) {
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
		s.config.Hooks.Note("preempted %s for %s", victim.Name, pod.Name)
		s.config.Hooks.Count("pods preempted")
		s.api.Delete(victim, GraceOf(victim))
	}
	return best.from.name
}

// eviction is the pods whose end makes room on a host.
type eviction struct {
	from *host
	pods []*corev1.Pod // of the highest priority first
	// against is how many of them a PodDisruptionBudget protects, highest their highest priority,
	// sum that of all, since when the first of the highest runs.
	against int
	highest int32
	sum     int64
	since   time.Time
}

// compare orders evictions by kube-scheduler's preference.
func (e *eviction) compare(o *eviction) int {
	return cmp.Or(cmp.Compare(e.against, o.against), cmp.Compare(e.highest, o.highest), cmp.Compare(e.sum, o.sum),
		cmp.Compare(len(e.pods), len(o.pods)), o.since.Compare(e.since))
}

// victims returns the fewest pods of lower priority whose end makes room for a pod on a host. Pods that
// a PodDisruptionBudget protects are kept first; nil: there is no room without all of them either.
func (s *Scheduler) victims(pod *corev1.Pod, need demand, h *host, spreads []spread) *eviction {
	lower := h.below(priorityOf(pod))
	if len(lower) == 0 {
		return nil
	}
	sum := h.taken.plus(h.kept(priorityOf(pod))).plus(need)
	for _, other := range lower {
		sum = sum.minus(other.need)
	}
	if !sum.within(h.all) || !s.allows(pod, h, spreads) || !isApart(pod, h.pods[:len(h.pods)-len(lower)]) {
		return nil
	}
	e := &eviction{from: h}
	guarded := s.protected(lower)
	for _, first := range []bool{true, false} {
		for i, other := range lower {
			if guarded[other.pod] != first {
				continue
			}
			if with := sum.plus(other.need); with.within(h.all) && isApart(pod, lower[i:i+1]) {
				sum = with
			} else {
				e.add(other.pod, first)
			}
		}
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

// protected returns which of some pods may not go together by their PodDisruptionBudgets.
func (s *Scheduler) protected(pods []boundPod) map[*corev1.Pod]bool {
	against := map[*corev1.Pod]bool{}
	asked := map[*policyv1.PodDisruptionBudget]int32{}
	for _, r := range pods {
		for _, b := range s.api.BudgetsOf(r.pod) {
			if asked[b]++; asked[b] > b.Status.DisruptionsAllowed {
				against[r.pod] = true
			}
		}
	}
	return against
}
