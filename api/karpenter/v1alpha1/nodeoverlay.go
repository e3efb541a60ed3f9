package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the API of this package.
var GroupVersion = schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"} //nolint:gochecknoglobals // a constant that Go cannot spell

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeOverlay{}, &NodeOverlayList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Conditions of a NodeOverlay. Ready is true when ValidationSucceeded is.
const (
	// ConditionTypeReady says whether the overlay is in force.
	ConditionTypeReady = "Ready"
	// ConditionTypeValidationSucceeded says whether it is valid and contradicts no other one.
	ConditionTypeValidationSucceeded = "ValidationSucceeded"
)

// NodeOverlay corrects what the provider says of the instance types it selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeoverlays,scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the correction.
	// +required
	Spec NodeOverlaySpec `json:"spec"`
	// Status says whether it is in force.
	// +optional
	Status NodeOverlayStatus `json:"status,omitempty"`
}

// NodeOverlayList is a list of NodeOverlays.
//
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeOverlay `json:"items"`
}

// NodeOverlaySpec is a correction and what it is for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.price) || !has(self.priceAdjustment)",message="spec.price and spec.priceAdjustment exclude each other"
type NodeOverlaySpec struct {
	// Requirements select the instance types and offerings that are corrected.
	// +kubebuilder:validation:MaxItems:=100
	// +kubebuilder:validation:XValidation:rule="self.all(r, !(r.operator in ['In', 'NotIn']) || (has(r.values) && size(r.values) > 0))",message="requirements with operator 'In' or 'NotIn' must have a value"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(r.values) && size(r.values) == 1 && int(r.values[0]) >= 0))",message="requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, a non-negative integer"
	// +required
	Requirements []NodeSelectorRequirement `json:"requirements"`
	// PriceAdjustment changes the price: "+0.1" and "-0.1" add, "+10%" and "-10%"
	// multiply. The price never falls below 0.
	// +kubebuilder:validation:Pattern=`^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$`
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`
	// Price replaces the price per hour.
	// +kubebuilder:validation:Pattern=`^\d+(\.\d+)?$`
	// +optional
	Price *string `json:"price,omitempty"`
	// Capacity adds extended resources to the instance types.
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self || 'memory' in self || 'ephemeral-storage' in self || 'pods' in self)",message="capacity may not hold 'cpu', 'memory', 'ephemeral-storage' or 'pods'"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Weight decides between overlays that correct the same thing: higher wins. An
	// overlay without weight has weight 0.
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// NodeSelectorRequirement is one condition on the labels of an instance type.
type NodeSelectorRequirement struct {
	// Key is the label that the requirement is about.
	// +kubebuilder:validation:MaxLength:=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.split('/')[0].endsWith('karpenter.sh')",message="labels in the domain 'karpenter.sh' are restricted"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label 'kubernetes.io/hostname' is restricted"
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition', 'karpenter.k8s.aws/ec2nodeclass'] || !self.split('/')[0].endsWith('karpenter.k8s.aws')",message="labels in the domain 'karpenter.k8s.aws' are restricted"
	// +required
	Key string `json:"key"`
	// Operator says how the label's value is compared with Values.
	// +kubebuilder:validation:Enum:={In,NotIn,Exists,DoesNotExist,Gt,Lt,Gte,Lte}
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// Values are what the label's value is compared with: at least one for In and
	// NotIn, exactly one integer for Gt, Lt, Gte and Lte, none for Exists and
	// DoesNotExist.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeOverlayStatus says whether a NodeOverlay is in force.
type NodeOverlayStatus struct {
	// Conditions say whether it is valid and in force.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
