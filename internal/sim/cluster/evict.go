package cluster

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evict does what the eviction subresource does: it asks the one PodDisruptionBudget of the pod,
// writes the condition DisruptionTarget, and deletes the pod.
func (a *API) evict(asked *corev1.Pod) error {
	pod, ok := Find[*corev1.Pod](a, asked.Namespace, asked.Name)
	if !ok {
		return apierrors.NewNotFound(ResourceOf("Pod"), asked.Name)
	}
	if asked.UID != "" && asked.UID != pod.UID {
		return apierrors.NewConflict(ResourceOf("Pod"), asked.Name, errors.New("another UID"))
	}
	counts := pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
	if budgets := a.BudgetsOf(pod); counts && len(budgets) > 0 {
		if len(budgets) > 1 {
			return apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")) //nolint:revive,staticcheck // the server's words
		}
		if err := a.spend(budgets[0], pod); err != nil {
			return err
		}
	}
	a.config.Hooks.Count("evictions")
	a.config.Hooks.Evicted(pod)
	if pod.DeletionTimestamp == nil {
		Edit(a, pod, func(p *corev1.Pod) {
			setPodCondition(p, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: WireTime(a.config.now()),
			})
		})
	}
	a.Delete(pod, GraceOf(pod))
	return nil
}

// spend asks a PodDisruptionBudget for one disruption, and notes it there if it is allowed.
func (a *API) spend(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	if !IsReady(pod) && b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0 {
		return nil // IfHealthyBudget, which is the default
	}
	if b.Status.ObservedGeneration < b.Generation || b.Status.DisruptionsAllowed <= 0 {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	}
	Edit(a, b, func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed--
		b.Status.DisruptedPods = maps.Clone(b.Status.DisruptedPods)
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = WireTime(a.config.now())
	})
	return nil
}

// BudgetsOf returns the PodDisruptionBudgets that select a pod.
func (a *API) BudgetsOf(pod *corev1.Pod) (of []*policyv1.PodDisruptionBudget) {
	for _, app := range slices.Compact([]string{pod.Labels[AppLabel], ""}) {
		found, _ := a.Shelf("PodDisruptionBudget").find(AppLabel, app)
		for _, o := range found {
			if b := o.(*policyv1.PodDisruptionBudget); b.Namespace == pod.Namespace && matches(b.Spec.Selector, pod.Labels) {
				of = append(of, b)
			}
		}
	}
	return of
}

// appOf returns the workload that a budget names; empty: its selector is about something else.
func appOf(budget client.Object) string {
	if s := budget.(*policyv1.PodDisruptionBudget).Spec.Selector; s != nil {
		return s.MatchLabels[AppLabel]
	}
	return ""
}

// matches reports whether a selector selects labels. Nearly all selectors only name labels, and
// are not worth being compiled each time.
func matches(s *metav1.LabelSelector, set labels.Set) bool {
	if s != nil && len(s.MatchExpressions) == 0 {
		return isSubset(s.MatchLabels, set)
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(set)
}

// updateBudget does what the disruption controller does: it writes how many pods of a
// budget are healthy, and so how many may go.
func (a *API) updateBudget(b *policyv1.PodDisruptionBudget, replicas int) {
	healthy := int32(0)
	for _, pod := range a.PodsOf(b.Spec.Selector.MatchLabels["app"]) {
		if pod.DeletionTimestamp == nil && IsReady(pod) {
			healthy++
		}
	}
	desired := desiredHealthy(b, replicas)
	status := policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation, CurrentHealthy: healthy, DesiredHealthy: desired,
		ExpectedPods: int32(replicas), DisruptionsAllowed: max(0, healthy-desired),
	}
	if !reflect.DeepEqual(b.Status, status) {
		Edit(a, b, func(b *policyv1.PodDisruptionBudget) { b.Status = status })
	}
}

func desiredHealthy(b *policyv1.PodDisruptionBudget, replicas int) int32 {
	if b.Spec.MinAvailable != nil {
		n, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, replicas, true)
		return int32(n)
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, replicas, true)
	return int32(max(0, replicas-n))
}
