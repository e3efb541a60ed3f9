package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

func (c *chaos) setReady() {
	class, _ := cluster.Find[*kwokv1alpha1.KWOKNodeClass](c.w.api, "", "default")
	cluster.Edit(c.w.api, class, func(k *kwokv1alpha1.KWOKNodeClass) {
		k.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: cluster.WireTime(c.w.at)}}
	})
}

// makePools makes one to three pools.
func (c *chaos) makePools() {
	w := c.w
	for i := range 1 + w.rand.IntN(3) {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool-%d", i)}}
		group := kwokv1alpha1.Group
		np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: group, Kind: "KWOKNodeClass", Name: "default"}
		np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{}
		if w.chance(0.3) {
			np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements,
				karpenterv1.NodeSelectorRequirementWithMinValues{Key: karpenterv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(w, []string{"spot", "on-demand"})}})
		}
		if w.chance(0.3) {
			np.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: cluster.StartupTaint, Effect: corev1.TaintEffectNoSchedule}}
		}
		if w.chance(0.3) {
			np.Spec.Template.Spec.ExpireAfter = karpenterv1.NillableDuration{Duration: new(w.life())}
		}
		if w.chance(0.3) {
			np.Spec.Template.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: w.between(5*time.Minute, time.Hour).Round(time.Second)}
		}
		np.Spec.Disruption = karpenterv1.Disruption{
			ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
			ConsolidateAfter:    karpenterv1.NillableDuration{Duration: new(pick(w, []time.Duration{0, 15 * time.Second, 2 * time.Minute}))},
			Budgets:             []karpenterv1.Budget{{Nodes: pick(w, []string{"10%", "30%", "1", "3", "100%"})}},
		}
		if i > 0 && w.chance(0.5) {
			weight := int32(w.rand.IntN(100) + 1)
			np.Spec.Weight = &weight
		}
		if i > 0 && w.chance(0.5) { // the first has room for all
			np.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(8+w.rand.IntN(60)), resource.DecimalSI)}
		}
		c.pools = append(c.pools, np)
	}
}

// makeApps makes the load.
func (c *chaos) makeApps() {
	w := c.w
	nodes := w.opts.Nodes
	if nodes == 0 {
		nodes = 3 + w.rand.IntN(25)
	}
	left := int64(nodes) * 6000
	for i := 0; left > 0; i++ {
		a := &cluster.Workload{
			Name: fmt.Sprintf("app-%02d", i), CPUMilli: pick(w, []int64{100, 250, 500, 1000, 2000, 3500}), GraceSeconds: pick(w, []int64{1, 10, 30, 60}),
			Spread: w.chance(0.2), Apart: w.chance(0.1), DoNotDisrupt: w.chance(0.04), Stateful: w.chance(0.12),
		}
		if w.chance(0.15) {
			a.Priority = cluster.ImportantPriority
		}
		a.MemoryMiB = a.CPUMilli * pick(w, []int64{1, 2, 4})
		a.Replicas = 1 + w.rand.IntN(max(1, min(40, int(left/a.CPUMilli))))
		if w.opts.Nodes > manyNodes {
			a.Replicas *= 4
		}
		switch {
		case a.Apart, a.Stateful:
			a.Replicas = min(a.Replicas, 6)
		case a.DoNotDisrupt: // they keep nodes that users delete for ever
			a.Replicas = 1
		}
		if !a.Spread && w.chance(0.15) {
			a.Zone = pick(w, zones)
		}
		if !a.Spread && !a.Apart && !a.Stateful && w.chance(0.15) {
			a.RunsFor = w.between(time.Minute, 30*time.Minute)
		}
		left -= int64(a.Replicas) * a.CPUMilli
		var budget *policyv1.PodDisruptionBudgetSpec
		switch w.rand.IntN(4) {
		case 0:
			budget = &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: pickBudget(w)}
		case 1:
			budget = &policyv1.PodDisruptionBudgetSpec{MinAvailable: cluster.Percent(50 + w.rand.IntN(40))}
		}
		if a.RunsFor > 0 || a.Replicas == 1 {
			budget = nil
		}
		w.workloads.Add(a, budget)
	}
}

func pickBudget(w *World) *intstr.IntOrString {
	if w.chance(0.5) {
		return cluster.Number(1)
	}
	return cluster.Percent(10 + w.rand.IntN(40))
}
