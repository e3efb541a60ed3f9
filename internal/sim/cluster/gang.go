package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the scheduler bind the pods of a PodGroup with the policy gang as kube-scheduler 1.37 does:
// none is tried before there are minCount of them, all are tried in one cycle, and they are bound together or
// not at all. Rules between pods and preemption are not played for them.

// groupOf names the PodGroup of a pod; false: it is of none.
func groupOf(pod *corev1.Pod) (Key, bool) {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil {
		return Key{}, false
	}
	return Key{Namespace: pod.Namespace, Name: *g.PodGroupName}, true
}

// GangOf returns the PodGroup of a name, how many of its pods must be bound at once, and its pods that have
// not ended, sorted by name.
func (a *API) GangOf(name Key) (group *schedulingv1beta1.PodGroup, minimum int, pods []*corev1.Pod) {
	for _, pod := range All[*corev1.Pod](a) {
		if of, is := groupOf(pod); is && of == name && IsActive(pod) && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	group, there := Find[*schedulingv1beta1.PodGroup](a, name.Namespace, name.Name)
	if !there || group.Spec.SchedulingPolicy.Gang == nil {
		return nil, 0, pods
	}
	return group, int(group.Spec.SchedulingPolicy.Gang.MinCount), pods
}

// tryGang binds the pods of a gang that wait, if enough of them fit, or has all of them wait.
func (s *Scheduler) tryGang(name Key) {
	group, minimum, pods := s.api.GangOf(name)
	var waiting []*attempt
	for _, pod := range pods {
		if t := s.pending[KeyOf(pod)]; t != nil {
			waiting = append(waiting, t)
		}
	}
	if group == nil || len(pods) < minimum {
		return // kube-scheduler does not try them, and says nothing
	}
	slices.SortFunc(waiting, func(a, b *attempt) int { return compareImportance(a.pod, b.pod) })
	for _, t := range waiting {
		s.hosts[t.pod.Status.NominatedNodeName].promise(t, -1)
	}
	bound := len(pods) - len(waiting)
	var a assumed
	var left []*attempt
	for _, t := range waiting {
		if h := s.choose(t.pod, t.need, nil); h != nil {
			a.assume(t.pod, h)
		} else {
			left = append(left, t)
		}
	}
	a.undo()
	if bound+len(a.pods) < minimum {
		s.refuseGang(group, waiting)
		return
	}
	for i, pod := range a.pods {
		s.bind(pod, a.hosts[i])
	}
	s.say(group, metav1.ConditionTrue, "Scheduled")
	for _, t := range left {
		s.wait(t, "", corev1.PodReasonUnschedulable)
	}
}

// refuseGang has all waiting pods of a gang wait. A cycle that fails takes their nominations away.
func (s *Scheduler) refuseGang(group *schedulingv1beta1.PodGroup, waiting []*attempt) {
	reason := corev1.PodReasonUnschedulable
	if len(s.sorted) == 0 {
		reason = corev1.PodReasonSchedulerError // as kube-scheduler 1.37 has it where there is no Node
	}
	s.say(group, metav1.ConditionFalse, reason)
	for _, t := range waiting {
		s.wait(t, "", reason)
	}
}

// say writes whether a PodGroup is scheduled. Once it was, it stays so.
func (s *Scheduler) say(group *schedulingv1beta1.PodGroup, status metav1.ConditionStatus, reason string) {
	const scheduled = schedulingv1beta1.PodGroupInitiallyScheduled
	had := meta.FindStatusCondition(group.Status.Conditions, scheduled)
	if had != nil && (had.Status == metav1.ConditionTrue || had.Status == status && had.Reason == reason) {
		return
	}
	Edit(s.api, group, func(g *schedulingv1beta1.PodGroup) {
		g.Status.Conditions = []metav1.Condition{{Type: scheduled, Status: status, Reason: reason, LastTransitionTime: WireTime(s.config.now())}}
	})
}
