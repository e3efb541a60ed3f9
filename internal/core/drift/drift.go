// Package drift answers whether a node is what its pool would launch now.
package drift

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// The reasons, in the API's words. A provider may have others.
const (
	PoolDrifted         = "NodePoolDrifted"
	RequirementsDrifted = "RequirementsDrifted"
	TypeGone            = "InstanceTypeNotFound"
)

// typeAge is how old a node must be before it drifts because its instance type is gone: a cloud's
// list of types may lack a new type for a while.
const typeAge = time.Hour

// Hash is the hash of a pool's template, and the version of the rules by which it was made.
type Hash struct {
	Value, Version string
}

// View is what is known of a node and its pool at one instant.
type View struct {
	At, Created time.Time
	// Launched: the cloud has said what the node is. Before that nothing can differ.
	Launched bool
	// Pool is the hash of the pool's template as it is, Claim as it was at the launch.
	Pool, Claim Hash
	// Requirements are the pool's, Labels the claim's.
	Requirements label.Requirements
	Labels       map[string]string
	// Types are all that the provider has for the pool; nil: that is not known.
	Types []*catalog.Type
	// ReservationKey is the label that names a reservation; empty: there are none.
	ReservationKey string
	// Provider is the provider's own reason; empty: it sees none.
	Provider string
}

// Reason returns why the node should be replaced: the first that applies of the pool's
// template, its requirements, the instance type, the provider. Empty: it should not.
func Reason(v View) string {
	switch {
	case !v.Launched:
		return ""
	case hashesDiffer(v.Pool, v.Claim):
		return PoolDrifted
	case !satisfied(v.Requirements, v.Labels):
		return RequirementsDrifted
	case v.Types != nil && v.At.Sub(v.Created) > typeAge && !offered(&v):
		return TypeGone
	default:
		return v.Provider
	}
}

// hashesDiffer compares only what was made by the same rules.
func hashesDiffer(a, b Hash) bool {
	known := a.Value != "" && b.Value != "" && a.Version != ""
	return known && a.Version == b.Version && a.Value != b.Value
}

func satisfied(want label.Requirements, labels map[string]string) bool {
	_, ok := want.Matches(labels)
	return ok
}

// offered reports whether the node's type has an offering that is what the node is,
// available or not. A reserved node is also what is sold on demand.
func offered(v *View) bool {
	at := slices.IndexFunc(v.Types, func(t *catalog.Type) bool { return t.Name == v.Labels[label.InstanceType] })
	if at < 0 {
		return false
	}
	offerings := v.Types[at].Offerings
	for i := range offerings {
		if isOf(v, &offerings[i]) {
			return true
		}
	}
	return false
}

// isOf reports whether no label of the node contradicts the offering.
func isOf(v *View, o *catalog.Offering) bool {
	reserved := v.Labels[label.CapacityType] == label.Reserved
	for key, is := range v.Labels {
		switch value, decides := o.Value(key); {
		case !decides, value == is:
		case reserved && (key == v.ReservationKey || key == label.CapacityType && value == label.OnDemand):
		default:
			return false
		}
	}
	return true
}
