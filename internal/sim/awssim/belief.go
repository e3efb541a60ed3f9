package awssim

import (
	"time"
)

// How CreateFleet answers a client token that it has seen (Beliefs.RepeatedToken).
const (
	// RepeatSame: with the first answer; with IdempotentParameterMismatch to another request.
	RepeatSame = ""
	// RepeatNothing: with no instances and no errors.
	RepeatNothing = "nothing"
	// RepeatMismatch: with IdempotentParameterMismatch, the same request too.
	RepeatMismatch = "mismatch"
	// RepeatRefused: with another error.
	RepeatRefused = "refused"
	// RepeatOthers: with instances that it launches anew, as moto does.
	RepeatOthers = "others"
)

// Beliefs are what AWS may do where its documentation is silent or has changed. The zero
// value is what is believed to be so; code that relies on it is tested with the other values.
type Beliefs struct {
	// RepeatedToken is one of the Repeat constants.
	RepeatedToken string
	// TokenKept is how long CreateFleet remembers a client token; zero: 48 hours.
	TokenKept time.Duration
	// RefusalsForgotten: a repeated CreateFleet is answered without the errors of the first.
	RefusalsForgotten bool
	// EqualByCapacity: among overrides that its strategy ranks alike a fleet prefers those with
	// most capacity. Otherwise it takes them as they are listed.
	EqualByCapacity bool
	// FleetBodyMax is the largest request for a fleet that is taken, in bytes; zero: 160 KiB.
	FleetBodyMax int
	// TemplateErrorInside: a launch template that does not exist is an error of its overrides
	// in the answer of CreateFleet. Otherwise it is the answer.
	TemplateErrorInside bool
	// BlindDryRun: a dry run of RunInstances does not look at profile, zone and type.
	BlindDryRun bool
	// GroupIDMalformed: a placement group's id that does not exist is
	// InvalidPlacementGroupId.Malformed. Otherwise it is InvalidPlacementGroup.Unknown.
	GroupIDMalformed bool
	// NoReservedFleets: fleets are refused that are for capacity blocks or interruptible
	// capacity reservations.
	NoReservedFleets bool
	// ReplaceInterfaces: the network interfaces of a RunInstances request take the place of all
	// those of its launch template. Otherwise each is merged into the one of the same card and
	// device, and the others of the template stay.
	ReplaceInterfaces bool
	// BandwidthUnsaid: DescribeInstanceTypes does not say the baseline bandwidth of network cards.
	BandwidthUnsaid bool
	// MoreInterfaces is by how many the interfaces that an image and the CNI count on the default
	// network card exceed those that DescribeInstanceTypes says.
	MoreInterfaces int
	// OneQuota: the instances of all families count against the quota of the standard ones.
	OneQuota bool
	// Flickers: while an instance is new, some answers show it and some do not. Otherwise it is
	// unseen at first, and seen from then on.
	Flickers bool
	// MemoryError is by how much of its size the memory that a kubelet reports may differ from
	// what a VM_MEMORY_OVERHEAD_PERCENT of 0.075 predicts, up or down; drawn for each type.
	MemoryError float64
}
