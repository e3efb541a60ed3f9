package mirror

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// pdbs hold the PodDisruptionBudgets.
type pdbs struct {
	objects map[types.NamespacedName]*policyv1.PodDisruptionBudget
	// version counts the changes of what they select.
	version uint64
}

// pdb is a PodDisruptionBudget with its selector parsed, and its index in the snapshot.
type pdb struct {
	object   *policyv1.PodDisruptionBudget
	index    int
	selector labels.Selector
}

// selected remembers which PodDisruptionBudgets select the pods that have the same labels.
type selected map[selectedKey][]*pdb

// selectedKey identifies the labels of a pod by its constraints. These leave out labels that
// differ from pod to pod of a workload, which is why the number of labels is part of the key.
type selectedKey struct {
	constraints *sharedConstraints
	labels      int
}

func newPDBs() *pdbs {
	return &pdbs{objects: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}}
}

func (x *pdbs) upsert(b *policyv1.PodDisruptionBudget) {
	key := types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
	if had := x.objects[key]; had == nil || had.Generation != b.Generation || had.UID != b.UID {
		x.version++
	}
	x.objects[key] = b
}

func (x *pdbs) remove(b *policyv1.PodDisruptionBudget) {
	delete(x.objects, types.NamespacedName{Namespace: b.Namespace, Name: b.Name})
	x.version++
}

// addTo adds the PodDisruptionBudgets to a snapshot and returns them by namespace.
func (x *pdbs) addTo(snap *cluster.Snapshot) map[string][]*pdb {
	byNamespace := map[string][]*pdb{}
	sorted := make([]*policyv1.PodDisruptionBudget, 0, len(x.objects))
	for _, b := range x.objects {
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
			allowed = 0 // the eviction API refuses until the disruption controller has seen the change
		}
		byNamespace[b.Namespace] = append(byNamespace[b.Namespace], &pdb{b, len(snap.PDBs), selector})
		snap.PDBs = append(snap.PDBs, cluster.PodDisruptionBudget{Name: b.Namespace + "/" + b.Name, Allowed: allowed})
	}
	return byNamespace
}

// addTo adds the PodDisruptionBudgets that limit the eviction of the pod. The eviction API
// refuses pods that more than one of them selects.
func (s selected) addTo(r *cluster.ReschedulablePod, p *pod, ofNamespace []*pdb) {
	own := p.object.Labels
	key := selectedKey{p.constraints, len(own)}
	all, known := s[key]
	if !known || len(own) != len(p.constraints.constraints.Labels) {
		all = nil
		for _, b := range ofNamespace {
			if b.selector.Matches(labels.Set(own)) {
				all = append(all, b)
			}
		}
		s[key] = all
	}
	if len(all) > 1 {
		r.DoNotDisrupt = "more than one PodDisruptionBudget, " + all[0].object.Name + " and " + all[1].object.Name
		return
	}
	for _, b := range all {
		if !isWaived(b.object, p.object) {
			r.PDBs = append(r.PDBs, b.index)
		}
	}
}

// block reports whether PodDisruptionBudgets can never let the pod be evicted.
func (x *pdbs) block(p *corev1.Pod) bool {
	matching := 0
	for _, b := range x.objects {
		if b.Namespace != p.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if matching++; matching > 1 || (forbids(b) && !isWaived(b, p)) {
			return true
		}
	}
	return false
}

// forbids reports whether a PodDisruptionBudget allows no eviction at the present size of the
// workload: it says so, or it demands as many healthy pods as there should be.
func forbids(b *policyv1.PodDisruptionBudget) bool {
	is := func(v *intstr.IntOrString, words ...string) bool {
		return v != nil && slices.Contains(words, v.String())
	}
	counted := b.Status.ObservedGeneration >= b.Generation && b.Status.ExpectedPods > 0
	return is(b.Spec.MaxUnavailable, "0", "0%") || is(b.Spec.MinAvailable, "100%") ||
		counted && b.Status.DesiredHealthy >= b.Status.ExpectedPods
}

// isWaived reports whether the pod is not ready and the PodDisruptionBudget always allows the
// eviction of such pods.
func isWaived(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
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
