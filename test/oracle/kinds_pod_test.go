package oracle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// nodeKinds are the constraints between one pod and one node.
var nodeKinds = []kind{
	{"taints", (*gen).taints},
	{"softTaints", (*gen).softTaints},
	{"selector", (*gen).selector},
	{"affinity", (*gen).requiredAffinity},
	{"ports", (*gen).ports},
	{"containers", (*gen).containers},
	{"runtimeClass", (*gen).runtimeClass},
	{"extended", (*gen).extended},
	{"storage", (*gen).storage},
	{"podCount", (*gen).podCount},
	{"daemons", (*gen).daemons},
	{"starting", (*gen).starting},
	{"cordoned", (*gen).cordoned},
	{"priority", (*gen).priority},
	{"poolRules", (*gen).poolRules},
	{"unavailable", (*gen).unavailable},
	{"limits", (*gen).limits},
	{"inFlight", (*gen).inFlight},
	{"leaving", (*gen).deleting},
	{"large", (*gen).large},
}

// lastKinds come after all others: what a pod asks for as a whole must be no less than its
// containers together.
var lastKinds = []kind{{"podLevel", (*gen).podLevel}}

func (g *gen) taints() {
	pool := &g.s.Pools[g.IntN(len(g.s.Pools))].Spec.Template.Spec
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}
	pool.Taints = append(pool.Taints, corev1.Taint{Key: "dedicated", Value: pick(g, "", "gpu"), Effect: pick(g, effects...)})
	for i := range g.s.Nodes {
		if g.chance(50) {
			t := corev1.Taint{Key: "dedicated", Value: pick(g, "gpu", "other"), Effect: pick(g, effects...)}
			g.s.Nodes[i].Spec.Taints = append(g.s.Nodes[i].Spec.Taints, t)
		}
	}
	for _, w := range g.affected() {
		w.pod.Spec.Tolerations = append(w.pod.Spec.Tolerations, pick(g,
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "gpu"},
			corev1.Toleration{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "dedicated", Value: ""},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			corev1.Toleration{Operator: corev1.TolerationOpExists},
			corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "else", Operator: corev1.TolerationOpExists},
		))
	}
}

func (g *gen) softTaints() {
	soft := corev1.Taint{Key: "soft", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule}
	for i := range g.s.Pools {
		if g.chance(70) {
			g.s.Pools[i].Spec.Template.Spec.Taints = append(g.s.Pools[i].Spec.Template.Spec.Taints, soft)
		}
	}
	for i := range g.s.Nodes {
		if g.chance(50) {
			g.s.Nodes[i].Spec.Taints = append(g.s.Nodes[i].Spec.Taints, soft)
		}
	}
}

func (g *gen) selector() {
	for _, w := range g.affected() {
		key := pick(g, corev1.LabelTopologyZone, karpenterv1.CapacityTypeLabelKey, "example.com/pool", "example.com/rack", corev1.LabelArchStable, "example.com/none")
		value := map[string][]string{
			corev1.LabelTopologyZone: allZones, karpenterv1.CapacityTypeLabelKey: capacityTypes, "example.com/pool": {"general", "second"},
			"example.com/rack": racks, corev1.LabelArchStable: {"amd64", "arm64"}, "example.com/none": {"x"},
		}[key]
		w.pod.Spec.NodeSelector = with(w.pod.Spec.NodeSelector, key, pick(g, value...))
	}
}

func (g *gen) requiredAffinity() {
	for _, w := range g.affected() {
		terms := w.terms()
		for range 1 + g.IntN(3) {
			var t corev1.NodeSelectorTerm
			for range 1 + g.IntN(2) {
				t.MatchExpressions = append(t.MatchExpressions, g.rule())
			}
			terms.NodeSelectorTerms = append(terms.NodeSelectorTerms, t)
		}
		if g.chance(10) { // an empty term matches nothing
			terms.NodeSelectorTerms = append(terms.NodeSelectorTerms, corev1.NodeSelectorTerm{})
		}
	}
}

func (g *gen) ports() {
	port := func() corev1.ContainerPort {
		return corev1.ContainerPort{
			ContainerPort: 80, HostPort: pick[int32](g, 8080, 8080, 9090), HostIP: pick(g, "", "", "0.0.0.0", "127.0.0.1", "10.1.1.1"),
			Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
		}
	}
	for _, w := range g.affected() {
		w.pod.Spec.Containers[0].Ports = []corev1.ContainerPort{port()}
		w.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m") // so that ports are what is scarce
		switch g.IntN(5) {
		case 2: // the API server makes host ports of the ports
			w.pod.Spec.HostNetwork = true
			w.pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
		case 0:
			c := container("sidecar", 50, 16)
			c.RestartPolicy = always()
			c.Ports = []corev1.ContainerPort{port()}
			w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
		case 1:
			c := container("init", 50, 16) // ports of ordinary init containers do not count
			c.Ports = []corev1.ContainerPort{port()}
			w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
		}
	}
}

func always() *corev1.ContainerRestartPolicy {
	policy := corev1.ContainerRestartPolicyAlways
	return &policy
}

func (g *gen) containers() {
	for _, w := range g.affected() {
		spec := &w.pod.Spec
		for i := range 1 + g.IntN(3) {
			c := container([]string{"i1", "i2", "i3"}[i], int64(50+g.IntN(1500)), int64(16+g.IntN(2000)))
			if g.chance(50) {
				c.Name, c.RestartPolicy = "s"+c.Name, always()
			}
			spec.InitContainers = append(spec.InitContainers, c)
		}
		if g.chance(30) {
			c := container("second", 0, 0)
			c.Resources.Requests = nil
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
			spec.Containers = append(spec.Containers, c)
		}
	}
}

func (g *gen) podLevel() {
	for _, w := range g.affected() {
		sum := int64(600 * len(g.s.LimitRanges)) // that they may add
		for _, c := range append(w.pod.Spec.Containers, w.pod.Spec.InitContainers...) {
			sum += c.Resources.Requests.Cpu().MilliValue() + c.Resources.Limits.Cpu().MilliValue()
		}
		amount := *resource.NewMilliQuantity(sum+int64(g.IntN(600)), resource.DecimalSI)
		w.pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: amount}}
		if g.chance(30) { // a limit, which the API server makes requests of
			w.pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceCPU: amount, corev1.ResourceMemory: resource.MustParse("64Gi"),
			}}
		}
	}
}

func (g *gen) runtimeClass() {
	for _, w := range g.affected() {
		name := pick(g, "heavy", "heavy", "general-only")
		if w.pod.Spec.NodeSelector["example.com/pool"] == "second" {
			name = "heavy" // the API server refuses a pod that contradicts its class
		}
		w.pod.Spec.RuntimeClassName = &name
	}
}

func (g *gen) extended() {
	const gpu = "nvidia.com/gpu"
	const huge = corev1.ResourceHugePagesPrefix + "2Mi"
	for i := range g.s.Types {
		if g.chance(60) {
			g.s.Types[i].Extended = map[string]int64{gpu: int64(1 + g.IntN(3))}
			if g.chance(50) {
				g.s.Types[i].Extended[huge] = 1 << 30
			}
		}
	}
	for _, w := range g.affected() {
		name, amount := corev1.ResourceName(gpu), resource.MustParse(pick(g, "1", "1", "2"))
		if g.chance(40) {
			name, amount = huge, resource.MustParse(pick(g, "256Mi", "600Mi"))
		}
		c := &w.pod.Spec.Containers[0]
		c.Resources.Limits = corev1.ResourceList{name: amount}
		c.Resources.Requests[name] = amount
	}
}

func (g *gen) storage() {
	for _, w := range g.affected() {
		w.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(1+g.IntN(12))*gibibyte, resource.BinarySI)
	}
}

func (g *gen) podCount() {
	for i := range g.s.Types {
		g.s.Types[i].Pods = int64(1 + g.IntN(5))
	}
	for _, w := range g.affected() {
		w.pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	}
}

// daemons makes some, unless another kind did. No two clash: which of them got a node
// would be chance, and a plan has room for both.
func (g *gen) daemons() {
	if len(g.s.Daemons) > 0 {
		return
	}
	for i := range 1 + g.IntN(2) {
		d := daemon([]string{"logs", "net"}[i], int64(50+g.IntN(500)))
		spec := &d.Spec.Template.Spec
		switch g.IntN(5) {
		case 0:
			spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		case 1:
			spec.NodeSelector = map[string]string{"example.com/pool": pick(g, "general", "second")}
		case 2:
			q := g.rule()
			for q.Key == corev1.LabelTopologyZone || q.Key == karpenterv1.CapacityTypeLabelKey || q.Key == "example.com/rack" {
				q = g.rule() // see daemonsOfOfferings
			}
			spec.Affinity = required(q)
		case 3:
			spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: []int32{8080, 9090}[i]}}
		case 4:
			c := &spec.Containers[0].Resources
			c.Limits, c.Requests = c.Requests, nil
		}
		g.s.Daemons = append(g.s.Daemons, d)
	}
}

// starting makes nodes that joined but are not through with starting: taints that
// will go are still on them.
func (g *gen) starting() {
	if len(g.s.Nodes) == 0 {
		g.nodes()
	}
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		if i > 0 && g.chance(50) {
			continue
		}
		n.Annotations = with(n.Annotations, startingKey, "true")
		delete(n.Labels, karpenterv1.NodeInitializedLabelKey)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/agent", Value: "down", Effect: corev1.TaintEffectNoSchedule})
		if g.chance(30) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "readiness.k8s.io/net", Effect: corev1.TaintEffectNoSchedule})
		}
	}
}

func (g *gen) cordoned() {
	for i := range g.s.Nodes {
		g.s.Nodes[i].Spec.Unschedulable = i == 0 || g.chance(30)
	}
	for _, w := range g.affected() {
		if g.chance(40) {
			w.pod.Spec.Tolerations = append(w.pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
		}
	}
}

func (g *gen) priority() {
	for _, w := range g.affected() {
		w.pod.Spec.PriorityClassName = pick(g, "high", "higher")
	}
}

// poolRules narrows what pools may launch, and leaves a label of theirs open.
func (g *gen) poolRules() {
	for i := range g.s.Pools {
		spec := &g.s.Pools[i].Spec.Template.Spec
		add := func(key string, op corev1.NodeSelectorOperator, values ...string) {
			spec.Requirements = append(spec.Requirements, karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values})
		}
		if g.chance(70) {
			add("example.com/rack", corev1.NodeSelectorOpIn, some(g, 3, racks)...)
		}
		switch g.IntN(4) {
		case 0:
			add(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, pick(g, allZones...))
		case 1:
			add(karpenterv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, pick(g, capacityTypes...))
		case 2:
			add(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpNotIn, g.s.Types[0].Name)
		}
	}
}

func (g *gen) unavailable() {
	for i := range g.s.Types {
		t := &g.s.Types[i]
		t.Unavailable = append(t.Unavailable, pick(g, t.Zones...)+"/"+pick(g, t.CapacityTypes...))
	}
}

// limits caps what pools may have, the nodes that are there included.
func (g *gen) limits() {
	for i := range g.s.Pools {
		limits := corev1.ResourceList{}
		if g.chance(60) {
			limits[corev1.ResourceCPU] = *resource.NewQuantity(int64(2+g.IntN(20)), resource.DecimalSI)
		}
		if g.chance(40) {
			limits["nodes"] = *resource.NewQuantity(int64(1+g.IntN(4)), resource.DecimalSI)
		}
		g.s.Pools[i].Spec.Limits = limits
	}
}

// inFlight makes nodes that are launched and have not joined yet.
func (g *gen) inFlight() {
	for i := range g.s.Nodes {
		n := &g.s.Nodes[i]
		if n.Annotations[startingKey] == "" && n.Labels[karpenterv1.NodePoolLabelKey] != "" && !n.Spec.Unschedulable && g.chance(60) {
			n.Annotations = with(n.Annotations, inFlightKey, "true")
		}
	}
}

// deleting lets some of the pods that run be about to end.
func (g *gen) deleting() {
	for _, w := range g.affected() {
		w.deleting = true
		if w.running == 0 && len(g.s.Nodes) > 0 {
			w.running = 2
		}
	}
}

// large makes a workload too large for some types, or for all, by a little.
func (g *gen) large() {
	t := &g.s.Types[g.IntN(len(g.s.Types))]
	for _, w := range g.affected() {
		free := t.catalogType().Allocatable()
		cpu := free["cpu"] + pick[int64](g, 0, 1, -100)
		memory := free["memory"]>>20 + pick[int64](g, 0, 1, -2000)
		w.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
		if g.chance(50) {
			w.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(memory<<20, resource.BinarySI)
		}
	}
}
