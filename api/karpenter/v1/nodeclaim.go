package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Conditions of a NodeClaim. Ready is true when Launched, Registered and
// Initialized are; the others stand by themselves.
const (
	// ConditionTypeLaunched says whether the cloud accepted the launch.
	ConditionTypeLaunched = "Launched"
	// ConditionTypeRegistered says whether the Node appeared and was matched.
	ConditionTypeRegistered = "Registered"
	// ConditionTypeInitialized says whether the Node may take pods.
	ConditionTypeInitialized = "Initialized"
	// ConditionTypeConsolidatable is present while the claim may be consolidated.
	ConditionTypeConsolidatable = "Consolidatable"
	// ConditionTypeDrifted is present while the node is not what its pool or class asks for.
	ConditionTypeDrifted = "Drifted"
	// ConditionTypeRebooting is True while the claim's instance is rebooted in place. Ready does not
	// follow from it.
	ConditionTypeRebooting = "Rebooting"
	// ConditionTypeDisruptionReason is present while a disruption holds the claim.
	ConditionTypeDisruptionReason = "DisruptionReason"
	// ConditionTypeConsistentStateFound says whether the node is as large as was promised.
	ConditionTypeConsistentStateFound = "ConsistentStateFound"
	// ConditionTypeDrained says whether the pods have left.
	ConditionTypeDrained = "Drained"
	// ConditionTypeVolumesDetached says whether the volumes have left.
	ConditionTypeVolumesDetached = "VolumesDetached"
	// ConditionTypeInstanceTerminating is true once the cloud accepted the termination.
	ConditionTypeInstanceTerminating = "InstanceTerminating"
)

// NodeClaim asks for one node and follows it from launch to termination.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="ImageID",type="string",JSONPath=".status.imageID",priority=1
// +kubebuilder:printcolumn:name="ID",type="string",JSONPath=".status.providerID",priority=1
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1
// +kubebuilder:printcolumn:name="Drifted",type="string",JSONPath=".status.conditions[?(@.type==\"Drifted\")].status",priority=1
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is asked for. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec NodeClaimSpec `json:"spec"`
	// Status is what was made of it.
	// +optional
	Status NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimList is a list of NodeClaims.
//
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeClaim `json:"items"`
}

// NodeClaimSpec is what a NodeClaim asks for.
type NodeClaimSpec struct {
	// Taints are on the node for life; only pods that tolerate them may come.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StartupTaints are on the node when it starts and are expected to be taken away
	// by somebody else; pods need not tolerate them.
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
	// Requirements narrow the instance types and offerings that may be used.
	// +kubebuilder:validation:MaxItems:=100
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.operator != 'In' || (has(r.values) && size(r.values) > 0))",message="requirements with operator 'In' must have a value"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(r.values) && size(r.values) == 1 && int(r.values[0]) >= 0))",message="requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, a non-negative integer"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.operator != 'In' || !has(r.minValues) || (has(r.values) && size(r.values) >= r.minValues))",message="requirements with operator 'In' and minValues must have at least that many values"
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements" hash:"ignore"`
	// Resources is what the pods that the claim is made for need together.
	// +optional
	Resources ResourceRequirements `json:"resources,omitempty" hash:"ignore"`
	// NodeClassRef names the provider's own configuration of the node.
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`
	// TerminationGracePeriod bounds the drain: when it has passed since the deletion
	// of the claim, what is left on the node goes with it. Unset is no bound.
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type="string"
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// ExpireAfter is the age at which the node is removed, or "Never".
	// +kubebuilder:default:="720h"
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +kubebuilder:validation:Type="string"
	// +kubebuilder:validation:Schemaless
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
	// Kubelet is the kubelet's configuration that v1beta1 has here. It takes the place of that of
	// the node class.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty"`
}

// NodeSelectorRequirementWithMinValues is one condition on the labels of a node,
// with the flexibility that must be left in it.
type NodeSelectorRequirementWithMinValues struct {
	// Key is the label that the requirement is about.
	// +kubebuilder:validation:MaxLength:=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.split('/')[0].endsWith('karpenter.sh')",message="labels in the domain 'karpenter.sh' are restricted"
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="label 'kubernetes.io/hostname' is restricted"
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.kwok.sh/kwoknodeclass', 'karpenter.kwok.sh/instance-cpu', 'karpenter.kwok.sh/instance-memory', 'karpenter.kwok.sh/instance-family', 'karpenter.kwok.sh/instance-size'] || !self.split('/')[0].endsWith('karpenter.kwok.sh')",message="labels in the domain 'karpenter.kwok.sh' are restricted"
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition', 'karpenter.k8s.aws/ec2nodeclass'] || !self.split('/')[0].endsWith('karpenter.k8s.aws')",message="labels in the domain 'karpenter.k8s.aws' are restricted"
	// +required
	Key string `json:"key"`
	// Operator says how the label's value is compared with Values.
	// +kubebuilder:validation:Enum:={In,NotIn,Exists,DoesNotExist,Gt,Lt,Gte,Lte}
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// Values are what the label's value is compared with: at least one for In,
	// exactly one integer for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
	// MinValues is how many different values of the key the instance types that are
	// left must have between them. Unset is no bound.
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// Operators that corev1 does not have: bounds that include the value itself.
const (
	NodeSelectorOpGte corev1.NodeSelectorOperator = "Gte"
	NodeSelectorOpLte corev1.NodeSelectorOperator = "Lte"
)

// ResourceRequirements is what the pods of a claim need together.
type ResourceRequirements struct {
	// Requests is the least that the node must have to offer.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NodeClassReference names a node class.
type NodeClassReference struct {
	// Kind is the kind of the node class. Unset: the kind of the provider that runs.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="nodeClassRef.kind may not be empty"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeClassRef.kind is immutable"
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name is the name of the node class.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="nodeClassRef.name may not be empty"
	// +required
	Name string `json:"name"`
	// Group is the API group of the node class, without a version. Unset: the group of the provider
	// that runs.
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +kubebuilder:validation:XValidation:rule="self != ''",message="nodeClassRef.group may not be empty"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeClassRef.group is immutable"
	// +optional
	Group string `json:"group,omitempty"`
	// APIVersion is what v1beta1 has in place of Group: the group is what stands before the slash.
	// +optional
	APIVersion string `json:"apiVersion,omitempty" hash:"ignore"`
}

// NodeClaimStatus is what was made of a NodeClaim.
type NodeClaimStatus struct {
	// NodeName is the name of the Node, set when it registers.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// ProviderID identifies the instance, set when it is launched.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// ImageID is the image that the instance was started from.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// Capacity is what the provider expects the node to have.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Allocatable is what the provider expects the node to have for pods.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Conditions say how far the claim has come.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastPodEventTime is when a pod last came to the node or left it, daemons aside.
	// +optional
	LastPodEventTime metav1.Time `json:"lastPodEventTime,omitempty"`
}
