package oracle

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// topologyKinds are the constraints between pods.
var topologyKinds = []kind{
	{"spreadZone", func(g *gen) { g.spread(corev1.LabelTopologyZone) }},
	{"spreadHost", func(g *gen) { g.spread(corev1.LabelHostname) }},
	{"spreadOther", (*gen).spreadOther},
	{"spreadAnyZone", func(g *gen) { g.spreadAny(corev1.LabelTopologyZone) }},
	{"spreadAnyHost", func(g *gen) { g.spreadAny(corev1.LabelHostname) }},
	{"minDomains", (*gen).minDomains},
	{"spreadRevision", (*gen).spreadRevision},
	{"affinityZone", func(g *gen) { g.podAffinity(corev1.LabelTopologyZone) }},
	{"affinityHost", func(g *gen) { g.podAffinity(corev1.LabelHostname) }},
	{"antiZone", func(g *gen) { g.podAntiAffinity(corev1.LabelTopologyZone) }},
	{"antiHost", func(g *gen) { g.podAntiAffinity(corev1.LabelHostname) }},
	{"namespaces", (*gen).namespaces},
	{"affinityRevision", (*gen).affinityRevision},
	{"defaultSpread", (*gen).defaultSpread},
	{"owners", (*gen).owners},
}

// spreadScheduler is the schedulerName of the dev cluster's profile that has defaultSpread.
const spreadScheduler = "default-spread"

// defaultSpread is what --scheduler-config says for that profile.
const defaultSpread = `podTopologySpread:
  defaultConstraints:
  - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
  - {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}
`

// daemonKinds are the ways in which daemons differ from other pods.
var daemonKinds = []kind{
	{"daemonsAmong", (*gen).daemonsAmong},
	{"daemonsOfOfferings", (*gen).daemonsOfOfferings},
	{"daemonOverhead", (*gen).daemonOverhead},
}

// preferenceKinds are preferences: kube-scheduler never refuses a pod for one.
var preferenceKinds = []kind{
	{"softSpread", (*gen).softSpread},
	{"preferNode", (*gen).preferNode},
	{"preferPods", (*gen).preferPods},
}

// laneOwnKey is a topology key that no other run has, for rules that look at nodes
// which the pod cannot be on.
const laneOwnKey = "oracle.dovetail.test/row"

func own(w *workload) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.pod.Labels["app"]}}
}

// selects returns a selector of the workload's pods, of others too, or of others only.
func (g *gen) selects(w *workload) *metav1.LabelSelector {
	switch g.IntN(8) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, g.work...).pod.Labels["app"]}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{pick(g, "front", "back")}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, g.work...).pod.Labels["app"]}}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	default:
		return own(w)
	}
}

func (g *gen) addSpread(w *workload, c corev1.TopologySpreadConstraint) {
	for _, had := range w.pod.Spec.TopologySpreadConstraints {
		if had.TopologyKey == c.TopologyKey && had.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return // the API allows one of each
		}
	}
	w.pod.Spec.TopologySpreadConstraints = append(w.pod.Spec.TopologySpreadConstraints, c)
}

func (g *gen) spread(key string) {
	for _, w := range g.affected() {
		c := corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: int32(1 + g.IntN(2)), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: g.selects(w),
		}
		if g.chance(30) {
			honor := corev1.NodeInclusionPolicyHonor
			c.NodeTaintsPolicy = &honor
		}
		if g.chance(5) {
			c.LabelSelector = nil
		}
		g.addSpread(w, c)
	}
}

// spreadOther spreads over a label that pools set, with every policy.
func (g *gen) spreadOther() {
	for i := range g.s.Pools {
		t := &g.s.Pools[i].Spec.Template
		t.Labels = with(t.Labels, laneOwnKey, fmt.Sprint(i))
	}
	for i := range g.s.Nodes {
		if g.chance(80) {
			g.s.Nodes[i].Labels[laneOwnKey] = pick(g, "0", "1", "2")
		}
	}
	for _, w := range g.affected() {
		c := corev1.TopologySpreadConstraint{
			TopologyKey: laneOwnKey, MaxSkew: int32(1 + g.IntN(3)), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: g.selects(w),
		}
		policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
		affinity, taints := pick(g, policies...), pick(g, policies...)
		c.NodeAffinityPolicy, c.NodeTaintsPolicy = &affinity, &taints
		g.addSpread(w, c)
	}
}

// spreadAny spreads over nodes that the pod's own affinity rules out, too; not over those
// whose taints it does not tolerate, or it would see other runs' nodes.
func (g *gen) spreadAny(key string) {
	for _, w := range g.affected() {
		ignore, honor := corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor
		g.addSpread(w, corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: int32(1 + g.IntN(2)), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: g.selects(w),
			NodeAffinityPolicy: &ignore, NodeTaintsPolicy: &honor,
		})
		for i := range w.pod.Spec.Tolerations {
			if t := &w.pod.Spec.Tolerations[i]; t.Key == "" {
				t.Key = "dedicated"
			}
		}
		if len(w.pod.Spec.NodeSelector) == 0 && g.chance(50) {
			w.pod.Spec.NodeSelector = map[string]string{"example.com/pool": "general"}
		}
	}
}

func (g *gen) minDomains() {
	for _, w := range g.affected() {
		n := int32(1 + g.IntN(4))
		g.addSpread(w, corev1.TopologySpreadConstraint{
			TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname), MaxSkew: int32(1 + g.IntN(2)), MinDomains: &n,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own(w),
		})
	}
}

// revisionKeys are the labels that distinguish revisions of a workload.
var revisionKeys = []string{"revision", appsv1.DefaultDeploymentUniqueLabelKey}

// revisions gives the workload's pods one of two revisions, as a rollout does, and returns
// the label that says which.
func (g *gen) revisions(w *workload) (key string) {
	key = pick(g, revisionKeys...)
	w.vary(func(i int, p *corev1.Pod) { p.Labels[key] = []string{"a", "b"}[i%2] })
	return key
}

func (g *gen) spreadRevision() {
	for _, w := range g.affected() {
		g.addSpread(w, corev1.TopologySpreadConstraint{
			TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelHostname), MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: own(w), MatchLabelKeys: []string{g.revisions(w)},
		})
	}
}

func (w *workload) together() *corev1.PodAffinity {
	a := w.affinity()
	if a.PodAffinity == nil {
		a.PodAffinity = &corev1.PodAffinity{}
	}
	return a.PodAffinity
}

func (w *workload) apart() *corev1.PodAntiAffinity {
	a := w.affinity()
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	return a.PodAntiAffinity
}

func (g *gen) podAffinity(key string) {
	for _, w := range g.affected() {
		a := w.together()
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: g.selects(w)})
	}
}

func (g *gen) podAntiAffinity(key string) {
	for _, w := range g.affected() {
		a := w.apart()
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: g.selects(w)})
	}
}

// namespaces gives terms that look into the other namespace, by name or by its labels.
func (g *gen) namespaces() {
	for _, w := range g.affected() {
		t := corev1.PodAffinityTerm{TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelHostname), LabelSelector: g.selects(w)}
		switch g.IntN(5) {
		case 3:
			t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: teamKey, Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, nsOne, nsTwo)}},
			}}
		case 4:
			t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: pick(g, teamKey, "example.com/none"), Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
			}}
		case 0:
			t.Namespaces = some(g, 2, []string{nsOne, nsTwo})
		case 1:
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{teamKey: pick(g, nsOne, nsTwo)}}
		case 2:
			t.Namespaces = []string{nsOne}
			t.NamespaceSelector = &metav1.LabelSelector{} // all of the lane's
		}
		if g.chance(50) {
			w.apart().RequiredDuringSchedulingIgnoredDuringExecution = append(w.apart().RequiredDuringSchedulingIgnoredDuringExecution, t)
		} else {
			w.together().RequiredDuringSchedulingIgnoredDuringExecution = append(w.together().RequiredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
}

func (g *gen) affinityRevision() {
	for _, w := range g.affected() {
		revision := []string{g.revisions(w)}
		t := corev1.PodAffinityTerm{TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelHostname), LabelSelector: own(w)}
		if g.chance(50) {
			t.MatchLabelKeys = revision
		} else {
			t.MismatchLabelKeys = revision
		}
		if g.chance(60) {
			w.apart().RequiredDuringSchedulingIgnoredDuringExecution = append(w.apart().RequiredDuringSchedulingIgnoredDuringExecution, t)
		} else {
			w.together().RequiredDuringSchedulingIgnoredDuringExecution = append(w.together().RequiredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
}

// defaultSpread has all pods scheduled by the profile with default constraints, and makes
// services by which pods without constraints of their own know their siblings.
func (g *gen) defaultSpread() {
	for _, w := range g.work {
		w.pod.Spec.SchedulerName = spreadScheduler
	}
	serve := func(w *workload, key string) {
		g.s.Services = append(g.s.Services, corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name + "-" + key},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{key: w.pod.Labels[key]}},
		})
	}
	for _, w := range g.affected() {
		if g.chance(80) {
			serve(w, "app")
		}
		if g.chance(25) { // others' pods too, or as one of two services
			serve(w, "tier")
		}
	}
}

// owners has the pods of workloads belong to a controller, and spread by default: pods of
// one controller are siblings, also where a service is not.
func (g *gen) owners() {
	for _, w := range g.work {
		w.pod.Spec.SchedulerName = spreadScheduler
	}
	for _, w := range g.affected() {
		kind := pick(g, "ReplicaSet", "StatefulSet")
		hashed := kind == "ReplicaSet" && g.chance(60) // two of a Deployment, in a rollout
		w.vary(func(i int, p *corev1.Pod) {
			o := owner{Kind: kind, Namespace: p.Namespace, Name: w.pod.Name, Selector: map[string]string{"app": p.Labels["app"]}}
			if hashed {
				p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = []string{"a", "b"}[i%2]
				o.Name += "-" + p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
				o.Selector[appsv1.DefaultDeploymentUniqueLabelKey] = p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
			}
			if !slices.ContainsFunc(g.s.Owners, func(had owner) bool { return had.Namespace == o.Namespace && had.Name == o.Name && had.Kind == kind }) {
				g.s.Owners = append(g.s.Owners, o)
			}
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: o.Name, Controller: &yes}}
		})
	}
}

// daemonsAmong puts daemons where rules between pods see them.
func (g *gen) daemonsAmong() {
	g.daemons()
	for i := range g.s.Daemons {
		g.s.Daemons[i].Namespace = nsOne
	}
}

// daemonsOfOfferings makes daemons that some offerings of a type carry and others not.
func (g *gen) daemonsOfOfferings() {
	g.daemons()
	for i := range g.s.Daemons {
		g.s.Daemons[i].Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: pick(g, allZones...)}
	}
}

// daemonOverhead makes daemons that ask for more than their templates say, by their
// runtime class.
func (g *gen) daemonOverhead() {
	g.daemons()
	for i := range g.s.Daemons {
		heavy := "heavy"
		g.s.Daemons[i].Spec.Template.Spec.RuntimeClassName = &heavy
	}
}

func required(q corev1.NodeSelectorRequirement) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{q}}},
	}}}
}

func (g *gen) softSpread() {
	for _, w := range g.affected() {
		g.addSpread(w, corev1.TopologySpreadConstraint{
			TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelHostname), MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: g.selects(w),
		})
	}
}

func (g *gen) preferNode() {
	for _, w := range g.affected() {
		for range 1 + g.IntN(2) {
			a := w.nodeAffinity()
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
				Weight: int32(1 + g.IntN(100)), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.rule()}},
			})
		}
	}
}

func (g *gen) preferPods() {
	for _, w := range g.affected() {
		t := corev1.WeightedPodAffinityTerm{Weight: int32(1 + g.IntN(100)), PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: pick(g, corev1.LabelTopologyZone, corev1.LabelHostname), LabelSelector: g.selects(w),
		}}
		if g.chance(50) {
			w.apart().PreferredDuringSchedulingIgnoredDuringExecution = append(w.apart().PreferredDuringSchedulingIgnoredDuringExecution, t)
		} else {
			w.together().PreferredDuringSchedulingIgnoredDuringExecution = append(w.together().PreferredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
}
