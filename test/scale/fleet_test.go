package scale

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	workloads   = 200
	poolName    = "general"
	className   = "default"
	namespaces  = 20
	podsPerNode = 20
	// age is how old everything in the fleet is: older than any cooldown.
	age = 24 * time.Hour
	// nodeCPUMost keeps nodes so small that there are podsPerNode pods on each.
	nodeCPUMost = 16
)

// fleet is a cluster at rest, launched by the solver for the pods that it has.
type fleet struct {
	at     time.Time
	around []client.Object // what is neither a Node, a NodeClaim nor a pod
	nodes  []client.Object
	claims []client.Object
	pods   []*corev1.Pod
	price  float64

	types []*catalog.Type
	words translate.Vocabulary
}

// newFleet returns a cluster with so many pods.
func newFleet(tb testing.TB, pods int, at time.Time) *fleet {
	tb.Helper()
	f := &fleet{at: at, types: kwok.DefaultTypes(), words: vocabulary()}
	f.addAround(pods)
	for i := range pods {
		f.pods = append(f.pods, f.pod(i))
	}
	s := f.store()
	f.observe(tb, s, f.pods)
	p := pack.Solve(s.Snapshot(), pack.Options{})
	if len(p.Refusals) > 0 {
		tb.Fatalf("%d pods have no node: %v", len(p.Refusals), p.Refusals[0].Why)
	}
	byRef := make(map[string]*corev1.Pod, pods)
	for _, pod := range f.pods {
		byRef[string(pod.UID)] = pod
	}
	np := f.pool()
	for i := range p.Launches {
		f.launch(tb, &launched{i, &p.Launches[i], np, byRef})
		f.price += p.Launches[i].PriceHourly
	}
	return f
}

// store returns an empty mirror, as the controller has one with the provider for KWOK.
func (f *fleet) store() *mirror.Store {
	s := mirror.NewStore(mirror.Options{
		Vocabulary: f.words, Now: func() time.Time { return f.at }, Started: f.at.Add(-time.Hour), BatchMax: 10 * time.Second, Owners: true,
		Manages: func(group, kind string) bool {
			return group == kwokv1alpha1.Group && strings.EqualFold(kind, "KWOKNodeClass")
		},
	})
	s.Pools().SetTypes(cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: className}, f.types, nil)
	return s
}

// vocabulary is that of the provider for KWOK.
func vocabulary() translate.Vocabulary {
	p, err := kwok.New(nil, kwok.Options{Now: time.Now})
	if err != nil {
		panic(err)
	}
	known := p.Vocabulary()
	return translate.NewVocabulary(known.WellKnown, known.RestrictedDomains)
}

// observe shows a mirror everything around, and some pods.
func (f *fleet) observe(tb testing.TB, s *mirror.Store, pods []*corev1.Pod) {
	tb.Helper()
	all := slices.Clone(f.around)
	for _, pod := range pods {
		all = append(all, pod)
	}
	for _, o := range all {
		if _, is := o.(*kwokv1alpha1.KWOKNodeClass); is {
			continue // the mirror does not watch it
		}
		if err := s.Observe(o); err != nil {
			tb.Fatal(err)
		}
	}
}

// trim trims the pods as the controller's cache does.
func (f *fleet) trim() {
	trimmer := &translate.PodTrimmer{}
	for i := range f.pods {
		f.pods[i] = f.pods[i].DeepCopy()
		trimmer.Trim(f.pods[i])
	}
}

// mirrored returns a mirror that has seen everything.
func (f *fleet) mirrored(tb testing.TB) *mirror.Store {
	tb.Helper()
	s := f.store()
	if err := s.Observe(append(slices.Clone(f.nodes), f.claims...)...); err != nil {
		tb.Fatal(err)
	}
	f.observe(tb, s, f.pods)
	return s
}

func (f *fleet) born() metav1.Time { return metav1.NewTime(f.at.Add(-age).UTC().Truncate(time.Second)) }

// addAround adds namespaces, the NodePool and its class, ReplicaSets, and PodDisruptionBudgets for every fourth workload.
func (f *fleet) addAround(pods int) {
	for i := range namespaces {
		name := namespaceOf(i)
		f.around = append(f.around, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelMetadataName: name}}})
	}
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: className, UID: "class", CreationTimestamp: f.born(), Generation: 1}}
	class.Status.Conditions = trueSince(f.born(), "Ready")
	f.around = append(f.around, f.pool(), class)
	for w := range workloads {
		replicas := int32((pods + workloads - 1 - w) / workloads)
		meta := metav1.ObjectMeta{Namespace: namespaceOf(w), Name: workloadName(w), UID: ownerUID(w), Labels: appLabels(w), CreationTimestamp: f.born()}
		f.around = append(f.around, &appsv1.ReplicaSet{
			ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: appLabels(w)}},
			Status: appsv1.ReplicaSetStatus{Replicas: replicas},
		})
		if w%4 == 0 {
			meta.UID = types.UID("pdb-" + meta.Name)
			tenth := intstr.FromString("10%")
			f.around = append(f.around, &policyv1.PodDisruptionBudget{
				ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &tenth, Selector: &metav1.LabelSelector{MatchLabels: appLabels(w)}},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: replicas / 10, CurrentHealthy: replicas, DesiredHealthy: replicas - replicas/10, ExpectedPods: replicas},
			})
		}
	}
}

func (f *fleet) pool() *karpenterv1.NodePool {
	rule := func(key string, op corev1.NodeSelectorOperator, values ...string) karpenterv1.NodeSelectorRequirementWithMinValues {
		return karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
	}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: poolName, UID: "pool", CreationTimestamp: f.born(), Generation: 1}}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: className}
	np.Spec.Template.Spec.ExpireAfter = karpenterv1.NillableDuration{}
	np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{
		rule(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "linux"), rule(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64"),
		rule(karpenterv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, "on-demand"),
		rule(kwokv1alpha1.InstanceCPULabelKey, "Lte", fmt.Sprint(nodeCPUMost)),
	}
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized, ConsolidateAfter: karpenterv1.NillableDuration{Duration: new(30 * time.Second)},
		Budgets: []karpenterv1.Budget{{Nodes: "10%"}},
	}
	np.Status.Conditions = trueSince(f.born(), "NodeClassReady", "ValidationSucceeded", "NodeRegistrationHealthy", "Ready")
	return np
}

func trueSince(at metav1.Time, kinds ...string) (conditions []metav1.Condition) {
	for _, kind := range kinds {
		conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: at, ObservedGeneration: 1})
	}
	return conditions
}

func namespaceOf(workload int) string { return fmt.Sprintf("team-%02d", workload%namespaces) }
func workloadName(w int) string       { return fmt.Sprintf("service-%03d-%08x", w, uint32(w+1)*2654435761) }

func ownerUID(w int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012d", w)) }

func appLabels(w int) map[string]string {
	return map[string]string{"app.kubernetes.io/name": fmt.Sprintf("service-%03d", w), "pod-template-hash": fmt.Sprintf("%08x", uint32(w+1)*2654435761)}
}

// launched is one launch of the plan for the fleet's pods, which are given by UID.
type launched struct {
	number int
	launch *plan.Launch
	pool   *karpenterv1.NodePool
	pods   map[string]*corev1.Pod
}

// launch adds the node that a launch became, with its NodeClaim, and binds the pods to it.
func (f *fleet) launch(tb testing.TB, of *launched) {
	tb.Helper()
	i, l := of.number, of.launch
	choices := catalog.Choices(f.types, l.Requirements, l.Requests)
	if len(choices) == 0 {
		tb.Fatalf("nothing can be launched for %v", l.Requirements)
	}
	choice := choices[i%sameCost(choices)]
	nc := translate.NodeClaim(of.pool, l, f.words)
	nc.Name, nc.GenerateName = fmt.Sprintf("%s-%05x", poolName, i), ""
	node := fmt.Sprintf("kwok-%s-%05x-%d", nc.Name, i*7919, uint32(i+1)*2654435761)
	labels := maps.Clone(nc.Labels)
	for key, r := range choice.Type.Requirements {
		if values := r.Values(); len(values) > 0 {
			labels[key] = values[0]
		}
	}
	for key, r := range choice.Offering.Requirements() {
		labels[key], _ = r.Only()
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelInstanceTypeStable: choice.Type.Name, corev1.LabelHostname: nc.Name, "kwok.x-k8s.io/node": "fake", "kwok-partition": "a",
		karpenterv1.NodeRegisteredLabelKey: karpenterv1.LabelValueTrue, karpenterv1.NodeInitializedLabelKey: karpenterv1.LabelValueTrue,
	})
	nc.UID, nc.CreationTimestamp, nc.Generation, nc.Labels = types.UID("claim-"+nc.Name), f.born(), 1, maps.Clone(labels)
	delete(nc.Labels, corev1.LabelHostname)
	nc.ManagedFields = managed()
	nc.Status = karpenterv1.NodeClaimStatus{
		ProviderID: "kwok://" + node, NodeName: node,
		Capacity: translate.ResourceList(choice.Type.Capacity), Allocatable: translate.ResourceList(choice.Type.Allocatable()),
		Conditions: trueSince(f.born(), "ConsistentStateFound", "Consolidatable", "Initialized", "Launched", "Registered", "Ready"), LastPodEventTime: f.born(),
	}
	f.claims = append(f.claims, nc)
	f.nodes = append(f.nodes, f.node(node, nc, labels))
	for k, ref := range l.Pods {
		bind(of.pods[ref.UID], node, k, f.born())
	}
}

// sameCost returns how many of the first choices cost the same.
func sameCost(choices []catalog.Choice) (n int) {
	for n < len(choices) && choices[n].Offering.Cost() == choices[0].Offering.Cost() {
		n++
	}
	return n
}

// node returns a Node as large as those of real clusters, with the images and conditions that kubelets report.
func (f *fleet) node(name string, nc *karpenterv1.NodeClaim, labels map[string]string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), Labels: labels, CreationTimestamp: f.born(), Finalizers: []string{karpenterv1.TerminationFinalizer}, ManagedFields: managed(),
			Annotations:     map[string]string{"kwok.x-k8s.io/node": "fake", kwokv1alpha1.Group + "/launch-token": string(nc.UID), kwokv1alpha1.Group + "/launch-claim": nc.Name, "node.alpha.kubernetes.io/ttl": "300"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: karpenterv1.GroupVersion.String(), Kind: "NodeClaim", Name: nc.Name, UID: nc.UID, BlockOwnerDeletion: new(true)}},
		},
		Spec:   corev1.NodeSpec{ProviderID: nc.Status.ProviderID, PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}},
		Status: corev1.NodeStatus{Phase: corev1.NodeRunning, Capacity: nc.Status.Capacity, Allocatable: nc.Status.Allocatable, Images: images},
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		status := corev1.ConditionFalse
		if c == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: status, Reason: "KubeletReports", Message: "kubelet reports this condition of the node", LastHeartbeatTime: f.born(), LastTransitionTime: f.born()})
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.3"}, {Type: corev1.NodeHostName, Address: name}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KernelVersion: "6.12.40-63.114.amzn2023.x86_64", OSImage: "Amazon Linux 2023", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.37.1", Architecture: "amd64", OperatingSystem: "linux", BootID: string(nc.UID), MachineID: name, SystemUUID: name}
	return n
}

// images are what all Nodes share, which nobody changes.
var images = func() (images []corev1.ContainerImage) {
	for i := range 40 {
		name := fmt.Sprintf("example.com/platform/service-%03d", i)
		images = append(images, corev1.ContainerImage{Names: []string{name + "@sha256:" + strings.Repeat("0123456789abcdef", 4), name + ":v1.2.3"}, SizeBytes: 123456789})
	}
	return images
}()

// managed returns field ownership as large as that of real objects; what it says is not read.
func managed() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: ownedFields},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: ownedFields, Subresource: "status"},
	}
}

// ownedFields are what all objects share, which nobody changes.
var ownedFields = func() *metav1.FieldsV1 {
	fields := map[string]any{}
	for i := range 40 {
		fields[fmt.Sprintf("f:field-%02d", i)] = map[string]any{".": map[string]any{}}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return metav1.NewFieldsV1(string(raw))
}()
