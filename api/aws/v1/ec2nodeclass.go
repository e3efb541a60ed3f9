package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EC2NodeClass says how EC2 instances are made into nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted of the instances.
	// +required
	Spec EC2NodeClassSpec `json:"spec"`
	// Status is what was found for it in the account.
	// +optional
	Status EC2NodeClassStatus `json:"status,omitempty"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
//
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EC2NodeClass `json:"items"`
}

// EC2NodeClassSpec is what is wanted of the instances of an EC2NodeClass.
//
// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="exactly one of spec.role and spec.instanceProfile must be set"
// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || (has(self.amiSelectorTerms) && self.amiSelectorTerms.exists(t, has(t.alias)))",message="spec.amiFamily must be set unless spec.amiSelectorTerms has an alias"
// +kubebuilder:validation:XValidation:rule="has(self.amiSelectorTerms) || !has(self.amiFamily) || !(self.amiFamily in ['Custom', 'Ubuntu'])",message="spec.amiSelectorTerms must be set for the families Custom and Ubuntu, which have no latest image"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || !has(self.amiSelectorTerms) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(t, !has(t.alias) || t.alias.split('@')[0] == self.amiFamily.lowerAscii())",message="spec.amiFamily beside an alias must be the family of the alias, or Custom"
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms select the subnets; one term that matches is enough.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id))",message="each term must have one of 'tags' and 'id'"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.id) || !has(t.tags))",message="'id' stands alone in a term"
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms"`
	// SecurityGroupSelectorTerms select the security groups; all that match are used.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name))",message="each term must have one of 'tags', 'id' and 'name'"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.id) || !(has(t.tags) || has(t.name)))",message="'id' stands alone in a term"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.name) || !(has(t.tags) || has(t.id)))",message="'name' stands alone in a term"
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms"`
	// CapacityReservationSelectorTerms select the capacity reservations that instances may use.
	// +kubebuilder:validation:MaxItems:=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.instanceMatchCriteria))",message="each term must have one of 'tags', 'id' and 'instanceMatchCriteria'"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.id) || !(has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria)))",message="'id' stands alone in a term"
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty"`
	// PlacementGroupSelector names the placement group that instances are launched into.
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`
	// AssociatePublicIPAddress says whether instances get a public address. Unset: as the subnet says.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// IPPrefixCount is how many address prefixes an instance's first interface starts with.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty"`
	// AMISelectorTerms select the images; one term that matches is enough. Unset: the latest image of
	// amiFamily.
	// +kubebuilder:validation:MinItems:=1
	// +kubebuilder:validation:MaxItems:=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.tags) || has(t.id) || has(t.name) || has(t.alias) || has(t.ssmParameter))",message="each term must have one of 'tags', 'id', 'name', 'alias' and 'ssmParameter'"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.id) || !(has(t.alias) || has(t.tags) || has(t.name) || has(t.owner)))",message="'id' stands alone in a term"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.alias) || !(has(t.tags) || has(t.name) || has(t.owner)))",message="'alias' stands alone in a term"
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !self.exists(t, has(t.alias))",message="a term with 'alias' must be the only one"
	// +optional
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms,omitempty"`
	// AMIFamily says how user data is made and what defaults hold. Unset: the family of the alias.
	// Ubuntu is of v1beta1: AL2 with another root volume.
	// +kubebuilder:validation:Enum:={AL2,AL2023,Bottlerocket,Custom,Ubuntu,Windows2019,Windows2022,Windows2025}
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty"`
	// UserData is the user's own part of what an instance runs at its start, in the form
	// that the family asks for.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// Role is the IAM role of the instances; an instance profile is made for it.
	// +kubebuilder:validation:MinLength:=1
	// +optional
	Role string `json:"role,omitempty"`
	// InstanceProfile is the instance profile of the instances.
	// +kubebuilder:validation:MinLength:=1
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// Tags are put on all that is made in EC2 and IAM for the class.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '')",message="tags must not have an empty key"
	// +kubebuilder:validation:XValidation:rule="!('eks:eks-cluster-name' in self)",message="tag 'eks:eks-cluster-name' is restricted"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tags that start with 'kubernetes.io/cluster' are restricted"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="tag 'karpenter.sh/nodepool' is restricted"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodeclaim' in self)",message="tag 'karpenter.sh/nodeclaim' is restricted"
	// +kubebuilder:validation:XValidation:rule="!('karpenter.k8s.aws/ec2nodeclass' in self)",message="tag 'karpenter.k8s.aws/ec2nodeclass' is restricted"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Kubelet is the kubelet's own configuration (kubelet.config.k8s.io/v1beta1). maxPods and
	// the amounts of systemReserved and kubeReserved may be CEL expressions.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Kubelet *runtime.RawExtension `json:"kubelet,omitempty"`
	// BlockDeviceMappings are the volumes. Unset: those of the family.
	// +kubebuilder:validation:MaxItems:=50
	// +kubebuilder:validation:XValidation:rule="self.filter(m, has(m.rootVolume) && m.rootVolume).size() <= 1",message="at most one mapping may have rootVolume"
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// InstanceStorePolicy says what becomes of the instance's own disks. Unset: they are left alone.
	// +kubebuilder:validation:Enum:={RAID0}
	// +optional
	InstanceStorePolicy *InstanceStorePolicy `json:"instanceStorePolicy,omitempty"`
	// NetworkInterfaces are the interfaces that an instance starts with. Unset: one, or as many
	// EFA interfaces as pods ask for.
	// +kubebuilder:validation:MaxItems:=150
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0 && i.interfaceType == 'interface')",message="there must be one of type 'interface' at networkCardIndex 0 and deviceIndex 0"
	// +kubebuilder:validation:XValidation:rule="self.all(i, self.exists_one(j, i.networkCardIndex == j.networkCardIndex && i.deviceIndex == j.deviceIndex))",message="networkCardIndex and deviceIndex together must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(i, i.interfaceType != 'efa-only' || self.exists_one(j, j.interfaceType == 'efa-only' && i.networkCardIndex == j.networkCardIndex))",message="a network card may have at most one interface of type 'efa-only'"
	// +optional
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
	// DetailedMonitoring turns on CloudWatch's detailed monitoring.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// MetadataOptions say how the instance metadata service answers.
	// +kubebuilder:default:={httpEndpoint: "enabled", httpProtocolIPv6: "disabled", httpPutResponseHopLimit: 1, httpTokens: "required"}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// ConnectionTracking sets the idle timeouts of tracked connections.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`
	// Context is handed through to EC2's CreateFleet.
	// +optional
	Context *string `json:"context,omitempty"`
	// CPUOptions are options of the processor.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
	// EnclaveOptions are those of AWS Nitro Enclaves.
	// +optional
	EnclaveOptions *EnclaveOptions `json:"enclaveOptions,omitempty"`
}

// SubnetSelectorTerm selects subnets. All of its fields must match.
type SubnetSelectorTerm struct {
	// Tags that the subnet has; the value '*' is any.
	// +kubebuilder:validation:MaxProperties:=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags must not have an empty key or value"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the subnet.
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm selects security groups. All of its fields must match.
type SecurityGroupSelectorTerm struct {
	// Tags that the group has; the value '*' is any.
	// +kubebuilder:validation:MaxProperties:=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags must not have an empty key or value"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the group.
	// +kubebuilder:validation:Pattern=`^sg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the group: its GroupName, not its tag Name.
	// +optional
	Name string `json:"name,omitempty"`
}

// CapacityReservationSelectorTerm selects capacity reservations. All of its fields must match.
type CapacityReservationSelectorTerm struct {
	// Tags that the reservation has; the value '*' is any.
	// +kubebuilder:validation:MaxProperties:=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags must not have an empty key or value"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// OwnerID is the account that owns the reservation.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`
	// InstanceMatchCriteria says which instances the reservation takes in.
	// +kubebuilder:validation:Enum:={open,targeted}
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names a placement group.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="exactly one of 'name' and 'id' must be set"
type PlacementGroupSelector struct {
	// Name of the group.
	// +kubebuilder:validation:MinLength:=1
	// +optional
	Name string `json:"name,omitempty"`
	// ID of the group.
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// AMISelectorTerm selects images. All of its fields must match.
type AMISelectorTerm struct {
	// Alias names a family of EKS and its version, as in al2023@latest.
	// +kubebuilder:validation:MaxLength:=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+@.+$')",message="alias must be 'family@version', as in 'al2023@latest'"
	// +kubebuilder:validation:XValidation:rule="self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="the family of an alias must be one of 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022' and 'windows2025'"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('windows') || self.endsWith('@latest')",message="the version of a windows alias must be 'latest'"
	// +optional
	Alias string `json:"alias,omitempty"`
	// Tags that the image has; the value '*' is any.
	// +kubebuilder:validation:MaxProperties:=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags must not have an empty key or value"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// ID of the image.
	// +kubebuilder:validation:Pattern=`^ami-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the image; '*' and '?' match as EC2 has it.
	// +optional
	Name string `json:"name,omitempty"`
	// Owner of the image: an account, or self, amazon, aws-marketplace.
	// +optional
	Owner string `json:"owner,omitempty"`
	// SSMParameter is the name or ARN of an SSM parameter that holds the id of an image.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}

// BlockDeviceMapping is one volume.
type BlockDeviceMapping struct {
	// DeviceName is the name under which the instance sees it, as in /dev/xvda.
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// RootVolume marks the volume that holds the kubelet's directory.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
	// EBS describes the volume.
	// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="one of 'snapshotID' and 'volumeSize' must be set"
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",message="'volumeInitializationRate' needs 'snapshotID'"
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
}

// BlockDevice is a volume of EBS.
type BlockDevice struct {
	// DeleteOnTermination says whether the volume ends with the instance.
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// Encrypted says whether the volume is encrypted.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// IOPS is how many operations a second the volume is given.
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// KMSKeyID is the key that encrypts: its id, alias or ARN.
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
	// SnapshotID is what the volume starts from.
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`
	// Throughput is in MiB a second.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// VolumeInitializationRate is how fast the snapshot is read in, in MiB a second.
	// +kubebuilder:validation:Minimum:=100
	// +kubebuilder:validation:Maximum:=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
	// VolumeSize is in Gi (to 59000), G (to 64000), Ti (to 58) or T (to 64).
	// +kubebuilder:validation:Pattern=`^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$`
	// +kubebuilder:validation:Type="string"
	// +kubebuilder:validation:Schemaless
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`
	// VolumeType is the kind of volume.
	// +kubebuilder:validation:Enum:={standard,io1,io2,gp2,sc1,st1,gp3}
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// InstanceStorePolicy says what becomes of an instance's own disks.
type InstanceStorePolicy string

// InstanceStorePolicyRAID0 makes one RAID-0 array of the disks, which holds the
// ephemeral storage of pods.
const InstanceStorePolicyRAID0 InstanceStorePolicy = "RAID0"

// Types of network interfaces.
const (
	InterfaceTypeInterface = "interface"
	InterfaceTypeEFAOnly   = "efa-only"
)

// NetworkInterface is one interface that an instance starts with.
type NetworkInterface struct {
	// NetworkCardIndex is the card that the interface is on.
	// +kubebuilder:validation:Minimum:=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`
	// DeviceIndex is the place of the interface on the card.
	// +kubebuilder:validation:Minimum:=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`
	// InterfaceType is interface, or efa-only for one without an address.
	// +kubebuilder:validation:Enum:={interface,efa-only}
	// +required
	InterfaceType string `json:"interfaceType"`
}

// MetadataOptions say how the instance metadata service answers.
type MetadataOptions struct {
	// HTTPEndpoint turns the service on or off.
	// +kubebuilder:default:=enabled
	// +kubebuilder:validation:Enum:={enabled,disabled}
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`
	// HTTPProtocolIPv6 turns its IPv6 address on or off.
	// +kubebuilder:default:=disabled
	// +kubebuilder:validation:Enum:={enabled,disabled}
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`
	// HTTPPutResponseHopLimit is how many hops an answer with a token survives: at 1, pods
	// without the host's network get none.
	// +kubebuilder:default:=1
	// +kubebuilder:validation:Minimum:=1
	// +kubebuilder:validation:Maximum:=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// HTTPTokens says whether a token is needed: required is IMDSv2 alone.
	// +kubebuilder:default:=required
	// +kubebuilder:validation:Enum:={required,optional}
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// ConnectionTracking sets the idle timeouts of tracked connections, in seconds.
//
// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="at least one timeout must be set"
type ConnectionTracking struct {
	// TCPEstablishedTimeout is that of established TCP connections.
	// +kubebuilder:validation:Minimum:=60
	// +kubebuilder:validation:Maximum:=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`
	// UDPStreamTimeout is that of UDP flows with more than one request and answer.
	// +kubebuilder:validation:Minimum:=60
	// +kubebuilder:validation:Maximum:=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`
	// UDPTimeout is that of UDP flows in one direction or with a single request and answer.
	// +kubebuilder:validation:Minimum:=30
	// +kubebuilder:validation:Maximum:=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// EnclaveOptions are those of AWS Nitro Enclaves.
type EnclaveOptions struct {
	// Enabled lets an instance run enclaves; only types that can are used.
	// +required
	Enabled bool `json:"enabled"`
}

// CPUOptions are options of the processor.
type CPUOptions struct {
	// NestedVirtualization lets an instance run virtual machines; only types that can are used.
	// +kubebuilder:validation:Enum:={enabled,disabled}
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}
