package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// host is a Node with its allocatable resources and what its pods request.
type host struct {
	name       string
	node       *corev1.Node
	pods       []boundPod // the most important and oldest first
	taken, all demand
	// promised is what the pending pods nominated for it request in this round, by priority.
	promised []promise
}

// boundPod is a pod that is bound to a Node, and what it requests.
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

// search returns the index of a pod in pods, or the index at which to insert it.
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

// promise is what the pods of one priority that are nominated for a Node request.
type promise struct {
	priority int32
	sum      demand
}

// promise adds the requests of a pod that is nominated for the host, or with times -1 takes them off.
// The host may be nil.
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

// kept returns what a host keeps for nominated pods of at least a priority.
func (h *host) kept(priority int32) (sum demand) {
	for _, p := range h.promised {
		if p.priority >= priority {
			sum = sum.plus(p.sum)
		}
	}
	return sum
}

// isApart reports whether the anti-affinity of a pod lets it be on a Node beside some pods.
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

// makesRoom reports whether pods of a lower priority are being deleted on a host.
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
