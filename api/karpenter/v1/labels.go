package v1

import corev1 "k8s.io/api/core/v1"

// Group is the API group of NodePools and NodeClaims, and the domain of every
// key below.
const Group = "karpenter.sh"

// Labels on NodeClaims and Nodes.
const (
	// NodePoolLabelKey names the NodePool that owns a NodeClaim or a Node.
	NodePoolLabelKey = Group + "/nodepool"
	// CapacityTypeLabelKey says how capacity was bought: one of the CapacityType values.
	CapacityTypeLabelKey = Group + "/capacity-type"
	// NodeRegisteredLabelKey is "true" on a Node that was matched with its claim.
	NodeRegisteredLabelKey = Group + "/registered"
	// NodeInitializedLabelKey is "true" on a Node that may take pods.
	NodeInitializedLabelKey = Group + "/initialized"
	// NodeDoNotSyncTaintsLabelKey, when "true", keeps registration from copying the
	// claim's taints and startup taints onto the Node.
	NodeDoNotSyncTaintsLabelKey = Group + "/do-not-sync-taints"
	// ExcludeBalancersLabelValue is the value that is written for the well-known key
	// node.kubernetes.io/exclude-from-external-load-balancers when draining starts.
	ExcludeBalancersLabelValue = "karpenter"
	// LabelValueTrue is the only value of the boolean labels and annotations.
	LabelValueTrue = "true"
)

// Values of the label CapacityTypeLabelKey.
const (
	CapacityTypeSpot     = "spot"
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeReserved = "reserved"
)

// Values of the label kubernetes.io/arch that the core knows.
const (
	ArchitectureAmd64 = "amd64"
	ArchitectureArm64 = "arm64"
)

// Annotations.
const (
	// DoNotDisruptAnnotationKey protects from voluntary disruption: "true" or a Go
	// duration on a Pod, "true" on a Node or NodeClaim.
	DoNotDisruptAnnotationKey = Group + "/do-not-disrupt"
	// DoNotEvictAnnotationKey on a Pod and DoNotConsolidateAnnotationKey on a Node are "true" where
	// versions before v1 had DoNotDisruptAnnotationKey.
	DoNotEvictAnnotationKey       = Group + "/do-not-evict"
	DoNotConsolidateAnnotationKey = Group + "/do-not-consolidate"
	// DisruptionCostAnnotationKey says on a pod how much its eviction costs, as a 32-bit number:
	// where nodes are removed by our choice, those whose pods cost less go first.
	DisruptionCostAnnotationKey = Group + "/disruption-cost"
	// DoNotRepairAnnotationKey on a Node is "true" if it must not be repaired.
	DoNotRepairAnnotationKey = Group + "/do-not-repair"
	// RebootGraceAnnotationKey on a NodeClaim is how long the drain before its reboot may take, as a
	// Go duration; without it there is no bound.
	RebootGraceAnnotationKey = Group + "/reboot-termination-grace-period"
	// RebootBootIDAnnotationKey on a NodeClaim is its Node's boot ID before its reboot.
	RebootBootIDAnnotationKey = Group + "/reboot-pre-boot-id"
	// NodePoolHashAnnotationKey holds the hash of the NodePool's template, on the
	// NodePool, its NodeClaims and its Nodes.
	NodePoolHashAnnotationKey = Group + "/nodepool-hash"
	// NodePoolHashVersionAnnotationKey holds the NodePoolHashVersion that the hash
	// beside it was made with.
	NodePoolHashVersionAnnotationKey = Group + "/nodepool-hash-version"
	// NodeClaimTerminationTimestampAnnotationKey holds the RFC 3339 time at which a
	// drain ends whatever is left on the node.
	NodeClaimTerminationTimestampAnnotationKey = Group + "/nodeclaim-termination-timestamp"
	// NodeClaimMinValuesRelaxedAnnotationKey is "true" or "false": whether minValues
	// had to be lowered to make the claim possible.
	NodeClaimMinValuesRelaxedAnnotationKey = Group + "/nodeclaim-min-values-relaxed"
	// RequestedDRADriversAnnotationKey holds the sorted, comma-joined names of the
	// DRA drivers that must publish before the node is initialized.
	RequestedDRADriversAnnotationKey = Group + "/requested-dra-drivers"
	// PriceOverlayAppliedAnnotationKey is "true" if a NodeOverlay changed a price.
	PriceOverlayAppliedAnnotationKey = Group + "/price-overlay-applied"
	// CapacityOverlayAppliedAnnotationKey is "true" if a NodeOverlay added capacity.
	CapacityOverlayAppliedAnnotationKey = Group + "/capacity-overlay-applied"
	// ProviderCompatibilityAnnotationKey is written by old versions and only carried along.
	ProviderCompatibilityAnnotationKey = "compatibility." + Group + "/provider"
)

// Annotations of the virtual pods that stand for a CapacityBuffer. They never
// reach the API server.
const (
	CapacityBufferFakePodAnnotationKey   = Group + "/capacity-buffer-fake-pod"
	CapacityBufferNameAnnotationKey      = Group + "/capacity-buffer-name"
	CapacityBufferNamespaceAnnotationKey = Group + "/capacity-buffer-namespace"
)

// Taint keys.
const (
	// DisruptedTaintKey (NoSchedule) is on a node that is being removed.
	DisruptedTaintKey = Group + "/disrupted"
	// OlderDisruptedTaintKey is what versions before v1 set in place of DisruptedTaintKey.
	OlderDisruptedTaintKey = Group + "/disruption"
	// UnregisteredTaintKey (NoExecute) is on a node from its first moment until it registers.
	UnregisteredTaintKey = Group + "/unregistered"
	// RebootingTaintKey (NoSchedule) is on a node whose instance is rebooted, until it has booted.
	RebootingTaintKey = Group + "/rebooting"
	// ReadinessTaintPrefix starts the keys of taints that readiness gates put on new
	// nodes and take away again.
	ReadinessTaintPrefix = "readiness.k8s.io/"
)

// TerminationFinalizer is on every NodeClaim and Node that we have to drain and
// terminate before it may go.
const TerminationFinalizer = Group + "/termination"

// NodePoolHashVersion is the version of the rules by which a NodePool is hashed.
const NodePoolHashVersion = "v3"

// LimitNodes is the resource name that counts nodes in NodePoolSpec.Limits and
// NodePoolStatus.Resources.
const LimitNodes = corev1.ResourceName("nodes")

// DisruptedTaint returns the taint of a node that is being removed.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// RebootingTaint returns the taint of a node whose instance is rebooted.
func RebootingTaint() corev1.Taint {
	return corev1.Taint{Key: RebootingTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// UnregisteredTaint returns the taint of a node that has not registered.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// KnownEphemeralTaints returns the taints, beside those whose key starts with
// ReadinessTaintPrefix, that come and go while a node starts. They say nothing
// about which pods the node will take. Values do not matter when matching.
func KnownEphemeralTaints() []corev1.Taint {
	return []corev1.Taint{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		// Cluster API's, until it has labelled the Node.
		{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
		UnregisteredTaint(),
	}
}

// NodeClassLabelKey returns the label key under which NodeClaims and Nodes carry
// the name of their node class; the group and lower-case kind make it.
func NodeClassLabelKey(group, lowerKind string) string {
	return group + "/" + lowerKind
}
