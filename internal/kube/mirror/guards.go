package mirror

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// guard is a PodDisruptionBudget with its selector understood.
type guard struct {
	*policyv1.PodDisruptionBudget
	index    int
	selector labels.Selector
}

// guardKey is what decides which budgets select a pod, for nearly all pods: those that
// have no labels of their own, which shapes leave out.
type guardKey struct {
	shape  *sharedShape
	labels int
}

// residents adds to each machine the pods that would want another one if it went, and to
// the snapshot the budgets that guard them.
func (s *Store) residents(snap *cluster.Snapshot, shaper *shaper, now time.Time) {
	// Volumes of pods that have a node are no news to the provisioner.
	defer func(wanted bool) { s.volumes.wanted = wanted }(s.volumes.wanted)
	guards := s.guards(snap)
	selecting := map[guardKey][]*guard{}
	machines := s.list()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Leaving {
			continue
		}
		n.Residents = s.residentsOf(machines[i], shaper, now, func(p *pod, r *cluster.Resident) {
			r.Moved, r.Moves, r.Home = s.movedTo(n, p), p.moves, p.homeBy(n.Step)
			if translate.Evictable(p.Pod, now) {
				addGuards(r, p, guards[p.Namespace], selecting)
			}
		})
	}
}

// addGuards adds the budgets that count the eviction of the pod. The eviction API refuses
// pods that more than one of them selects.
func addGuards(r *cluster.Resident, p *pod, guards []*guard, selecting map[guardKey][]*guard) {
	key := guardKey{p.shape, len(p.Labels)}
	all, known := selecting[key]
	if !known || len(p.Labels) != len(p.shape.Labels) {
		all = nil
		for _, g := range guards {
			if g.selector.Matches(labels.Set(p.Labels)) {
				all = append(all, g)
			}
		}
		selecting[key] = all
	}
	if len(all) > 1 {
		r.Held = "more than one PodDisruptionBudget, " + all[0].Name + " and " + all[1].Name
		return
	}
	for _, g := range all {
		if !waived(g.PodDisruptionBudget, p.Pod) {
			r.Guards = append(r.Guards, g.index)
		}
	}
}

// guards adds the budgets to the snapshot and returns them by namespace.
func (s *Store) guards(snap *cluster.Snapshot) map[string][]*guard {
	byNamespace := map[string][]*guard{}
	sorted := make([]*policyv1.PodDisruptionBudget, 0, len(s.pdbs))
	for _, b := range s.pdbs {
		sorted = append(sorted, b)
	}
	slices.SortFunc(sorted, func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, b := range sorted {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			selector = labels.Nothing()
		}
		allowed := b.Status.DisruptionsAllowed
		if b.Status.ObservedGeneration < b.Generation {
			allowed = 0 // the eviction API says no until it has been looked at again
		}
		byNamespace[b.Namespace] = append(byNamespace[b.Namespace], &guard{b, len(snap.Guards), selector})
		snap.Guards = append(snap.Guards, cluster.Guard{Name: b.Namespace + "/" + b.Name, Allowed: allowed})
	}
	return byNamespace
}

// pinned tells whether disruption budgets can never let the pod be evicted.
func (s *Store) pinned(p *corev1.Pod) bool {
	matching := 0
	for _, b := range s.pdbs {
		if b.Namespace != p.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if matching++; matching > 1 || (forbids(b) && !waived(b, p)) {
			return true
		}
	}
	return false
}

// forbids tells whether a budget lets no pod go as long as its workload is as large as it is:
// it says so, or asks for as many healthy pods as there should be.
func forbids(b *policyv1.PodDisruptionBudget) bool {
	is := func(v *intstr.IntOrString, words ...string) bool {
		return v != nil && slices.Contains(words, v.String())
	}
	counted := b.Status.ObservedGeneration >= b.Generation && b.Status.ExpectedPods > 0
	return is(b.Spec.MaxUnavailable, "0", "0%") || is(b.Spec.MinAvailable, "100%") ||
		counted && b.Status.DesiredHealthy >= b.Status.ExpectedPods
}

// waived tells whether the budget lets pods that are not ready go at any time.
func waived(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	if b.Spec.UnhealthyPodEvictionPolicy == nil || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}
