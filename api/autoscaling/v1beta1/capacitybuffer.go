package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the API of this package.
var GroupVersion = schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1beta1"} //nolint:gochecknoglobals // a constant that Go cannot spell

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CapacityBuffer{}, &CapacityBufferList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ProvisioningStrategyActiveCapacity keeps the room as running nodes. It is the
// default.
const ProvisioningStrategyActiveCapacity = "buffer.x-k8s.io/active-capacity"

// Conditions of a CapacityBuffer.
const (
	// ConditionTypeReadyForProvisioning says whether size and number are known.
	ConditionTypeReadyForProvisioning = "ReadyForProvisioning"
	// ConditionTypeProvisioning says whether the room is there.
	ConditionTypeProvisioning = "Provisioning"
	// ConditionTypeLimitedByQuotas is declared by the API; we do not write it.
	ConditionTypeLimitedByQuotas = "LimitedByQuotas"
)

// Reasons of the condition ReadyForProvisioning.
const (
	// ReasonResolved: size and number are known.
	ReasonResolved = "Resolved"
	// ReasonPodTemplateNotFound: there is no such PodTemplate.
	ReasonPodTemplateNotFound = "PodTemplateNotFound"
	// ReasonScalableRefNotFound: there is no such workload.
	ReasonScalableRefNotFound = "ScalableRefNotFound"
	// ReasonResolutionFailed: it names nothing, or something else.
	ReasonResolutionFailed = "ResolutionFailed"
)

// CapacityBuffer asks for room to be kept free for pods that do not exist yet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capacitybuffers,scope=Namespaced,categories=autoscaling,shortName=cb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.provisioningStrategy"
// +kubebuilder:printcolumn:name="PodTemplate",type="string",JSONPath=".status.podTemplateRef.name"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="ConditionsType",type="string",JSONPath=".status.conditions[*].type"
// +kubebuilder:printcolumn:name="ConditionsStatus",type="string",JSONPath=".status.conditions[*].status"
// +kubebuilder:printcolumn:name="ConditionsReason",type="string",JSONPath=".status.conditions[*].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the room that is asked for.
	// +required
	Spec CapacityBufferSpec `json:"spec"`
	// Status is what is known of it.
	// +optional
	Status CapacityBufferStatus `json:"status,omitempty"`
}

// CapacityBufferList is a list of CapacityBuffers.
//
// +kubebuilder:object:root=true
type CapacityBufferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CapacityBuffer `json:"items"`
}

// CapacityBufferSpec is the room that is asked for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",message="spec.podTemplateRef needs spec.replicas or spec.limits"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplateRef) || !has(self.scalableRef)",message="spec.podTemplateRef and spec.scalableRef exclude each other"
type CapacityBufferSpec struct {
	// ProvisioningStrategy says how the room is kept.
	// +kubebuilder:default:="buffer.x-k8s.io/active-capacity"
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
	// PodTemplateRef names a PodTemplate in the same namespace: the constraints of one pod.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// ScalableRef names a workload in the same namespace: its pods give the constraints.
	// +optional
	ScalableRef *ScalableRef `json:"scalableRef,omitempty"`
	// Replicas is the number of pods that there must be room for.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Percentage is that number as a percentage of the workload's replicas, rounded up.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`
	// Limits bounds the sum of the requests of the pods that room is kept for.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// LocalObjectRef names an object in the same namespace.
type LocalObjectRef struct {
	// Name is the name of the object.
	// +kubebuilder:validation:MinLength:=1
	// +required
	Name string `json:"name"`
}

// ScalableRef names a workload in the same namespace.
type ScalableRef struct {
	// APIGroup is the group of the workload; empty is "apps".
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind is the kind of the workload.
	// +kubebuilder:validation:MinLength:=1
	// +required
	Kind string `json:"kind"`
	// Name is the name of the workload.
	// +kubebuilder:validation:MinLength:=1
	// +required
	Name string `json:"name"`
}

// CapacityBufferStatus is what is known of a CapacityBuffer.
type CapacityBufferStatus struct {
	// PodTemplateRef names the PodTemplate that the constraints were taken from.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// Replicas is the number of pods that room is kept for.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// PodTemplateGeneration is the generation of that PodTemplate.
	// +optional
	PodTemplateGeneration *int64 `json:"podTemplateGeneration,omitempty"`
	// Conditions say whether the room is there.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProvisioningStrategy is the strategy in use.
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
}
