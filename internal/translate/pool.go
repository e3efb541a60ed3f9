package translate

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Pool returns the core's form of a NodePool at an instant, with the types that its
// class offers.
func Pool(np *karpenterv1.NodePool, types []*catalog.Type, now time.Time) cluster.Pool {
	p := cluster.Pool{
		Name: np.Name, Types: types, Taints: Taints(np.Spec.Template.Spec.Taints),
		Limits: Quantities(np.Spec.Limits), ConsolidateAfter: ConsolidateAfter(np), Unready: unready(np),
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
	for i := range np.Spec.Disruption.Budgets {
		p.Budgets = append(p.Budgets, budget(&np.Spec.Disruption.Budgets[i], now))
	}
	return p
}

// unready says why nothing may be launched from the pool; empty: it is ready.
func unready(np *karpenterv1.NodePool) string {
	switch {
	case np.DeletionTimestamp != nil:
		return "it is being deleted"
	case np.Spec.Replicas != nil:
		return "it has a fixed number of replicas"
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

// budget returns a budget as it stands at an instant. One that cannot be read allows
// nothing: better a node too many than one too few.
func budget(b *karpenterv1.Budget, now time.Time) cluster.Budget {
	out := cluster.Budget{Active: true}
	for _, r := range b.Reasons {
		out.Reasons = append(out.Reasons, string(r))
	}
	count, percent := strings.CutSuffix(b.Nodes, "%")
	n, err := strconv.Atoi(count)
	if err != nil {
		return cluster.Budget{Active: true}
	}
	out.Nodes, out.Percent = n, percent
	if b.Schedule == nil || b.Duration == nil {
		return out
	}
	schedule, err := cron.ParseStandard(*b.Schedule)
	if err != nil {
		return cluster.Budget{Active: true}
	}
	// It is open when the last hit within the duration is not later than now.
	out.Active = !schedule.Next(now.UTC().Add(-b.Duration.Duration)).After(now.UTC())
	return out
}
