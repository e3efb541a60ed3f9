package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var (
	allZones      = []string{"zone-a", "zone-b", "zone-c"}
	capacityTypes = []string{label.Spot, label.OnDemand}
)

// gen is one scenario in the making.
type gen struct {
	*rand.Rand
	s    *scenario
	work []*workload
}

// workload is pods that are alike: the template, how many wait and how many run already.
type workload struct {
	pod              corev1.Pod
	pending, running int
	deleting         bool                       // some of those that run are about to end
	variants         func(i int, p *corev1.Pod) // set: what differs from pod to pod
}

// kind is one kind of constraint: it adds itself to a scenario.
type kind struct {
	name string
	add  func(*gen)
}

// generate returns the scenario of a seed with the given kinds of constraints.
func generate(seed uint64, kinds []kind) *scenario {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 2)), s: &scenario{Seed: seed}}
	g.types()
	g.pools()
	g.nodes()
	g.workloads()
	for _, k := range kinds {
		g.s.Kinds = append(g.s.Kinds, k.name)
		k.add(g)
	}
	g.stamp()
	return g.s
}

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *gen, from ...T) T { return from[g.IntN(len(from))] }

// some returns one to n of the values, in their order.
func some[T any](g *gen, n int, from []T) []T {
	chosen := g.Perm(len(from))[:1+g.IntN(min(n, len(from)))]
	slices.Sort(chosen)
	var out []T
	for _, i := range chosen {
		out = append(out, from[i])
	}
	return out
}

func (g *gen) types() {
	constraintSets := []instanceType{
		{Name: "c2", CPU: 2, MemoryGiB: 4},
		{Name: "m2", CPU: 2, MemoryGiB: 8},
		{Name: "c4", CPU: 4, MemoryGiB: 8},
		{Name: "m4", CPU: 4, MemoryGiB: 16},
		{Name: "c8", CPU: 8, MemoryGiB: 16},
	}
	for _, t := range some(g, 3, constraintSets) {
		t.Pods, t.Arch = 20, pick(g, "amd64", "amd64", "amd64", "arm64")
		t.Zones, t.CapacityTypes = some(g, 3, allZones), some(g, 2, capacityTypes)
		g.s.Types = append(g.s.Types, t)
	}
}

func (g *gen) pools() {
	for _, name := range []string{"general", "second"}[:1+g.IntN(2)] {
		np := newPool(name)
		if g.chance(30) {
			weight := int32(1 + g.IntN(100))
			np.Spec.Weight = &weight
		}
		np.Spec.Template.Labels = map[string]string{"example.com/pool": name}
		g.s.Pools = append(g.s.Pools, np)
	}
}

// nodes makes up to three nodes that are there already, each of some type and pool.
func (g *gen) nodes() {
	for i := range g.IntN(4) {
		m := &g.s.Types[g.IntN(len(g.s.Types))]
		np := &g.s.Pools[g.IntN(len(g.s.Pools))]
		t := m.catalogType()
		labels := nodeLabels(np, t, &t.Offerings[g.IntN(len(t.Offerings))])
		if g.chance(20) { // one that is nobody's
			maps.DeleteFunc(labels, func(key, _ string) bool { return strings.Contains(key, "karpenter") })
		}
		g.s.Nodes = append(g.s.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), Labels: labels},
			Status: corev1.NodeStatus{
				Capacity: translate.ResourceList(t.Capacity), Allocatable: translate.ResourceList(t.Allocatable()),
			},
		})
	}
}

// workloads makes one to three groups of pods that fit the types, mostly.
func (g *gen) workloads() {
	largest := int64(0)
	for _, t := range g.s.Types {
		largest = max(largest, t.CPU*1000)
	}
	for i := range 1 + g.IntN(3) {
		name := []string{"web", "db", "job"}[i]
		cpu := (largest - 100) * int64(5+g.IntN(80)) / 100
		w := &workload{pending: 1 + g.IntN(4)}
		if cpu < largest/3 {
			w.pending += g.IntN(4)
		}
		if len(g.s.Nodes) > 0 && g.chance(50) {
			w.running = 1 + g.IntN(2)
		}
		w.pod = corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, nsOne, nsOne, nsTwo), Name: name, Labels: map[string]string{
				"app": name, "tier": pick(g, "front", "back"),
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{container("main", cpu, int64(64+g.IntN(3000)))}},
		}
		g.work = append(g.work, w)
	}
}

// container returns one that asks for this much cpu in millicores and memory in MiB.
func container(name string, cpu, mib int64) corev1.Container {
	return corev1.Container{Name: name, Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
	}}}
}

// affected returns the workloads that a constraint is added to: one at least.
func (g *gen) affected() []*workload {
	first := g.IntN(len(g.work))
	out := []*workload{g.work[first]}
	for i, w := range g.work {
		if i != first && g.chance(40) {
			out = append(out, w)
		}
	}
	return out
}

// stamp makes the pods of the workloads: those that run go to nodes that take them.
func (g *gen) stamp() {
	free := map[string]int64{}
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		free[n.Name] = n.Status.Allocatable.Cpu().MilliValue()
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
			free[n.Name] = 0
		}
		if n.Annotations[inFlightKey] != "" {
			free[n.Name] = 0
		}
	}
	for i := range g.s.Running { // of a kind's own
		if n := g.s.Running[i].Spec.NodeName; n != "" {
			free[n] -= translate.PodRequests(&g.s.Running[i])["cpu"]
		}
	}
	for _, w := range g.work {
		for i := range w.running {
			p := w.stamped(fmt.Sprintf("%s-r%d", w.pod.Name, i), i)
			need := translate.PodRequests(p)["cpu"]
			n := g.s.Nodes[g.IntN(len(g.s.Nodes))].Name
			if free[n] < need {
				continue
			}
			free[n] -= need
			p.Spec.NodeName, p.Spec.SchedulingGates = n, nil
			if w.deleting && g.chance(60) {
				p.Annotations = with(p.Annotations, deletingKey, "true")
			}
			g.s.Running = append(g.s.Running, *p)
		}
		for i := range w.pending {
			g.s.Pending = append(g.s.Pending, *w.stamped(fmt.Sprintf("%s-%d", w.pod.Name, i), w.running+i))
		}
	}
}

func (w *workload) stamped(name string, i int) *corev1.Pod {
	p := w.pod.DeepCopy()
	p.Name = name
	if w.variants != nil {
		w.variants(i, p)
	}
	return p
}

// daemon returns a DaemonSet that asks for little.
func daemon(name string, cpu int64) appsv1.DaemonSet {
	labels := map[string]string{"daemon": name}
	all := intstr.FromString("100%")
	return appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: nsSystem, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container("daemon", cpu, 32)}},
			},
		},
	}
}

// terms returns the workload's required node affinity, made if it is not there.
func (w *workload) terms() *corev1.NodeSelector {
	a := w.nodeAffinity()
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution
}

func (w *workload) affinity() *corev1.Affinity {
	if w.pod.Spec.Affinity == nil {
		w.pod.Spec.Affinity = &corev1.Affinity{}
	}
	return w.pod.Spec.Affinity
}

func (w *workload) nodeAffinity() *corev1.NodeAffinity {
	a := w.affinity()
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	return a.NodeAffinity
}

// rule returns a requirement on a label that some nodes have and some values of it.
func (g *gen) rule() corev1.NodeSelectorRequirement {
	const cpuKey = kwokv1alpha1.InstanceCPULabelKey
	in, notIn := corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	switch g.IntN(12) {
	case 0, 1:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: in, Values: some(g, 2, allZones)}
	case 2:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: notIn, Values: some(g, 2, allZones)}
	case 3:
		return corev1.NodeSelectorRequirement{Key: karpenterv1.CapacityTypeLabelKey, Operator: pick(g, in, notIn), Values: some(g, 1, capacityTypes)}
	case 4:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelInstanceTypeStable, Operator: pick(g, in, notIn), Values: some(g, 2, []string{"c2", "m2", "c4", "m4", "c8"})}
	case 5:
		return corev1.NodeSelectorRequirement{Key: cpuKey, Operator: corev1.NodeSelectorOpGt, Values: []string{pick(g, "1", "2", "4")}}
	case 6:
		return corev1.NodeSelectorRequirement{Key: cpuKey, Operator: corev1.NodeSelectorOpLt, Values: []string{pick(g, "4", "8", "9")}}
	case 7:
		return corev1.NodeSelectorRequirement{Key: pick(g, "example.com/pool", "example.com/none", corev1.LabelTopologyZone), Operator: corev1.NodeSelectorOpExists}
	case 8:
		return corev1.NodeSelectorRequirement{Key: pick(g, "example.com/none", "example.com/rack", "example.com/pool"), Operator: corev1.NodeSelectorOpDoesNotExist}
	case 9:
		return corev1.NodeSelectorRequirement{Key: "example.com/rack", Operator: pick(g, in, notIn), Values: some(g, 2, racks)}
	case 10:
		return corev1.NodeSelectorRequirement{Key: "example.com/none", Operator: notIn, Values: []string{"x"}}
	default:
		return corev1.NodeSelectorRequirement{Key: "example.com/pool", Operator: pick(g, in, notIn), Values: some(g, 1, []string{"general", "second"})}
	}
}

// racks are the values of a label that pools leave open for their pods to choose.
var racks = []string{"r1", "r2", "r3"}
