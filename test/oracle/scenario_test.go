package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// laneKey is the label, and taint, that keeps the pods of a run on the run's nodes. Scenarios
	// do not mention it: it is added when one is enacted.
	laneKey = "oracle.dovetail.test/run"
	// teamKey is the label that distinguishes namespaces.
	teamKey = "oracle.dovetail.test/team"
	// gateName is the gate that keeps the scheduler from pods until it is their turn.
	gateName = "oracle.dovetail.test/wait"
	// startingKey marks, as annotation, a node that has a claim and is still starting.
	startingKey = "oracle.dovetail.test/starting"
	// inFlightKey marks a node that has a claim and joins only after the plan is made.
	inFlightKey = "oracle.dovetail.test/in-flight"
	// deletingKey marks, as annotation, a running pod that is being deleted.
	deletingKey = "oracle.dovetail.test/leaving"
	// openKey marks a node in flight whose claim the cloud has not answered for.
	openKey = "oracle.dovetail.test/open"
	// notReadyKey marks, as annotation, a node that is not ready.
	notReadyKey = "oracle.dovetail.test/not-ready"
	// attachKey says, as annotation, how many volumes a node attaches.
	attachKey = "oracle.dovetail.test/attach"
	// allocatedKey says, as annotation, how much cpu the kubelet has given to a running pod.
	allocatedKey = "oracle.dovetail.test/allocated"
	// urgentKey marks a pod for which the scheduler shall make room, and its node.
	urgentKey = "oracle.dovetail.test/urgent"
	// candidateKey marks, as annotation, a node that was made because it could be launched.
	candidateKey = "oracle.dovetail.test/candidate"
	// ownerHold keeps the owners of pods from going.
	ownerHold = "oracle.dovetail.test/hold"
	// otherGate is a gate that is not ours to open.
	otherGate = "example.com/quota"
	// reservationKey is the label that names a reservation.
	reservationKey = "example.com/reservation"
)

// The namespaces of every scenario. The pods are in the first two; rules between pods do
// not look into the third, where the daemons are.
const (
	nsOne    = "one"
	nsTwo    = "two"
	nsSystem = "system"
)

// class is the node class that all pools refer to.
var class = cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}

// scenario is a cluster with pods that wait: all that a plan depends on.
type scenario struct {
	// Note says of a kept scenario what it shows.
	Note    string                 `json:"note,omitempty"`
	Seed    uint64                 `json:"seed"`
	Kinds   []string               `json:"kinds"`
	Types   []instanceType         `json:"types"`
	Pools   []karpenterv1.NodePool `json:"pools"`
	Nodes   []corev1.Node          `json:"nodes,omitempty"`
	Daemons []appsv1.DaemonSet     `json:"daemons,omitempty"`
	Running []corev1.Pod           `json:"running,omitempty"`
	Pending []corev1.Pod           `json:"pending"`

	// Services select pods of the scheduler that spreads by default.
	Services []corev1.Service `json:"services,omitempty"`
	// Owners are the controllers of pods; they do nothing.
	Owners      []owner                        `json:"owners,omitempty"`
	LimitRanges []corev1.LimitRange            `json:"limitRanges,omitempty"`
	Storage     []storagev1.StorageClass       `json:"storage,omitempty"`
	Volumes     []corev1.PersistentVolume      `json:"volumes,omitempty"`
	Claims      []corev1.PersistentVolumeClaim `json:"claims,omitempty"`
}

// instanceType is an instance type. Every zone is offered at every capacity type but for
// those in Unavailable, written zone/capacity-type.
type instanceType struct {
	Name          string           `json:"name"`
	CPU           int64            `json:"cpu"` // cores
	MemoryGiB     int64            `json:"memoryGiB"`
	Pods          int64            `json:"pods"`
	Arch          string           `json:"arch"`
	Extended      map[string]int64 `json:"extended,omitempty"`
	Zones         []string         `json:"zones"`
	CapacityTypes []string         `json:"capacityTypes"`
	Unavailable   []string         `json:"unavailable,omitempty"`
	// Attach is how many volumes of the one driver a node attaches; nil: it does not say.
	Attach   *int64        `json:"attach,omitempty"`
	Reserved []reservation `json:"reserved,omitempty"`
}

// reservation is some nodes of a type in a zone that are paid for already.
type reservation struct {
	Zone string `json:"zone"`
	Left int    `json:"left"`
}

// owner is a ReplicaSet or StatefulSet. Pods refer to it by kind and name.
type owner struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Selector  map[string]string `json:"selector"`
}

const gibibyte = int64(1) << 30

// catalogType returns the type in the provider's words.
func (m *instanceType) catalogType() *catalog.Type {
	t := &catalog.Type{
		Name: m.Name,
		Requirements: label.Requirements{
			label.InstanceType:               label.In(m.Name),
			corev1.LabelArchStable:           label.In(m.Arch),
			corev1.LabelOSStable:             label.In("linux"),
			kwokv1alpha1.InstanceCPULabelKey: label.In(fmt.Sprint(m.CPU)),
			label.Zone:                       label.In(m.Zones...),
			label.CapacityType:               label.In(m.CapacityTypes...),
		},
		Capacity: quantity.List{
			quantity.CPU: m.CPU * 1000, quantity.Memory: m.MemoryGiB * gibibyte,
			quantity.EphemeralStorage: 20 * gibibyte, quantity.Pods: m.Pods,
		},
		Overhead: quantity.List{quantity.CPU: 100, quantity.Memory: 64 << 20},
	}
	maps.Copy(t.Capacity, m.Extended)
	if m.Attach != nil {
		t.Capacity[quantity.AttachPrefix+driver] = *m.Attach
	}
	for _, zone := range m.Zones {
		for _, ct := range m.CapacityTypes {
			price := 0.025*float64(m.CPU) + 0.003*float64(m.MemoryGiB)
			for _, n := range m.Extended {
				price += float64(n) * 1e-3
			}
			if ct == label.Spot {
				price *= 0.7
			}
			t.Offerings = append(t.Offerings, catalog.Offering{
				Zone: zone, CapacityType: ct, PriceHourly: price, Priced: true,
				Available: !slices.Contains(m.Unavailable, zone+"/"+ct),
			})
		}
	}
	for _, r := range m.Reserved {
		id := m.Name + "-" + r.Zone
		t.Requirements[label.CapacityType] = label.In(append(slices.Clone(m.CapacityTypes), label.Reserved)...)
		t.Offerings = append(t.Offerings, catalog.Offering{
			Zone: r.Zone, CapacityType: label.Reserved, Labels: map[string]string{reservationKey: id}, PriceHourly: 1e-4, Priced: true,
			Available: r.Left > 0, Reservation: id, Left: r.Left,
		})
	}
	return t
}

func (s *scenario) catalog() []*catalog.Type {
	var types []*catalog.Type
	for i := range s.Types {
		types = append(types, s.Types[i].catalogType())
	}
	return types
}

func (s *scenario) pool(name string) *karpenterv1.NodePool {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// clone returns a copy that shares nothing with s.
func (s *scenario) clone() *scenario {
	text, err := json.Marshal(s)
	c := scenario{}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err) // it was read, or made to be written
	}
	return &c
}

// read returns the scenario kept in a file.
func read(path string) (*scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &scenario{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// enacted returns the scenario as one run plays it: names of nodes are the run's own,
// namespaces the lane's, and the run's label is on all that decides who may meet whom. A
// taint does the same for rules that look at nodes which the pod cannot be on.
func (s *scenario) enacted(id string, namespaces map[string]string) *scenario {
	e := s.clone()
	for i := range e.Pools {
		t := &e.Pools[i].Spec.Template
		t.Labels = ownRow(with(t.Labels, laneKey, id), id)
		t.Spec.Taints = append(t.Spec.Taints, corev1.Taint{Key: laneKey, Value: id, Effect: corev1.TaintEffectNoSchedule})
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		n.Name = id + "-" + n.Name
		n.Labels = ownRow(with(with(n.Labels, laneKey, id), corev1.LabelHostname, n.Name), id)
		n.Spec.ProviderID = "oracle://" + n.Name
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: laneKey, Value: id, Effect: corev1.TaintEffectNoSchedule})
		if n.Labels[urgentKey] != "" {
			n.Labels[urgentKey] = n.Name
		}
	}
	for i := range e.LimitRanges {
		e.LimitRanges[i].Namespace = namespaces[e.LimitRanges[i].Namespace]
	}
	for i := range e.Owners {
		e.Owners[i].Namespace = namespaces[e.Owners[i].Namespace]
	}
	for i := range e.Services {
		e.Services[i].Namespace = namespaces[e.Services[i].Namespace]
	}
	e.enactStorage(id, namespaces)
	for i := range e.Daemons {
		d := &e.Daemons[i]
		d.Namespace = namespaces[d.Namespace]
		enactPod(&d.Spec.Template.Spec, id, namespaces)
	}
	for i := range e.Running {
		p := &e.Running[i]
		p.Namespace = namespaces[p.Namespace]
		if p.Annotations[urgentKey] != "" {
			p.Spec.NodeSelector = with(p.Spec.NodeSelector, urgentKey, id+"-"+p.Spec.NodeSelector[urgentKey])
		} else {
			p.Spec.NodeName = id + "-" + p.Spec.NodeName
		}
		enactPod(&p.Spec, id, namespaces)
	}
	for i := range e.Pending {
		p := &e.Pending[i]
		p.Namespace = namespaces[p.Namespace]
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gateName})
		enactPod(&p.Spec, id, namespaces)
	}
	return e
}

func enactPod(spec *corev1.PodSpec, id string, namespaces map[string]string) {
	spec.NodeSelector = with(spec.NodeSelector, laneKey, id)
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: laneKey, Operator: corev1.TolerationOpEqual, Value: id})
	off := false
	spec.AutomountServiceAccountToken = &off
	spec.EnableServiceLinks = &off
	for i := range spec.TopologySpreadConstraints {
		if c := &spec.TopologySpreadConstraints[i]; c.TopologyKey == laneOwnKey {
			c.TopologyKey = laneOwnKey + "-" + id
		}
	}
	for _, t := range podTerms(spec) {
		for i, name := range t.Namespaces {
			t.Namespaces[i] = namespaces[name]
		}
		if t.NamespaceSelector != nil {
			t.NamespaceSelector.MatchLabels = with(t.NamespaceSelector.MatchLabels, laneKey, namespaces[nsOne])
		}
	}
}

// ownRow makes the label that only nodes of this run may have their own.
func ownRow(labels map[string]string, id string) map[string]string {
	if value, ok := labels[laneOwnKey]; ok {
		delete(labels, laneOwnKey)
		labels[laneOwnKey+"-"+id] = value
	}
	return labels
}

// podTerms returns all terms of pod affinity and anti-affinity, to be changed in place.
func podTerms(spec *corev1.PodSpec) (terms []*corev1.PodAffinityTerm) {
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			terms = append(terms, &required[i])
		}
		for i := range preferred {
			terms = append(terms, &preferred[i].PodAffinityTerm)
		}
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		add(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		add(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

func with(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// newPool returns a pool that is ready.
func newPool(name string) karpenterv1.NodePool {
	np := karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: class.Name}
	np.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	return np
}
