package awssim

import (
	"cmp"
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
// value is what is believed to be so; whoever relies on one of them is tested with the others.
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

// Believe changes what AWS does from now on.
func (s *Sim) Believe(b Beliefs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Beliefs = b
}

// repeated answers a CreateFleet whose client token was seen before.
func (s *Sim) repeated(c *call, old *answered, orders []*order, total int) (any, error) {
	mismatch := fail("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	switch s.opts.Beliefs.RepeatedToken {
	case RepeatOthers:
		return s.launchFleet(c, orders, total), nil
	case RepeatNothing:
		return fields{old.answer[0], {"errorSet", list(nil)}, {"fleetInstanceSet", list(nil)}}, nil
	case RepeatMismatch:
		return nil, mismatch
	case RepeatRefused:
		return nil, fail("IdempotentInstanceTerminated", "The client token was used before.")
	}
	if old.request != c.form.String() {
		return nil, mismatch
	}
	if s.opts.Beliefs.RefusalsForgotten {
		return fields{old.answer[0], {"errorSet", list(nil)}, old.answer[2]}, nil
	}
	return old.answer, nil
}

// unseen reports whether an answer leaves an instance out because it is new.
func (s *Sim) unseen(in *instance, now time.Time) bool {
	return in.visible.After(now) && (!s.opts.Beliefs.Flickers || s.rng.IntN(2) == 0)
}

// noGroup is the error for a placement group that does not exist.
func (s *Sim) noGroup(id, name string) *apiError {
	if id != "" && s.opts.Beliefs.GroupIDMalformed {
		return fail("InvalidPlacementGroupId.Malformed", "Invalid id: \"%s\"", id)
	}
	return fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", cmp.Or(id, name))
}
