package aws

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// typesMost and overridesMost keep a fleet below EC2's limits on its request; the best
	// offerings stay.
	typesMost     = 60
	overridesMost = 300
)

// fleetSpec is the part of a launch request that decides its fleet, without what differs from
// claim to claim. Requests with equal fleetSpecs go into one fleet.
type fleetSpec struct {
	class        *awsv1.EC2NodeClass
	capacityType string
	tenancy      string
	labels       map[string]string
	taints       []cluster.Taint
	efa          bool
	// repriced: the prices of EC2 do not say which choice is best.
	repriced bool
	// dns is the address of the cluster's DNS; empty: not known.
	dns string
	// partition of the placement group; empty: it has none.
	partition string
	// choices are of one capacity type, best first.
	choices []catalog.Choice
	// rules are those of minValues, which the choices keep. needed are the types without which
	// they would not.
	rules  minValues
	needed map[string]bool
}

// newFleetSpec returns the fleetSpec of a request. The best offering decides the capacity type:
// a fleet has one.
func newFleetSpec(class *awsv1.EC2NodeClass, r *cloud.LaunchRequest) (*fleetSpec, error) {
	if len(r.Choices) == 0 {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: "no offerings to choose from"}
	}
	s := &fleetSpec{
		class: class, rules: minValuesOf(r.Requirements), tenancy: awsv1.TenancyDefault,
		labels: r.Labels, taints: r.Taints, partition: partitionFor(r),
		repriced: r.Repriced, efa: r.Requests[awsv1.ResourceEFA] > 0,
	}
	if only, ok := r.Requirements[awsv1.LabelInstanceTenancy]; ok && only.Allows(awsv1.TenancyDedicated) && !only.Allows(awsv1.TenancyDefault) {
		s.tenancy = awsv1.TenancyDedicated
	}
	choices := slices.DeleteFunc(slices.Clone(r.Choices), func(o catalog.Choice) bool {
		return o.Offering.Labels[awsv1.LabelPlacementGroupPartition] != s.partition
	})
	why := s.choose(choices)
	if why != "" {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: reasonMinValues, Message: why}
	}
	s.capacityType = s.choices[0].Offering.CapacityType
	return s, nil
}

// choose keeps the offerings of the best capacity type with which the rules of minValues are
// kept, or returns why there is none.
func (s *fleetSpec) choose(choices []catalog.Choice) (why string) {
	tried := map[string]bool{}
	for i := range choices {
		kind := choices[i].Offering.CapacityType
		if tried[kind] {
			continue
		}
		tried[kind] = true
		same := alike(choices[i:])
		s.needed = s.rules.needed(same)
		s.choices = trim(same, s.needed)
		unmet := s.rules.unmet(s.choices)
		if unmet == "" {
			return ""
		}
		why = cmp.Or(why, fmt.Sprintf("of the instance types to be had as %s, %s", kind, unmet))
	}
	return why
}

// partitionFor returns the partition of the placement group that an instance goes into: the
// token chooses among those that are offered, which spreads instances evenly. EC2 would choose
// one itself, but the Node's label must be known before the instance runs.
func partitionFor(r *cloud.LaunchRequest) string {
	var among []string
	for _, o := range r.Choices {
		if n := o.Offering.Labels[awsv1.LabelPlacementGroupPartition]; n != "" && !slices.Contains(among, n) {
			among = append(among, n)
		}
	}
	if len(among) == 0 {
		return ""
	}
	slices.Sort(among)
	sum := sha256.Sum256([]byte(r.Token))
	return among[int(sum[0])%len(among)]
}

// alike returns the offerings that may go into one fleet with the first: those of its capacity
// type, and of reserved ones those of the same kind. Of several with the same instance type and
// zone it returns the first.
func alike(choices []catalog.Choice) []catalog.Choice {
	best := choices[0].Offering
	kind := reservedKind(best)
	places := map[catalog.Place]bool{}
	var out []catalog.Choice
	for _, o := range choices {
		at := catalog.Place{Type: o.Type.Name, Zone: o.Offering.Zone}
		if o.Offering.CapacityType != best.CapacityType || reservedKind(o.Offering) != kind || places[at] {
			continue
		}
		if kind == awsv1.CapacityReservationTypeCapacityBlock && o.Offering.Reservation != best.Reservation {
			continue // a fleet takes one block
		}
		places[at] = true
		out = append(out, o)
	}
	return out
}

// trim returns the best offerings, as many as go into one fleet. The needed types are among them,
// each with its best offering at least.
func trim(choices []catalog.Choice, needed map[string]bool) []catalog.Choice {
	types := maps.Clone(needed)
	first := map[string]bool{} // types whose best offering was seen
	kept := make([]bool, len(choices))
	left := overridesMost
	for i, o := range choices {
		if needed[o.Type.Name] && !first[o.Type.Name] && left > 0 {
			kept[i], first[o.Type.Name] = true, true
			left--
		}
	}
	for i, o := range choices {
		if left == 0 {
			break
		}
		if kept[i] || !types[o.Type.Name] && len(types) >= typesMost {
			continue
		}
		kept[i], types[o.Type.Name] = true, true
		left--
	}
	var out []catalog.Choice
	for i, o := range choices {
		if kept[i] {
			out = append(out, o)
		}
	}
	return out
}

// reservedKind returns the kind of a reserved offering's reservation; empty: it is not reserved.
func reservedKind(o *catalog.Offering) string {
	if o.CapacityType != label.Reserved {
		return ""
	}
	if o.Labels[awsv1.LabelCapacityReservationInterruptible] == "true" {
		return "interruptible"
	}
	return cmp.Or(o.Labels[awsv1.LabelCapacityReservationType], awsv1.CapacityReservationTypeDefault)
}

func (s *fleetSpec) targetType() types.DefaultTargetCapacityType {
	switch reservedKind(s.choices[0].Offering) {
	case "interruptible":
		return types.DefaultTargetCapacityTypeReservedCapacity
	case awsv1.CapacityReservationTypeCapacityBlock:
		return types.DefaultTargetCapacityTypeCapacityBlock
	}
	if s.capacityType == label.Spot {
		return types.DefaultTargetCapacityTypeSpot
	}
	return types.DefaultTargetCapacityTypeOnDemand
}

// key is equal for fleetSpecs that make the same fleet.
func (s *fleetSpec) key() string {
	type place struct{ Type, Zone, Reservation string }
	places := make([]place, 0, len(s.choices))
	for _, o := range s.choices {
		places = append(places, place{o.Type.Name, o.Offering.Zone, o.Offering.Reservation})
	}
	h := sha256.New()
	encoder := json.NewEncoder(h)
	for _, part := range []any{
		s.class.UID, s.class.Name, s.class.Spec, s.class.Annotations[awsv1.AnnotationHash], statusUsed(&s.class.Status),
		s.capacityType, s.tenancy, s.labels, s.taints, s.efa, s.repriced, s.partition, places,
	} {
		if err := encoder.Encode(part); err != nil {
			panic("a launch cannot be written as JSON: " + err.Error())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// nodeLabels returns the labels that a Node joins with: the claim's, and what the fleet
// leaves no choice about.
func (s *fleetSpec) nodeLabels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.labels)
	labels[label.CapacityType] = s.capacityType
	return labels
}

// addresses returns how many addresses of its subnet an instance of a type takes: with IPv4 the
// CNI takes one for each pod that the instance may have, with IPv6 the instance takes one.
func (s *fleetSpec) addresses(t *catalog.Type) int {
	if s.isIPv6() {
		return 1
	}
	return max(1, int(t.Capacity[quantity.Pods]))
}

// isIPv6 reports whether the cluster's addresses are of IPv6, as its DNS is.
func (s *fleetSpec) isIPv6() bool {
	address, err := netip.ParseAddr(s.dns)
	return err == nil && address.Is6()
}
