package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of the kwok provider and the domain of its labels.
const Group = "karpenter.kwok.sh"

// Labels of the provider's instance types and nodes.
const (
	// InstanceCPULabelKey is the number of cpus, as a quantity.
	InstanceCPULabelKey = Group + "/instance-cpu"
	// InstanceMemoryLabelKey is the memory, as a canonical quantity.
	InstanceMemoryLabelKey = Group + "/instance-memory"
	// InstanceFamilyLabelKey is the first part of the type's name.
	InstanceFamilyLabelKey = Group + "/instance-family"
	// InstanceSizeLabelKey is the size within the family.
	InstanceSizeLabelKey = Group + "/instance-size"
	// NodeClassLabelKey is the name of the KWOKNodeClass.
	NodeClassLabelKey = Group + "/kwoknodeclass"
)

// GroupVersion names the API of this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"} //nolint:gochecknoglobals // a constant that Go cannot spell

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &KWOKNodeClass{}, &KWOKNodeClassList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// KWOKNodeClass is the node class of the kwok provider. It is ready from the
// moment it is created.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kwoknodeclasses,scope=Cluster,categories=karpenter,shortName={kwoknc,kwokncs}
// +kubebuilder:subresource:status
type KWOKNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how nodes of the class behave.
	// +optional
	Spec KWOKNodeClassSpec `json:"spec,omitempty"`
	// Status says whether the class can be used.
	// +kubebuilder:default:={conditions: {{type: "Ready", status: "True", lastTransitionTime: "2024-01-01T01:01:01Z", reason: "Ready", message: ""}}}
	// +optional
	Status KWOKNodeClassStatus `json:"status,omitempty"`
}

// KWOKNodeClassList is a list of KWOKNodeClasses.
//
// +kubebuilder:object:root=true
type KWOKNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KWOKNodeClass `json:"items"`
}

// KWOKNodeClassSpec is how nodes of a KWOKNodeClass behave.
type KWOKNodeClassSpec struct {
	// NodeRegistrationDelay is how long after the launch the Node appears.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(s|m|h)){1,10}$`
	// +kubebuilder:validation:Type="string"
	// +optional
	NodeRegistrationDelay *metav1.Duration `json:"nodeRegistrationDelay,omitempty"`
}

// KWOKNodeClassStatus says whether a KWOKNodeClass can be used.
type KWOKNodeClassStatus struct {
	// Conditions say whether the class can be used.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default:={{type: "Ready", status: "True", lastTransitionTime: "2024-01-01T01:01:01Z", reason: "Ready", message: ""}}
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
