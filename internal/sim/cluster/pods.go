package cluster

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// AppLabel is the label by which pods, and their PodDisruptionBudgets, name their workload.
	AppLabel = "app"
	// Namespace is where workloads are.
	Namespace = "default"
	// nodeIndex finds pods by the node they are bound to.
	nodeIndex = "node"
)

// PodsOf returns the pods of a workload, sorted by name.
func (a *API) PodsOf(name string) []*corev1.Pod { return a.pods(AppLabel, name) }

// PodsOn returns the pods that are bound to a node, sorted by name.
func (a *API) PodsOn(node string) []*corev1.Pod { return a.pods(nodeIndex, node) }

func (a *API) pods(field, value string) []*corev1.Pod {
	found, _ := a.Shelf("Pod").find(field, value)
	pods := make([]*corev1.Pod, len(found))
	for i, o := range found {
		pods[i] = o.(*corev1.Pod)
	}
	return pods
}

// IsActive reports whether a pod has neither succeeded nor failed.
func IsActive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	i := slices.IndexFunc(pod.Status.Conditions, func(had corev1.PodCondition) bool { return had.Type == c.Type })
	if i < 0 {
		pod.Status.Conditions = append(slices.Clip(pod.Status.Conditions), c)
		return
	}
	if had := &pod.Status.Conditions[i]; had.Status != c.Status || had.Reason != c.Reason {
		pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
		pod.Status.Conditions[i] = c
	}
}

func asks(pod *corev1.Pod) demand {
	sum := demand{pods: 1}
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		sum.cpu, sum.memory = sumOf(sum.cpu, r.Cpu().MilliValue()), sumOf(sum.memory, r.Memory().Value())
	}
	return sum
}

// sumOf adds what is asked for, up to more than there can be.
func sumOf(a, b amount) amount {
	const most = math.MaxInt64 / 4
	return min(min(a, most)+min(b, most), most)
}

// demand is what a pod asks for, or several.
type demand struct{ cpu, memory, pods amount }

// amount is milli-cpus, bytes or pods.
type amount = int64

func (d demand) plus(o demand) demand {
	return demand{d.cpu + o.cpu, d.memory + o.memory, d.pods + o.pods}
}

func (d demand) minus(o demand) demand {
	return demand{d.cpu - o.cpu, d.memory - o.memory, d.pods - o.pods}
}

// within reports whether there is so much.
func (d demand) within(all demand) bool {
	return d.cpu <= all.cpu && d.memory <= all.memory && d.pods <= all.pods
}

// workloadOf names the workload of a pod.
func workloadOf(pod *corev1.Pod) Key {
	return Key{Namespace: pod.Namespace, Name: pod.Labels[AppLabel]}
}

// IsReady reports whether a pod's condition Ready is true.
func IsReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isSubset reports whether all labels of one are among the others.
func isSubset(some, of map[string]string) bool {
	for name, value := range some {
		if had, ok := of[name]; !ok || had != value {
			return false
		}
	}
	return true
}

// GraceOf returns how long a pod may take to end; for other objects it is zero.
func GraceOf(o client.Object) time.Duration {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return 0
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return 30 * time.Second
	}
	return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return leastPriority
	}
	return *pod.Spec.Priority
}

// leastPriority is that of pods which ask for none: nobody here asks for less.
const leastPriority = 0
