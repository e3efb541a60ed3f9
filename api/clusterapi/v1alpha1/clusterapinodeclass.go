package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of the provider and the domain of its labels.
const Group = "karpenter.cluster.x-k8s.io"

// Kind is the kind of node class.
const Kind = "ClusterAPINodeClass"

// Labels of the provider's instance types and nodes.
const (
	// InstanceCPULabelKey is the number of cpus, as a quantity.
	InstanceCPULabelKey = Group + "/instance-cpu"
	// InstanceMemoryLabelKey is the memory, as a canonical quantity.
	InstanceMemoryLabelKey = Group + "/instance-memory"
	// InstanceFamilyLabelKey and InstanceSizeLabelKey are what the labels of a MachineDeployment say.
	InstanceFamilyLabelKey = Group + "/instance-family"
	InstanceSizeLabelKey   = Group + "/instance-size"
	// CapacityCPULabelKey and CapacityMemoryLabelKey have the values of InstanceCPULabelKey and
	// InstanceMemoryLabelKey.
	CapacityCPULabelKey    = "capacity." + Group + "/cpu"
	CapacityMemoryLabelKey = "capacity." + Group + "/memory"
)

// Conditions of a ClusterAPINodeClass besides Ready.
const (
	// ConditionTypeCatalogComplete says whether every MachineDeployment that the class selects can be launched from.
	ConditionTypeCatalogComplete = "CatalogComplete"
)

// GroupVersion names the API of this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"} //nolint:gochecknoglobals // a constant that Go cannot spell

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ClusterAPINodeClass{}, &ClusterAPINodeClassList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ClusterAPINodeClass is the node class of the provider for Cluster API. It selects MachineDeployments,
// whose templates are what nodes are launched from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterapinodeclasses,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAPINodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what nodes of the class are launched from.
	// +optional
	Spec ClusterAPINodeClassSpec `json:"spec,omitempty"`
	// Status says whether the class can be used.
	// +optional
	Status ClusterAPINodeClassStatus `json:"status,omitempty"`
}

// ClusterAPINodeClassList is a list of ClusterAPINodeClasses.
//
// +kubebuilder:object:root=true
type ClusterAPINodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterAPINodeClass `json:"items"`
}

// ClusterAPINodeClassSpec is what nodes of a ClusterAPINodeClass are launched from.
type ClusterAPINodeClassSpec struct {
	// ScalableResourceSelector selects MachineDeployments by their labels. Without it those are
	// selected that have the label node.cluster.x-k8s.io/karpenter-member.
	// +optional
	ScalableResourceSelector *metav1.LabelSelector `json:"scalableResourceSelector,omitempty"`
	// ClusterRef is the Cluster that the nodes are of. It is needed only if the selector selects
	// MachineDeployments of more than one Cluster.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// Types says of instance types what their MachineDeployments do not.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	// +optional
	Types []InstanceType `json:"types,omitempty"`
	// Patience is how long launches may take.
	// +optional
	Patience *Patience `json:"patience,omitempty"`
}

// ClusterReference names a Cluster in the management cluster.
type ClusterReference struct {
	// Namespace of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// InstanceType says of an instance type what its MachineDeployments do not.
type InstanceType struct {
	// Name of the instance type: the label node.kubernetes.io/instance-type of its nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// PriceHourly is the price of one node in dollars an hour. An annotation of the MachineDeployment
	// takes precedence.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,8}(\.[0-9]{1,8})?$`
	// +optional
	PriceHourly string `json:"priceHourly,omitempty"`
	// Capacity of a node. What MachineDeployment and template say takes precedence.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Overhead is what system and kubelet keep from pods.
	// +optional
	Overhead corev1.ResourceList `json:"overhead,omitempty"`
}

// Patience is how long launches may take.
type Patience struct {
	// Launch is how long a node may be without a provider ID. The default is 20 minutes.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(s|m|h)){1,10}$`
	// +kubebuilder:validation:Type="string"
	// +optional
	Launch *metav1.Duration `json:"launch,omitempty"`
	// Registration is how long a node may take until it has joined the cluster. The default is 30
	// minutes.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(s|m|h)){1,10}$`
	// +kubebuilder:validation:Type="string"
	// +optional
	Registration *metav1.Duration `json:"registration,omitempty"`
}

// ClusterAPINodeClassStatus says whether a ClusterAPINodeClass can be used.
type ClusterAPINodeClassStatus struct {
	// Conditions say whether the class can be used.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Learned is what nodes of MachineDeployments had whose capacity nothing else says.
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=machineDeployment
	// +optional
	Learned []LearnedCapacity `json:"learned,omitempty"`
}

// LearnedCapacity is what a node of a MachineDeployment had.
type LearnedCapacity struct {
	// Namespace of the MachineDeployment.
	Namespace string `json:"namespace"`
	// MachineDeployment is its name.
	MachineDeployment string `json:"machineDeployment"`
	// Template is the kind and name of the template that the node was made from. Of another template
	// it says nothing.
	Template string `json:"template"`
	// Capacity and Allocatable are those of the node's status.
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}
