package instance

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
)

// Region is what is the same for every class.
type Region struct {
	Name string
	// Offered are the zones in which each type is sold.
	Offered map[string][]string
	// OnDemand are the prices in dollars an hour of each type.
	OnDemand map[string]float64
	// Spot are the prices of each type in each zone.
	Spot map[string]map[string]float64
	// Away are the ids of zones in which nothing is launched now.
	Away []string
	// MemoryOverhead is the share of the memory that the hypervisor keeps, from 0 to 1
	// (VM_MEMORY_OVERHEAD_PERCENT, which is no percentage in spite of its name).
	MemoryOverhead float64
	// ReservedENIs is how many interfaces pods do not use (RESERVED_ENIS).
	ReservedENIs int64
}

// Class is what of a class decides what its instances are.
type Class struct {
	Spec   *awsv1.EC2NodeClassSpec
	Status *awsv1.EC2NodeClassStatus
	// Kubelet is spec.kubelet, read.
	Kubelet *kubelet.Config
	// Left is how many more instances each reservation covers.
	Left map[string]int
	// Group is the placement group; nil: none.
	Group *Group
	// Memory is what nodes of each type reported, in bytes.
	Memory map[string]int64
}

// Group is a placement group.
type Group struct {
	ID       string
	Strategy types.PlacementStrategy
	// Partitions is how many there are, of the strategy partition.
	Partitions int
}
