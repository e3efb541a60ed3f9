package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// What users do with gangs: pods of a PodGroup that run together or not at all. Gangs is that there are any.
const (
	Gangs     Fault = "gangs"
	GangRun   Fault = "gang-begins-or-ends"
	GangLimit Fault = "gang-limit"
	GangDrift Fault = "gang-template-edited"
)

const (
	// gangPool has the nodes of gangs, and nothing else: each node has room for one pod. gangNodeCPU is how
	// many cpus such a node has, gangCPUMilli what a pod of a gang requests of them.
	gangPool     = "gangs"
	gangTaint    = "example.com/gangs"
	gangNodeCPU  = 4
	gangCPUMilli = 2500
	// gangMost is the most pods of a gang, gangNodesMost the most nodes that the limit of the pool allows.
	gangMost, gangNodesMost = 6, 10
)

func newGangs(w *World, seed uint64) *gangs {
	return &gangs{beside: newBeside(w, seed, 0x67616e67, Gangs)}
}

// begin makes two or three gangs and a pool whose limit need not have room for all of them.
func (g *gangs) begin() {
	if !g.on {
		return
	}
	np := poolOf(gangPool)
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements, requirement(kwokv1alpha1.InstanceCPULabelKey, fmt.Sprint(gangNodeCPU)))
	np.Spec.Template.Spec.Taints = []corev1.Taint{{Key: gangTaint, Effect: corev1.TaintEffectNoSchedule}}
	np.Spec.Limits = g.limitOf(g.upTo(2, gangNodesMost))
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpenterv1.NillableDuration{Duration: new(one(&g.beside, 0, 15*time.Second, 2*time.Minute))},
		Budgets:             []karpenterv1.Budget{{Nodes: one(&g.beside, "30%", "1", "100%")}},
	}
	g.pool, g.limitAt = np, g.w.at
	_ = g.w.api.Create(np.DeepCopy()) // names are unique
	for i := range g.upTo(2, 3) {
		a := &cluster.Workload{
			Name: fmt.Sprintf("gang-%d", i), CPUMilli: gangCPUMilli, MemoryMiB: 512, GraceSeconds: 5, Replicas: g.upTo(2, gangMost),
			NodeSelector: map[string]string{karpenterv1.NodePoolLabelKey: gangPool}, Tolerates: gangTaint,
		}
		a.Gang = max(2, a.Replicas-g.upTo(0, 1))
		a.Together = a.Replicas > a.Gang && g.upTo(0, 2) == 0
		g.all = append(g.all, &gangLoad{Workload: a, size: a.Replicas})
		g.w.workloads.Add(a, nil)
	}
	g.w.api.Watch(g.observe)
	g.w.every(checkEvery, g.check)
	g.again(GangRun, 8*time.Minute, g.run)
	g.again(GangLimit, 30*time.Minute, g.limit)
	g.again(GangDrift, 40*time.Minute, g.drift)
}

func (*gangs) limitOf(nodes int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(gangNodeCPU*nodes), resource.DecimalSI)}
}

// run has a gang begin, or end whole.
func (g *gangs) run() {
	of := one(&g.beside, g.all...)
	if of.Replicas == 0 {
		g.set(of, of.size)
	} else {
		g.set(of, 0)
	}
}

func (g *gangs) set(of *gangLoad, replicas int) {
	of.Replicas = replicas
	g.changed = g.w.at
	g.w.workloads.Wake(of.Workload)
}

// edit changes the pool.
func (g *gangs) edit(do func(np *karpenterv1.NodePool)) {
	do(g.pool)
	if had, there := cluster.Find[*karpenterv1.NodePool](g.w.api, "", gangPool); there {
		cluster.Edit(g.w.api, had, func(np *karpenterv1.NodePool) { np.Spec = *g.pool.Spec.DeepCopy() })
	}
}

func (g *gangs) limit() {
	g.limitAt = g.w.at
	g.edit(func(np *karpenterv1.NodePool) { np.Spec.Limits = g.limitOf(g.upTo(2, gangNodesMost)) })
}

func (g *gangs) drift() {
	g.edit(func(np *karpenterv1.NodePool) {
		np.Spec.Template.Labels = map[string]string{"edition": fmt.Sprint(g.upTo(0, 99))}
	})
}

// end has all gangs run after the storm, as far as the limit lets them.
func (g *gangs) end() {
	for _, of := range g.all {
		g.set(of, of.size)
	}
}
