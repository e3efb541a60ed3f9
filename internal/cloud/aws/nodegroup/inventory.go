// Package nodegroup translates node groups, as Cluster Autoscaler scales them, into NodePools and
// EC2NodeClasses. It asks nobody: an Inventory says what was read, and Propose what it becomes. Each
// line of a manifest has a comment with its source, and what has no equivalent is listed.
//
// Read inventory.go (what may be known of a group), propose.go (pools), class.go (classes), then
// manifest.go (how they are written). settings.go reads the flags and ConfigMaps of Cluster Autoscaler itself.
package nodegroup

import (
	corev1 "k8s.io/api/core/v1"
)

// Inventory is what is known of the node groups of a cluster.
type Inventory struct {
	Groups []Group
	// Autoscaler is how Cluster Autoscaler is set.
	Autoscaler Autoscaler
}

// Group is an EKS managed node group or an Auto Scaling group. What is not known is zero.
type Group struct {
	Name string
	// Source says what it is: "managed node group", "Auto Scaling group", "labels of Nodes".
	Source string
	// Types are the instance types that it may launch; Needs select them by what they have instead.
	Types []string
	Needs *Needs
	// Spot says that it launches spot instances; Block that it has a capacity block. Share is the mix of both
	// capacity types, nil if there is one alone.
	Spot, Block bool
	Share       *Share
	// SpotPriceMax is the most that is paid for a spot instance, in dollars per hour; empty: the on-demand price.
	SpotPriceMax      string
	Weighted          bool // its types count differently
	Min, Max, Desired int
	Labels            map[string]string
	Taints            []corev1.Taint
	Zones, Subnets    []string
	// Role and Profile are of the instances; one is known.
	Role, Profile string
	// AMIType and Release are EKS' name and version of the image.
	AMIType, Release string
	DiskGiB          int
	SecurityGroups   []string
	Template         *Template
	// MaxUnavailable is how many nodes an update may replace at once: "1" or "33%"; empty: not known.
	MaxUnavailable string
	Repair         bool
	WarmPool       bool
	Suspended      []string
	Tags           map[string]string
	Health         []string
	// Unread says what of it could not be read, and what to do instead.
	Unread []string
	// Autoscaling has the options of Cluster Autoscaler in the group's tags, by their last word.
	Autoscaling map[string]string
	// Resources are those that nodes have by a tag alone.
	Resources map[string]string
	// ScalingGroup is the name of its Auto Scaling group, which Cluster Autoscaler knows it by.
	ScalingGroup string
	// Instances are the ids of those that it has.
	Instances []string
	// Backoff says why Cluster Autoscaler does not scale it up now; empty: it does.
	Backoff string
}

// Needs select instance types, in EC2's words (InstanceRequirements). 0 and empty: any.
type Needs struct {
	CPUMin, CPUMax             int
	MemoryMinMiB, MemoryMaxMiB int
	Manufacturers              []string // "intel", "amd", "amazon-web-services"
	Generations                []string // "current", "previous"
	Excluded                   []string // patterns of types
	// Others are the rules that have no label here.
	Others []string
}

// Share is a mix of on-demand and spot capacity.
type Share struct {
	OnDemandBase, OnDemandPercent int
	SpotStrategy                  string
}

// Template is a version of a launch template.
type Template struct {
	Name, Version    string
	ImageID          string
	UserData         string // decoded
	SecurityGroups   []string
	Volumes          []Volume
	Metadata         map[string]string // httpTokens, httpPutResponseHopLimit, httpEndpoint, httpProtocolIpv6
	Tags             map[string]string // of instances
	Profile          string
	KeyName          string
	PlacementGroup   string
	Tenancy          string
	Monitoring       bool
	PublicIP         *bool
	Reservation      string // id of a capacity reservation
	ReservationGroup string
	// Others are the fields that nobody here reads.
	Others []string
}

// Volume is a block device of a template.
type Volume struct {
	Device, Type, Snapshot, Key string
	SizeGiB, IOPS, Throughput   int64
	Encrypted, KeepsData        *bool // KeepsData: it is not deleted with the instance
}

// Autoscaler is what the flags and ConfigMaps of Cluster Autoscaler say.
type Autoscaler struct {
	// Flags are those of its Deployment, by name; nil: it was not found.
	Flags map[string]string
	// Priorities are the patterns of the priority expander, by priority; nil: there are none.
	Priorities map[int][]string
}
