package cluster

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Labels that pods have in the core only, so that rules between pods can be stated.
const (
	// deviceDemandLabel says what a pod claims; pods that claim something else over the same devices
	// must not be on a node with it.
	deviceDemandLabel = "dovetail.sh/device-demand"
	// sharedClaimLabel begins the key of a label of the pod for which an unallocated ResourceClaim is
	// allocated; the other pods that use the claim follow it.
	sharedClaimLabel = "claim.dovetail.sh/"
)

// Devices is what a pod's ResourceClaims ask of its node.
type Devices struct {
	// Terms are the alternatives of what is allocated already; in each, all of it can be used.
	// None: nothing is, or it can be used everywhere.
	Terms []label.Requirements
	// Needs is what is still to be allocated. Below zero: what devices are allocated for instead.
	Needs quantity.List
	// Demand is the name of that, and Apart are the demands that must not be on the same node.
	Demand string
	Apart  []string
	// Leads are the ResourceClaims of the pod that other pods share; Follows are those for which the
	// pod must be on the node of the pod that leads.
	Leads, Follows []string
	// Invalid says why no node can be right for the claims as they are; empty: one may be.
	Invalid string
}

// WithDevices returns the constraints of a pod that is like s, and has the ResourceClaims.
func (s *Constraints) WithDevices(d *Devices) *Constraints {
	with := *s
	with.Requests = s.Requests.Plus(d.Needs)
	if len(d.Terms) > 0 {
		with.OwnTerms, with.Terms = s.CountedTerms(), Meet(s.Terms, d.Terms)
	}
	switch {
	case s.Invalid != "":
	case d.Invalid != "":
		with.Invalid = d.Invalid
	case len(with.Terms) == 0:
		with.Invalid = "the pod's devices are where its node affinity does not let it be"
	}
	if len(with.Terms) == 0 {
		with.Terms = s.Terms
	}
	with.relateDevices(d)
	return &with
}

// relateDevices adds the rules between pods.
func (s *Constraints) relateDevices(d *Devices) {
	if len(d.Apart)+len(d.Leads)+len(d.Follows) == 0 {
		return
	}
	s.Labels = maps.Clone(s.Labels)
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	if len(d.Apart) > 0 {
		s.Labels[deviceDemandLabel] = d.Demand
		s.AntiAffinity = append(slices.Clip(s.AntiAffinity), PodTerm{
			Key: label.Hostname, NamespaceSelector: Selector{Some: true},
			Selector: Selector{Some: true, Requirements: label.Requirements{deviceDemandLabel: label.In(d.Apart...)}},
		})
	}
	for _, claim := range d.Leads {
		s.Labels[sharedClaimLabel+claim] = ""
	}
	for _, claim := range d.Follows {
		s.Affinity = append(slices.Clip(s.Affinity), PodTerm{
			Key: label.Hostname, Namespaces: []string{s.Namespace},
			Selector: Selector{Some: true, Requirements: label.Requirements{sharedClaimLabel + claim: label.Exists()}},
		})
	}
}
