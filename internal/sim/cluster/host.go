package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// host is a Node, what is taken of it, and what it has.
type host struct {
	name       string
	node       *corev1.Node
	pods       []boundPod // the most important and oldest first
	taken, all demand
	// promised is what the pods that wait in this round and are nominated for it will take, by
	// their priority.
	promised []promise
}

// boundPod is a pod that is bound to a Node, and what it takes there.
type boundPod struct {
	pod  *corev1.Pod
	need demand
}

func (h *host) take(pod *corev1.Pod) {
	r := boundPod{pod, asks(pod)}
	i, _ := h.search(pod)
	h.pods, h.taken = slices.Insert(h.pods, i, r), h.taken.plus(r.need)
}

func (h *host) release(pod *corev1.Pod) {
	if i, there := h.search(pod); there {
		h.taken = h.taken.minus(h.pods[i].need)
		h.pods = slices.Delete(h.pods, i, i+1)
	}
}

// search returns where a pod is among those of a host, or would be.
func (h *host) search(pod *corev1.Pod) (at int, there bool) {
	return slices.BinarySearchFunc(h.pods, pod, func(r boundPod, pod *corev1.Pod) int { return compareImportance(r.pod, pod) })
}

// compareImportance orders pods: the most important and oldest first.
func compareImportance(a, b *corev1.Pod) int {
	if p := cmp.Compare(priorityOf(b), priorityOf(a)); p != 0 {
		return p
	}
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return compareKeys(KeyOf(a), KeyOf(b))
}

// score scores a Node: the emptiest is best, one with a soft taint last.
func (h *host) score() float64 {
	score := 1 - float64(h.taken.cpu)/float64(max(1, h.all.cpu))
	for _, t := range h.node.Spec.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule {
			score -= 10
		}
	}
	return score
}

// promise is what pods of a priority that are nominated for a Node will take there.
type promise struct {
	priority int32
	sum      demand
}

// promise adds what a pod that is nominated for a host needs there so many times. Where there is
// no host nothing is kept.
func (h *host) promise(t *attempt, times amount) {
	if h == nil {
		return
	}
	priority := priorityOf(t.pod)
	i := slices.IndexFunc(h.promised, func(p promise) bool { return p.priority == priority })
	if i < 0 {
		i = len(h.promised)
		h.promised = append(h.promised, promise{priority: priority})
	}
	sum := &h.promised[i].sum
	*sum = sum.plus(demand{times * t.need.cpu, times * t.need.memory, times * t.need.pods})
}

// kept returns what a host keeps for waiting pods that are at least so important.
func (h *host) kept(priority int32) (sum demand) {
	for _, p := range h.promised {
		if p.priority >= priority {
			sum = sum.plus(p.sum)
		}
	}
	return sum
}

// isApart reports whether none of some pods on a Node and this one want to be apart.
func isApart(pod *corev1.Pod, pods []boundPod) bool {
	return pod.Spec.Affinity == nil || !slices.ContainsFunc(pods, func(r boundPod) bool { return workloadOf(r.pod) == workloadOf(pod) })
}

// suits reports whether the taints and labels of a Node let a pod go there.
func suits(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Spec.Unschedulable || !isSubset(pod.Spec.NodeSelector, node.Labels) {
		return false
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		hard := t.Effect != corev1.TaintEffectPreferNoSchedule
		if hard && !slices.ContainsFunc(pod.Spec.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, t) }) {
			return false
		}
	}
	return true
}

func tolerates(x corev1.Toleration, t *corev1.Taint) bool {
	return (x.Key == "" || x.Key == t.Key) && (x.Effect == "" || x.Effect == t.Effect) &&
		(x.Operator == corev1.TolerationOpExists || x.Value == t.Value)
}

// makesRoom reports whether pods of lower priority than a pod's are leaving a host.
func (h *host) makesRoom(pod *corev1.Pod) bool {
	return slices.ContainsFunc(h.below(priorityOf(pod)), func(r boundPod) bool { return r.pod.DeletionTimestamp != nil })
}

// below returns the pods on a host of a lower priority.
func (h *host) below(priority int32) []boundPod {
	from := slices.IndexFunc(h.pods, func(r boundPod) bool { return priorityOf(r.pod) < priority })
	if from < 0 {
		return nil
	}
	return h.pods[from:]
}
