package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Conditions of a NodePool. Ready is true when ValidationSucceeded and
// NodeClassReady are.
const (
	// ConditionTypeReady sums up the other conditions of an object.
	ConditionTypeReady = "Ready"
	// ConditionTypeValidationSucceeded says whether the spec makes sense beyond what
	// the CRD can check.
	ConditionTypeValidationSucceeded = "ValidationSucceeded"
	// ConditionTypeNodeClassReady says whether the node class exists and is ready.
	ConditionTypeNodeClassReady = "NodeClassReady"
	// ConditionTypeNodeRegistrationHealthy says whether nodes of the pool registered lately.
	ConditionTypeNodeRegistrationHealthy = "NodeRegistrationHealthy"
)

// NodePool says what nodes may be made, how many, and when they may be removed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name"
// +kubebuilder:printcolumn:name="Nodes",type="integer",JSONPath=".status.nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted of the pool.
	// +required
	Spec NodePoolSpec `json:"spec"`
	// Status is what is known of the pool.
	// +optional
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
//
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodePool `json:"items"`
}

// NodePoolSpec is what is wanted of a NodePool.
//
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="spec.replicas cannot be added or removed: a NodePool stays static or dynamic for life"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",message="spec.limits of a static NodePool (one with replicas) may hold only 'nodes'"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="spec.weight is not supported on a static NodePool (one with replicas)"
type NodePoolSpec struct {
	// Template is what every NodeClaim of the pool starts from.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// Disruption says when and how fast nodes of the pool may be removed or replaced.
	// +kubebuilder:default:={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption"`
	// Limits bounds the sum of the capacity of all nodes of the pool. The resource
	// "nodes" bounds their number.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// Weight orders pools: higher is tried first. A pool without weight has weight 0.
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// Replicas, if present, makes the pool static: it keeps this number of nodes
	// whatever pods there are.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodeClaimTemplate is what every NodeClaim of a pool starts from. It is what the
// hash of the pool is made of.
type NodeClaimTemplate struct {
	// ObjectMeta holds the labels and annotations of the claims and their nodes.
	// +optional
	ObjectMeta `json:"metadata,omitempty"`
	// Spec is what is wanted of the claims.
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// ObjectMeta is the part of an object's metadata that a template sets.
type ObjectMeta struct {
	// Labels are put on the claims and their nodes.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="label 'karpenter.sh/nodepool' is restricted"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/hostname' in self)",message="label 'kubernetes.io/hostname' is restricted"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !k.split('/')[0].endsWith('karpenter.sh'))",message="labels in the domain 'karpenter.sh' are restricted"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition', 'karpenter.k8s.aws/ec2nodeclass'] || !k.split('/')[0].endsWith('karpenter.k8s.aws'))",message="labels in the domain 'karpenter.k8s.aws' are restricted"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are put on the claims and their nodes.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeClaimTemplateSpec is what is wanted of the claims of a pool.
type NodeClaimTemplateSpec struct {
	// Taints are on the nodes for life; only pods that tolerate them may come.
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StartupTaints are on the nodes when they start and are expected to be taken
	// away by somebody else; pods need not tolerate them.
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
	// Requirements narrow the instance types and offerings that may be used.
	// +kubebuilder:validation:MaxItems:=100
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.operator != 'In' || (has(r.values) && size(r.values) > 0))",message="requirements with operator 'In' must have a value"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(r.values) && size(r.values) == 1 && int(r.values[0]) >= 0))",message="requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, a non-negative integer"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.operator != 'In' || !has(r.minValues) || (has(r.values) && size(r.values) >= r.minValues))",message="requirements with operator 'In' and minValues must have at least that many values"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.key != 'karpenter.sh/nodepool')",message="label 'karpenter.sh/nodepool' is restricted"
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements" hash:"ignore"`
	// NodeClassRef names the provider's own configuration of the nodes. Unset: the class "default"
	// of the provider that runs.
	// +optional
	NodeClassRef *NodeClassReference `json:"nodeClassRef,omitempty"`
	// TerminationGracePeriod bounds a drain: when it has passed since the deletion
	// of the claim, what is left on the node goes with it. Unset is no bound.
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:Type="string"
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// ExpireAfter is the age at which a node is removed, or "Never".
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

// ConsolidationPolicy says which nodes consolidation may remove.
//
// +kubebuilder:validation:Enum:={WhenEmpty,WhenEmptyOrUnderutilized,Balanced,WhenUnderutilized}
type ConsolidationPolicy string

// The values of ConsolidationPolicy. WhenUnderutilized is what v1beta1 called
// WhenEmptyOrUnderutilized, and means that.
const (
	ConsolidationPolicyWhenEmpty                ConsolidationPolicy = "WhenEmpty"
	ConsolidationPolicyWhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	ConsolidationPolicyBalanced                 ConsolidationPolicy = "Balanced"
	ConsolidationPolicyWhenUnderutilized        ConsolidationPolicy = "WhenUnderutilized"
)

// DisruptionReason is why we remove or replace a node by our own choice.
//
// +kubebuilder:validation:Enum:={Underutilized,Empty,Drifted,Unhealthy}
type DisruptionReason string

// The values of DisruptionReason. Unhealthy is node repair.
const (
	DisruptionReasonUnderutilized DisruptionReason = "Underutilized"
	DisruptionReasonEmpty         DisruptionReason = "Empty"
	DisruptionReasonDrifted       DisruptionReason = "Drifted"
	DisruptionReasonUnhealthy     DisruptionReason = "Unhealthy"
)

// Disruption says when and how fast nodes of a pool may be removed or replaced.
type Disruption struct {
	// ConsolidateAfter is how long a node must have been left alone by pods before
	// consolidation may touch it. "Never" turns consolidation off, that of empty
	// nodes too. Static pools ignore it.
	// +kubebuilder:default:="0s"
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +kubebuilder:validation:Type="string"
	// +kubebuilder:validation:Schemaless
	// +optional
	ConsolidateAfter NillableDuration `json:"consolidateAfter"`
	// ConsolidationPolicy says which nodes consolidation may remove. Static pools
	// ignore it.
	// +kubebuilder:default:="WhenEmptyOrUnderutilized"
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// Budgets bound how many nodes may be on their way out at once. The tightest
	// active one counts.
	// +listType=atomic
	// +kubebuilder:default:={{nodes: "10%"}}
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.all(b, has(b.schedule) == has(b.duration))",message="budgets must have both 'schedule' and 'duration', or neither"
	// +optional
	Budgets []Budget `json:"budgets,omitempty"`
	// ExpireAfter is where v1beta1 has spec.template.spec.expireAfter. It holds while that field is
	// unset or has its default.
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +kubebuilder:validation:Type="string"
	// +kubebuilder:validation:Schemaless
	// +optional
	ExpireAfter *NillableDuration `json:"expireAfter,omitempty"`
}

// Budget bounds how many nodes of a pool may be on their way out at once.
type Budget struct {
	// Reasons are those that the budget is for; none means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitempty"`
	// Nodes is a number of nodes, or a percentage of the nodes of the pool.
	// +kubebuilder:default:="10%"
	// +kubebuilder:validation:Pattern:="^((100|[0-9]{1,2})%|[0-9]+)$"
	// +required
	Nodes string `json:"nodes" hash:"ignore"`
	// Schedule is when the budget starts to be active, in cron form, in UTC. Without
	// it the budget is always active.
	// +kubebuilder:validation:Pattern:=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +optional
	Schedule *string `json:"schedule,omitempty" hash:"ignore"`
	// Duration is how long the budget stays active, in hours and minutes.
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +kubebuilder:validation:Type="string"
	// +optional
	Duration *Duration `json:"duration,omitempty" hash:"ignore"`
}

// NodePoolStatus is what is known of a NodePool.
type NodePoolStatus struct {
	// Resources is the sum of the capacity of the pool's nodes, and their number as "nodes".
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Nodes is the number of the pool's nodes.
	// +kubebuilder:default:=0
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
	// NodeClassObservedGeneration is the generation of the node class that the
	// NodeRegistrationHealthy condition speaks of.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
	// Conditions say in what state the pool is.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
