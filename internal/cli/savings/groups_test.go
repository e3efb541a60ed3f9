package savings

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// start is the time of all tests.
func start() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

// nodeGroup is a node group of EKS as its Nodes show it.
type nodeGroup struct {
	name, typ, capacity string
	cpu                 int64 // CPUs; memory is memGiB
	memGiB              int64
	nodes               int
	labels              map[string]string
	taint               string
}

// workload is a Deployment by its pods.
type workload struct {
	namespace, name  string
	pods             int
	cpuMilli, memMiB int64
	selector         map[string]string
	tolerates        string
	spread, apart    bool  // over zones; by nodes, as a hostname's anti-affinity
	allowed          int32 // DisruptionsAllowed of its PodDisruptionBudget; negative: it has none
	held             bool
}

// groupsCluster returns a cluster of node groups with their pods, placed at random where they fit.
func groupsCluster(groups []nodeGroup, workloads []workload, seed uint64) (objects []client.Object) {
	random := rand.New(rand.NewPCG(seed, seed))
	var nodes []*corev1.Node
	free, apart := map[string][3]int64{}, map[string]bool{}
	for _, g := range groups {
		for i := range g.nodes {
			n := g.node(i)
			nodes = append(nodes, n)
			free[n.Name] = [3]int64{n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value() >> 20, 58}
			objects = append(objects, n)
		}
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for _, w := range workloads {
		if w.allowed >= 0 {
			objects = append(objects, w.pdb())
		}
		for i := range w.pods {
			fits := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
				f := free[n.Name]
				for k, v := range w.selector {
					if n.Labels[k] != v {
						return true
					}
				}
				return w.apart && apart[n.Name+w.name] || f[0] < w.cpuMilli || f[1] < w.memMiB || f[2] < 1 || len(n.Spec.Taints) > 0 && n.Spec.Taints[0].Key != w.tolerates
			})
			if len(fits) == 0 {
				continue
			}
			n := fits[random.IntN(len(fits))]
			apart[n.Name+w.name] = true
			f := free[n.Name]
			free[n.Name] = [3]int64{f[0] - w.cpuMilli, f[1] - w.memMiB, f[2] - 1}
			objects = append(objects, w.pod(i, n.Name))
		}
	}
	return objects
}

func (g *nodeGroup) node(i int) *corev1.Node {
	name := fmt.Sprintf("%s-%04d", g.name, i)
	zone := "us-east-1" + string(rune('a'+i%3))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start().Add(-72 * time.Hour)), Labels: map[string]string{
		"eks.amazonaws.com/nodegroup": g.name, "eks.amazonaws.com/capacityType": g.capacity, corev1.LabelInstanceTypeStable: g.typ,
		corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "us-east-1", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
	}}}
	for k, v := range g.labels {
		n.Labels[k] = v
	}
	n.Spec.ProviderID = "aws:///" + zone + "/i-" + name
	if g.taint != "" {
		n.Spec.Taints = []corev1.Taint{{Key: g.taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	n.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(g.cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(g.memGiB<<30, resource.BinarySI),
		corev1.ResourcePods: resource.MustParse("58"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	n.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(g.cpu*1000-80, resource.DecimalSI)
	n.Status.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity((g.memGiB-1)<<30, resource.BinarySI)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func (w *workload) pdb() *policyv1.PodDisruptionBudget {
	most := intstr.FromInt32(w.allowed)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, UID: types.UID("pdb/" + w.name)},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: w.allowed},
	}
}

func (w *workload) pod(i int, node string) *corev1.Pod {
	const hash = "5d9f7c"
	yes := true
	name := w.name + "-" + hash + "-" + strconv.Itoa(i)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, UID: types.UID(w.namespace + "/" + name), CreationTimestamp: metav1.NewTime(start().Add(-48 * time.Hour)),
		Labels:          map[string]string{"app": w.name, "pod-template-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.name + "-" + hash, UID: types.UID("rs/" + w.name), Controller: &yes}},
	}}
	if w.held {
		p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
	}
	p.Spec.NodeName, p.Spec.NodeSelector = node, w.selector
	if w.tolerates != "" {
		p.Spec.Tolerations = []corev1.Toleration{{Key: w.tolerates, Operator: corev1.TolerationOpExists}}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(w.cpuMilli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(w.memMiB<<20, resource.BinarySI),
	}}}}
	if w.spread {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}},
		}}
	}
	if w.apart {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}},
		}}}}
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// shop is a small cluster with a bit of everything.
func shop() []client.Object {
	return groupsCluster([]nodeGroup{
		{name: "web", typ: "m5.2xlarge", capacity: "ON_DEMAND", cpu: 8, memGiB: 32, nodes: 8},
		{name: "batch", typ: "m5.4xlarge", capacity: "SPOT", cpu: 16, memGiB: 64, nodes: 3, labels: map[string]string{"team": "data"}, taint: "batch"},
		{name: "other", typ: "e2-standard-4", capacity: "ON_DEMAND", cpu: 4, memGiB: 16, nodes: 1},
	}, []workload{
		{namespace: "shop", name: "web", pods: 24, cpuMilli: 500, memMiB: 1024, spread: true, allowed: 4},
		{namespace: "shop", name: "api", pods: 12, cpuMilli: 700, memMiB: 2048, allowed: -1},
		{namespace: "shop", name: "ledger", pods: 2, cpuMilli: 1000, memMiB: 4096, allowed: 0},
		{namespace: "shop", name: "import", pods: 6, cpuMilli: 2000, memMiB: 4096, allowed: -1, selector: map[string]string{"team": "data"}, tolerates: "batch"},
		{namespace: "shop", name: "keep", pods: 1, cpuMilli: 500, memMiB: 512, allowed: -1, held: true},
	}, 1)
}
