package translate

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Pool returns the core's form of a NodePool at an instant, with the types that its
// class can launch.
func Pool(np *karpenterv1.NodePool, types []*catalog.Type, now time.Time) cluster.Pool {
	p := cluster.Pool{
		Name: np.Name, Types: types, Taints: Taints(np.Spec.Template.Spec.Taints),
		Limits: Quantities(np.Spec.Limits), Unready: unready(np),
		ConsolidateAfter: ConsolidateAfter(np), Policy: policy(np), Static: Static(np), Replicas: Replicas(np), Budgets: Budgets(np, now), Paused: Paused(np),
		EvictionHourly: positive(np, EvictionHourlyAnnotationKey), SavingShareMin: positive(np, SavingShareMinAnnotationKey),
	}
	if np.Spec.Weight != nil {
		p.Weight = *np.Spec.Weight
	}
	own, err := Requirements(np.Spec.Template.Spec.Requirements)
	if err != nil {
		p.Unready = err.Error()
	}
	labels := maps.Clone(np.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[karpenterv1.NodePoolLabelKey] = np.Name
	labels[ClassLabel(np.Spec.Template.Spec.NodeClassRef)] = np.Spec.Template.Spec.NodeClassRef.Name
	// Daemons that select finished nodes run on every node of the pool.
	labels[karpenterv1.NodeRegisteredLabelKey] = karpenterv1.LabelValueTrue
	labels[karpenterv1.NodeInitializedLabelKey] = karpenterv1.LabelValueTrue
	p.Requirements = own.Intersect(label.OfLabels(labels))
	for _, key := range p.Requirements.Keys() {
		if p.Unready == "" && p.Requirements[key].IsImpossible() {
			p.Unready = fmt.Sprintf("no node can be what its requirements and labels say of %s", key)
		}
	}
	return p
}

// Static reports whether a pool has a fixed number of nodes.
func Static(np *karpenterv1.NodePool) bool { return np.Spec.Replicas != nil }

// Replicas returns how many nodes a static pool is to have; 0 for others.
func Replicas(np *karpenterv1.NodePool) int {
	if !Static(np) {
		return 0
	}
	return int(max(0, min(*np.Spec.Replicas, math.MaxInt32)))
}

// Checked returns the NodePool as if it had just been found to be ready, if nobody has checked it since it changed.
func Checked(np *karpenterv1.NodePool) *karpenterv1.NodePool {
	ready := meta.FindStatusCondition(np.Status.Conditions, karpenterv1.ConditionTypeReady)
	if ready != nil && ready.ObservedGeneration == np.Generation && ready.Status != metav1.ConditionUnknown {
		return np
	}
	is := *np
	is.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue, ObservedGeneration: np.Generation}}
	return &is
}

// unready says why nothing may be launched from the pool; empty: it is ready.
func unready(np *karpenterv1.NodePool) string {
	if np.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	for _, c := range np.Status.Conditions {
		if c.Type != karpenterv1.ConditionTypeReady {
			continue
		}
		switch {
		case c.ObservedGeneration != np.Generation:
			return "not ready: not checked since it changed"
		case c.Status == metav1.ConditionTrue:
			return ""
		default:
			return strings.TrimSpace(fmt.Sprintf("not ready: %s %s", c.Reason, c.Message))
		}
	}
	return "not ready: not checked yet"
}
