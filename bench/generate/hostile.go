package generate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// HostileFamily is one kind of pods that make a decision dear. The API server accepts each
// of them, and anybody who may create pods can send them.
type HostileFamily struct {
	Name, About string
	// pod gives pod i of n what sets the family apart.
	pod func(p *corev1.Pod, i, n int)
	// others are the objects that the pods need beside them.
	others func(n int) []client.Object
}

const (
	termsEach       = 20    // anti-affinity terms of one pod
	alternatives    = 200   // OR terms of one pod's node affinity
	preferencesEach = 60    // preferences of one pod
	namespacesEach  = 2_000 // names in one term
	spreadsEach     = 40
	portsEach       = 200
	tolerationsEach = 500
	labelsEach      = 300
	volumesEach     = 30
	volumeZones     = 3
)

// HostileFamilies returns all of them.
func HostileFamilies() []HostileFamily {
	return []HostileFamily{
		{Name: "anti-distinct", About: "20 anti-affinity terms each, no two alike", pod: antiDistinct},
		{Name: "anti-all", About: "20 anti-affinity terms each, no two alike, and each selects every pod", pod: antiAll},
		{Name: "anti-zone", About: "20 anti-affinity terms over zones each, no two alike", pod: antiZone},
		{Name: "spreads", About: "40 spreads each, no two alike, over keys of their own", pod: spreads},
		{Name: "spreads-host", About: "40 spreads over nodes each, each of which counts every pod", pod: spreadsHost},
		{Name: "labels", About: "300 labels each, and a term that asks about them all", pod: labelExplosion},
		{Name: "namespaces", About: "terms that name 2,000 namespaces each", pod: namespaceLists, others: manyNamespaces},
		{Name: "preferences-node", About: "60 preferences about nodes each, no two alike", pod: nodePreferences},
		{Name: "preferences-pod", About: "60 preferences about other pods each, no two alike", pod: podPreferences},
		{Name: "or-terms", About: "200 alternatives of node affinity each, no two alike", pod: orTerms},
		{Name: "not-in", About: "alternatives that name a thousand values each", pod: notIn},
		{Name: "chain", About: "each pod must be with the next one", pod: chain},
		{Name: "ports", About: "200 host ports each", pod: ports},
		{Name: "tolerations", About: "500 tolerations each, no two alike", pod: tolerations},
		{Name: "sizes", About: "no two pods ask for the same", pod: sizes},
		{Name: "volumes", About: "30 volumes each, each in one of three zones", pod: volumes, others: volumeObjects},
	}
}

// Objects returns the pods of the family, and what they need beside them.
func (f HostileFamily) Objects(pods int) []client.Object {
	var out []client.Object
	if f.others != nil {
		out = f.others(pods)
	}
	for i := range pods {
		p := pendingPod("hostile", fmt.Sprintf("%s-%d", f.Name, i), "100m", "128Mi")
		f.pod(p, i, pods)
		out = append(out, p)
	}
	return out
}

// Ordinary returns the pods of a plain Deployment in a namespace of its own.
func Ordinary(pods int) []client.Object {
	var out []client.Object
	for i := range pods {
		p := pendingPod("ordinary", fmt.Sprintf("web-%d", i), "500m", "1Gi")
		p.Labels = map[string]string{"app": "web"}
		out = append(out, p)
	}
	return out
}

// HostileSnapshot returns the cluster in which these objects are all there is, with one
// NodePool that sells everything that EC2 does.
func HostileSnapshot(objects ...client.Object) (*cluster.Snapshot, error) {
	types, err := ec2catalog.Types()
	if err != nil {
		return nil, err
	}
	at := time.Unix(1_800_000_000, 0)
	store := mirror.NewStore(mirror.Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: func() time.Time { return at },
		Manages: func(string, string) bool { return true },
	})
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	ref := karpenterv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	np.Spec.Template.Spec.NodeClassRef = &ref
	np.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue}}
	store.Pools().SetTypes(cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}, sold(types), nil)
	if err := store.Observe(np); err != nil {
		return nil, err
	}
	if err := store.Observe(objects...); err != nil {
		return nil, err
	}
	return store.Snapshot(), nil
}

// sold returns the types that somebody sells.
func sold(types []*catalog.Type) (out []*catalog.Type) {
	for _, t := range types {
		if len(t.Offerings) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// pendingPod returns a pod of which kube-scheduler said that no node can take it.
func pendingPod(namespace, name, cpu, memory string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

// affinityOf returns the pod's affinity, made when it has none.
func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	return p.Spec.Affinity
}

func labelSelector(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func antiDistinct(p *corev1.Pod, i, _ int) { antiTerms(p, i, corev1.LabelHostname) }
func antiZone(p *corev1.Pod, i, _ int)     { antiTerms(p, i, corev1.LabelTopologyZone) }

func antiTerms(p *corev1.Pod, i int, key string) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	anti := affinityOf(p).PodAntiAffinity
	for t := range termsEach {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
			TopologyKey: key, LabelSelector: labelSelector("k", metav1.LabelSelectorOpIn, fmt.Sprintf("v%d", i+t), fmt.Sprintf("none-%d-%d", i, t)),
		})
	}
}

func antiAll(p *corev1.Pod, i, _ int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	anti := affinityOf(p).PodAntiAffinity
	for t := range termsEach {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector("k", metav1.LabelSelectorOpNotIn, fmt.Sprintf("none-%d-%d", i, t)),
		})
	}
}

func spreads(p *corev1.Pod, i, _ int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	for s := range spreadsEach {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: int32(s + 1), TopologyKey: fmt.Sprintf("example.com/key-%d", s), WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: labelSelector("k", metav1.LabelSelectorOpNotIn, fmt.Sprintf("none-%d", i)),
		})
	}
}

func spreadsHost(p *corev1.Pod, i, _ int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	for s := range spreadsEach {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: int32(s + 1), TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: labelSelector("k", metav1.LabelSelectorOpNotIn, fmt.Sprintf("none-%d-%d", i, s)),
		})
	}
}

func labelExplosion(p *corev1.Pod, i, _ int) {
	p.Labels = map[string]string{}
	selector := &metav1.LabelSelector{}
	for l := range labelsEach {
		key := fmt.Sprintf("example.com/label-%d", l)
		p.Labels[key] = fmt.Sprintf("v%d", i)
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprintf("v%d", i), "other"},
		})
	}
	affinityOf(p).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: selector}}
}

func namespaceLists(p *corev1.Pod, i, _ int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector("k", metav1.LabelSelectorOpExists)}
	for ns := range namespacesEach {
		term.Namespaces = append(term.Namespaces, fmt.Sprintf("ns-%d-%d", i, ns))
	}
	term.Namespaces = append(term.Namespaces, p.Namespace)
	selecting := corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector("k", metav1.LabelSelectorOpNotIn, "none"),
		NamespaceSelector: labelSelector("team", metav1.LabelSelectorOpNotIn, term.Namespaces...),
	}
	affinityOf(p).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term, selecting}
}

func manyNamespaces(int) (out []client.Object) {
	for ns := range namespacesEach {
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-0-%d", ns), Labels: map[string]string{"team": fmt.Sprintf("t%d", ns)}}})
	}
	return append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}})
}

func nodePreferences(p *corev1.Pod, i, _ int) {
	for w := range preferencesEach {
		affinityOf(p).NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinityOf(p).NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(w + 1), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("none-%d-%d", i, w)}},
				{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpGt, Values: []string{fmt.Sprint(w * 1000)}},
			}}})
	}
}

func podPreferences(p *corev1.Pod, i, n int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	for w := range preferencesEach / 2 {
		term := func(kind string) corev1.WeightedPodAffinityTerm {
			return corev1.WeightedPodAffinityTerm{Weight: int32(w + 1), PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector("k", metav1.LabelSelectorOpIn, fmt.Sprintf("v%d", (i+w)%n), fmt.Sprintf("%s-%d-%d", kind, i, w)),
			}}
		}
		a := affinityOf(p)
		a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term("with"))
		a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, term("without"))
	}
}

func orTerms(p *corev1.Pod, i, _ int) {
	var terms []corev1.NodeSelectorTerm
	for t := range alternatives {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("none-%d-%d", i, t)}},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpExists},
		}})
	}
	affinityOf(p).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
}

func notIn(p *corev1.Pod, i, _ int) {
	values := make([]string, 1000)
	for v := range values {
		values[v] = fmt.Sprintf("none-%d-%d", i, v)
	}
	var terms []corev1.NodeSelectorTerm
	for t := range 5 {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpNotIn, Values: values},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: values[t:]},
		}})
	}
	affinityOf(p).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
}

func chain(p *corev1.Pod, i, n int) {
	p.Labels = map[string]string{"k": fmt.Sprintf("v%d", i)}
	affinityOf(p).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: labelSelector("k", metav1.LabelSelectorOpIn, fmt.Sprintf("v%d", (i+1)%n)),
	}}
}

func ports(p *corev1.Pod, i, _ int) {
	for port := range portsEach {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			HostPort: int32(1 + (i*7+port*31)%65_000), ContainerPort: int32(port + 1), HostIP: fmt.Sprintf("10.0.%d.%d", i%250, port%250),
		})
	}
}

func tolerations(p *corev1.Pod, i, _ int) {
	for t := range tolerationsEach {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("example.com/%d-%d", i, t), Operator: corev1.TolerationOpExists})
	}
}

func sizes(p *corev1.Pod, i, _ int) {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(100+i), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(128<<20+i*4096), resource.BinarySI),
	}
}

func volumes(p *corev1.Pod, i, _ int) {
	for v := range volumesEach {
		name := fmt.Sprintf("claim-%d-%d", i, v)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
}

// volumeObjects returns the bound claims and the volumes, each of which is reached from
// many alternatives of which no two are alike.
func volumeObjects(n int) (out []client.Object) {
	for i := range n {
		for v := range volumesEach {
			name := fmt.Sprintf("claim-%d-%d", i, v)
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}}
			required := &corev1.NodeSelector{}
			for z := range volumeZones {
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("none-%d-%d", v, z)}},
				}})
			}
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: required}
			pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "hostile", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
			}}
			pvc.Spec.VolumeName, pvc.Status.Phase = pv.Name, corev1.ClaimBound
			out = append(out, pv, pvc)
		}
	}
	return out
}
