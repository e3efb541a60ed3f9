package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of an EC2NodeClass. Ready is true when all of them are;
// CapacityReservationsReady counts only where reservations are used at all.
const (
	// ConditionTypeAMIsReady says whether an image was found.
	ConditionTypeAMIsReady = "AMIsReady"
	// ConditionTypeSubnetsReady says whether a subnet matches spec.subnetSelectorTerms.
	ConditionTypeSubnetsReady = "SubnetsReady"
	// ConditionTypeSecurityGroupsReady says whether a security group matches spec.securityGroupSelectorTerms.
	ConditionTypeSecurityGroupsReady = "SecurityGroupsReady"
	// ConditionTypeInstanceProfileReady says whether the instance profile of the role exists.
	ConditionTypeInstanceProfileReady = "InstanceProfileReady"
	// ConditionTypeCapacityReservationsReady says whether the capacity reservations could be read.
	ConditionTypeCapacityReservationsReady = "CapacityReservationsReady"
	// ConditionTypePlacementGroupReady says whether the placement group was found.
	ConditionTypePlacementGroupReady = "PlacementGroupReady"
	// ConditionTypeValidationSucceeded says whether the fields make sense together, and EC2 accepted a dry run.
	ConditionTypeValidationSucceeded = "ValidationSucceeded"
)

// Types and states of a capacity reservation.
const (
	CapacityReservationTypeDefault       = "default"
	CapacityReservationTypeCapacityBlock = "capacity-block"

	CapacityReservationStateActive   = "active"
	CapacityReservationStateExpiring = "expiring"
)

// EC2NodeClassStatus is what was found in the account for an EC2NodeClass.
type EC2NodeClassStatus struct {
	// Subnets that match, those with most free addresses first.
	// +optional
	Subnets []Subnet `json:"subnets,omitempty"`
	// SecurityGroups that match, by id.
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`
	// CapacityReservations that match, by id.
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitempty"`
	// AMIs that match, the newest first. A instance is started from the first whose
	// requirements its type meets.
	// +optional
	AMIs []AMI `json:"amis,omitempty"`
	// InstanceProfile that instances are started with.
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// Conditions say whether the class can be used.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Subnet is one subnet that matches.
type Subnet struct {
	// ID of the subnet.
	// +required
	ID string `json:"id"`
	// Zone by its name in the account.
	// +required
	Zone string `json:"zone"`
	// ZoneID is the zone by the id that is the same in every account.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is one security group that matches.
type SecurityGroup struct {
	// ID of the group.
	// +required
	ID string `json:"id"`
	// Name is the GroupName.
	// +optional
	Name string `json:"name,omitempty"`
}

// CapacityReservation is one capacity reservation that matches.
type CapacityReservation struct {
	// AvailabilityZone that it is in.
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// EndTime is when it ends; unset: it does not.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// InstanceMatchCriteria says which instances the reservation takes in.
	// +kubebuilder:validation:Enum:={open,targeted}
	// +required
	InstanceMatchCriteria string `json:"instanceMatchCriteria"`
	// InstanceType that was reserved.
	// +required
	InstanceType string `json:"instanceType"`
	// OwnerID is the account that owns it.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// ReservationType says how it was bought.
	// +kubebuilder:default:=default
	// +kubebuilder:validation:Enum:={default,capacity-block}
	// +optional
	ReservationType string `json:"reservationType,omitempty"`
	// Interruptible says that its owner may take instances back.
	// +optional
	Interruptible bool `json:"interruptible,omitempty"`
	// State is expiring when the instances of a capacity block are about to be taken back.
	// +kubebuilder:default:=active
	// +kubebuilder:validation:Enum:={active,expiring}
	// +optional
	State string `json:"state,omitempty"`
}

// AMI is one image that matches.
type AMI struct {
	// ID of the image.
	// +required
	ID string `json:"id"`
	// Deprecated says that its owner wants it used no more.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// Name of the image.
	// +optional
	Name string `json:"name,omitempty"`
	// Requirements that a type must meet to be started from the image.
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}
