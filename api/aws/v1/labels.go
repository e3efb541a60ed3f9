package v1

// Group is the API group of the EC2NodeClass and the domain of the provider's keys.
const Group = "karpenter.k8s.aws"

// Labels of instance types, of offerings and so of nodes.
const (
	LabelInstanceCategory                     = Group + "/instance-category"
	LabelInstanceFamily                       = Group + "/instance-family"
	LabelInstanceGeneration                   = Group + "/instance-generation"
	LabelInstanceSize                         = Group + "/instance-size"
	LabelInstanceCPU                          = Group + "/instance-cpu"
	LabelInstanceCPUManufacturer              = Group + "/instance-cpu-manufacturer"
	LabelInstanceCPUSustainedClockSpeedMhz    = Group + "/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                       = Group + "/instance-memory" // MiB
	LabelInstanceEBSBandwidth                 = Group + "/instance-ebs-bandwidth"
	LabelInstanceNetworkBandwidth             = Group + "/instance-network-bandwidth"
	LabelInstanceLocalNVME                    = Group + "/instance-local-nvme" // GB
	LabelInstanceHypervisor                   = Group + "/instance-hypervisor"
	LabelInstanceEncryptionInTransitSupported = Group + "/instance-encryption-in-transit-supported"
	LabelInstanceCapabilityFlex               = Group + "/instance-capability-flex"
	LabelInstanceTenancy                      = Group + "/instance-tenancy"
	LabelInstanceGPUName                      = Group + "/instance-gpu-name"
	LabelInstanceGPUManufacturer              = Group + "/instance-gpu-manufacturer"
	LabelInstanceGPUCount                     = Group + "/instance-gpu-count"
	LabelInstanceGPUMemory                    = Group + "/instance-gpu-memory" // MiB of one
	LabelInstanceAcceleratorName              = Group + "/instance-accelerator-name"
	LabelInstanceAcceleratorManufacturer      = Group + "/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount             = Group + "/instance-accelerator-count"

	LabelCapacityReservationID            = Group + "/capacity-reservation-id"
	LabelCapacityReservationType          = Group + "/capacity-reservation-type"
	LabelCapacityReservationInterruptible = Group + "/capacity-reservation-interruptible"
	LabelPlacementGroupID                 = Group + "/placement-group-id"
	LabelPlacementGroupPartition          = Group + "/placement-group-partition"

	// LabelNodeClass names the EC2NodeClass of a node.
	LabelNodeClass = Group + "/ec2nodeclass"
	// LabelTopologyZoneID is the zone by the id that is the same in every account.
	LabelTopologyZoneID = "topology.k8s.aws/zone-id"
)

// Values of LabelInstanceTenancy.
const (
	TenancyDefault   = "default"
	TenancyDedicated = "dedicated"
)

// Annotations.
const (
	// AnnotationHash holds the hash of the class, on the class and on its NodeClaims.
	AnnotationHash = Group + "/ec2nodeclass-hash"
	// AnnotationHashVersion holds the HashVersion that the hash beside it was made with.
	AnnotationHashVersion = Group + "/ec2nodeclass-hash-version"
	// AnnotationInstanceProfile names the instance profile that a NodeClaim was launched with.
	AnnotationInstanceProfile = Group + "/instance-profile-name"
	// AnnotationLaunch says on a NodeClaim in which launch its instance was ordered last; the
	// instance has a tag of the same key with the name of that launch.
	AnnotationLaunch = Group + "/launch"
	// AnnotationMemory says on a class what memory its nodes reported, by instance type.
	AnnotationMemory = Group + "/observed-memory"
	// AnnotationNVIDIASharing says on a class how ResourceClaims share a GPU, as NVIDIA's driver is
	// configured.
	AnnotationNVIDIASharing = Group + "/nvidia-consumable-capacity"
	// AnnotationTagged is "true" on a NodeClaim whose instance has all its tags.
	AnnotationTagged = Group + "/tagged"
)

// HashVersion is the version of the rules by which a class is hashed. It is ours alone,
// so that hashes of another implementation are replaced and no node drifts on adoption.
const HashVersion = "dovetail-v1"

// TerminationFinalizer is on every EC2NodeClass whose instance profiles and launch
// templates have to be deleted before it may go.
const TerminationFinalizer = Group + "/termination"

// Tags of what is made in EC2 and IAM.
const (
	TagName = "Name"
	// TagEKSClusterName holds the name of the cluster.
	TagEKSClusterName = "eks:eks-cluster-name"
	// TagClusterPrefix comes before the name of the cluster; the value is TagClusterOwned.
	TagClusterPrefix = "kubernetes.io/cluster/"
	TagClusterOwned  = "owned"
	TagNodePool      = "karpenter.sh/nodepool"
	TagNodeClaim     = "karpenter.sh/nodeclaim"
	TagNodeClass     = Group + "/ec2nodeclass"
)

// Resources that nodes of EC2 have beyond those of every node.
const (
	ResourceNVIDIAGPU          = "nvidia.com/gpu"
	ResourceAMDGPU             = "amd.com/gpu"
	ResourceAWSNeuron          = "aws.amazon.com/neuron"
	ResourceAWSNeuronCore      = "aws.amazon.com/neuroncore"
	ResourceHabanaGaudi        = "habana.ai/gaudi"
	ResourceEFA                = "vpc.amazonaws.com/efa"
	ResourcePodENI             = "vpc.amazonaws.com/pod-eni"
	ResourcePrivateIPv4Address = "vpc.amazonaws.com/PrivateIPv4Address"
)
