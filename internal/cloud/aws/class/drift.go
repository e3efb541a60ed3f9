package class

import (
	"slices"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Reasons of drift.
const (
	NodeClassDrift           = "NodeClassDrift"
	AMIDrift                 = "AMIDrift"
	SecurityGroupDrift       = "SecurityGroupDrift"
	SubnetDrift              = "SubnetDrift"
	CapacityReservationDrift = "CapacityReservationDrift"
	PlacementGroupDrift      = "PlacementGroupDrift"
)

// Instance is what a class decides of an instance.
type Instance struct {
	// Hash of the class it was launched with, and the version of the rules; empty: not known,
	// and no drift.
	Hash, HashVersion string
	ImageID, SubnetID string
	SecurityGroups    []string
	// Reservation that it takes up; empty: none.
	Reservation string
	// PlacementGroup that it is in; empty: none.
	PlacementGroup string
}

// Now is what the class would launch in its place.
type Now struct {
	Hash string
	// ImageID is that of the instance's type; empty: there is none for it any more.
	ImageID string
	// PlacementGroup as it was found; empty: none.
	PlacementGroup string
}

// Drift returns in what way an instance is not what its class would launch now; empty: in
// none.
func Drift(c *awsv1.EC2NodeClass, m *Instance, now *Now) string {
	inSubnet := slices.ContainsFunc(c.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == m.SubnetID })
	inReservation := slices.ContainsFunc(c.Status.CapacityReservations, func(r awsv1.CapacityReservation) bool { return r.ID == m.Reservation })
	switch {
	case m.Hash != "" && m.HashVersion == awsv1.HashVersion && m.Hash != now.Hash:
		return NodeClassDrift
	case m.ImageID != now.ImageID:
		return AMIDrift
	case !sameGroups(c.Status.SecurityGroups, m.SecurityGroups):
		return SecurityGroupDrift
	case !inSubnet:
		return SubnetDrift
	case m.Reservation != "" && !inReservation:
		return CapacityReservationDrift
	case m.PlacementGroup != now.PlacementGroup:
		return PlacementGroupDrift
	default:
		return ""
	}
}

// sameGroups reports whether an instance has the security groups, all of them and no other.
func sameGroups(want []awsv1.SecurityGroup, has []string) bool {
	for _, g := range want {
		if !slices.Contains(has, g.ID) {
			return false
		}
	}
	return !slices.ContainsFunc(has, func(id string) bool {
		return !slices.ContainsFunc(want, func(g awsv1.SecurityGroup) bool { return g.ID == id })
	})
}
