package oracle

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// stateKinds are what a cluster may just be doing, and what its operators set.
var stateKinds = []kind{
	{"unlaunched", (*gen).unlaunched},
	{"notReady", (*gen).notReady},
	{"startupTaints", (*gen).startupTaints},
	{"resized", (*gen).resized},
	{"preempting", (*gen).preempting},
	{"gates", (*gen).gates},
	{"limitRanges", (*gen).limitRanges},
	{"minValues", (*gen).minValues},
	{"reserved", (*gen).reserved},
}

// unlaunched makes claims that the cloud has not answered for: the node will be one of
// some types, zones and capacity types.
func (g *gen) unlaunched() {
	if len(g.s.Nodes) == 0 {
		g.nodes()
	}
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		np := g.s.pool(n.Labels[karpenterv1.NodePoolLabelKey])
		if np == nil || n.Annotations[startingKey]+n.Annotations[inFlightKey] != "" || n.Spec.Unschedulable || !within(np, n) || i > 0 && g.chance(50) {
			continue
		}
		n.Annotations = with(with(n.Annotations, inFlightKey, "true"), openKey, "true")
		// The pool's word, as launches from it have it, and the type's; what was there may be older.
		n.Spec.Taints = np.Spec.Template.Spec.Taints
		if i := slices.IndexFunc(g.s.Types, func(t instanceType) bool { return t.Name == n.Labels[corev1.LabelInstanceTypeStable] }); i >= 0 {
			t := g.s.Types[i].catalogType()
			n.Status = launchedNode(n.Name, np, t, &t.Offerings[0], nil).Status
		}
		maps.Copy(n.Labels, np.Spec.Template.Labels)
	}
}

// claimOptions returns what a claim in flight leaves open, the node that it became among it.
func (s *scenario) claimOptions(n *corev1.Node) []karpenterv1.NodeSelectorRequirementWithMinValues {
	own := instanceType{Name: n.Labels[corev1.LabelInstanceTypeStable], CapacityTypes: []string{n.Labels[karpenterv1.CapacityTypeLabelKey]}}
	if i := slices.IndexFunc(s.Types, func(t instanceType) bool { return t.Name == own.Name }); i >= 0 {
		own = s.Types[i]
	}
	types := []string{own.Name}
	for _, t := range s.Types {
		if t.Name != own.Name && t.Arch == own.Arch && slices.Contains(t.Zones, n.Labels[corev1.LabelTopologyZone]) {
			types = append(types, t.Name)
		}
	}
	in := func(key string, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
		return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	zones := []string{n.Labels[corev1.LabelTopologyZone]}
	if s.Seed%2 == 0 {
		zones = own.Zones
	}
	return []karpenterv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, types...), in(corev1.LabelTopologyZone, zones...),
		in(karpenterv1.CapacityTypeLabelKey, own.CapacityTypes...),
	}
}

// notReady makes nodes that are not ready: for good, or because they are starting.
func (g *gen) notReady() {
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		if n.Annotations[inFlightKey] == "" && (i == 0 || g.chance(30)) {
			n.Annotations = with(n.Annotations, notReadyKey, "true")
		}
	}
	for _, w := range g.affected() {
		if g.chance(30) {
			w.pod.Spec.Tolerations = append(w.pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists})
		}
	}
}

// startupTaints are on nodes of a pool until they are through with starting.
func (g *gen) startupTaints() {
	for i := range g.s.Pools {
		spec := &g.s.Pools[i].Spec.Template.Spec
		spec.StartupTaints = append(spec.StartupTaints, startupTaints()...)
	}
}

// resized makes running pods to which the kubelet has given more than they ask for now.
func (g *gen) resized() {
	if len(g.s.Nodes) == 0 {
		g.nodes()
	}
	for _, w := range g.affected() {
		w.running = max(w.running, min(2, len(g.s.Nodes)))
		cpu := int64(100 + g.IntN(1200))
		w.vary(func(_ int, p *corev1.Pod) { p.Annotations = with(p.Annotations, allocatedKey, fmt.Sprintf("%dm", cpu)) })
	}
}

// preempting makes a pod for which the scheduler is making room: its victims are being
// deleted, and have not ended.
func (g *gen) preempting() {
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		cpu := n.Status.Allocatable.Cpu().MilliValue()
		if n.Annotations[inFlightKey]+n.Annotations[startingKey]+n.Annotations[notReadyKey] != "" || n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || cpu < 1000 {
			continue
		}
		victim := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: nsTwo, Name: "victim", Labels: map[string]string{"app": "victim"}}}
		victim.Spec.NodeName = n.Name
		victim.Spec.Containers = []corev1.Container{container("main", cpu*6/10, 16)}
		g.s.Running = append(g.s.Running, victim)
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: nsTwo, Name: "urgent", Labels: map[string]string{"app": "urgent"}}}
		p.Annotations = map[string]string{urgentKey: "true"}
		p.Spec.PriorityClassName = "urgent"
		p.Spec.NodeSelector = map[string]string{urgentKey: n.Name}
		n.Labels = with(n.Labels, urgentKey, n.Name)
		p.Spec.Containers = []corev1.Container{container("main", cpu*5/10, 16)}
		g.s.Running = append(g.s.Running, p)
		return
	}
}

// gates makes pods that somebody else still holds back.
func (g *gen) gates() {
	for _, w := range g.affected() {
		w.vary(func(i int, p *corev1.Pod) {
			if i%2 == 0 {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: otherGate})
			}
		})
	}
}

// limitRanges give containers that ask for nothing something to ask for, daemons' too.
func (g *gen) limitRanges() {
	g.daemons()
	for _, ns := range []string{nsOne, nsTwo, nsSystem} {
		if ns != nsSystem && g.chance(50) {
			continue
		}
		g.s.LimitRanges = append(g.s.LimitRanges, corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "defaults"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type:    corev1.LimitTypeContainer,
				Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")},
				DefaultRequest: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(50+g.IntN(500)), resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(int64(100+g.IntN(900))<<20, resource.BinarySI),
				},
			}}},
		})
	}
	for i := range g.s.Daemons {
		c := &g.s.Daemons[i].Spec.Template.Spec.Containers[0]
		if g.chance(70) {
			c.Resources = corev1.ResourceRequirements{}
		}
	}
	for _, w := range g.affected() {
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, corev1.Container{Name: "helper", Image: "none"})
	}
}

// minValues wants launches to name several types, or nodes of several sizes.
func (g *gen) minValues() {
	least := 2
	for i := range g.s.Pools {
		g.s.Pools[i].Spec.Template.Spec.Requirements = append(g.s.Pools[i].Spec.Template.Spec.Requirements,
			karpenterv1.NodeSelectorRequirementWithMinValues{
				Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists, MinValues: &least,
			})
	}
	for len(g.s.Types) < 2 {
		g.s.Types = nil
		g.types()
	}
}

// reserved makes reservations, which cover few nodes.
func (g *gen) reserved() {
	for i := range g.s.Types {
		t := &g.s.Types[i]
		if i == 0 || g.chance(50) {
			t.Reserved = append(t.Reserved, reservation{Zone: pick(g, t.Zones...), Left: g.IntN(3)})
		}
	}
}
