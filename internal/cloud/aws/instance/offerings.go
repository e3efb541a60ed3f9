package instance

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// reservedShare is the part of the price on demand that a reserved instance counts as: it is
// paid for already, and yet smaller ones are to come first.
const reservedShare = 1.0 / 10_000_000

// offerings returns where the class can have the type, by zone: on demand, spot, and what
// is reserved. An offering without a price cannot be launched.
func offerings(info *types.InstanceTypeInfo, r *Region, c *Class) []catalog.Offering {
	name := string(info.InstanceType)
	onDemand, priced := r.OnDemand[name]
	var out []catalog.Offering
	for _, z := range zones(name, r, c) {
		var labels map[string]string
		if z.ZoneID != "" {
			labels = map[string]string{awsv1.LabelTopologyZoneID: z.ZoneID}
		}
		if slices.Contains(info.SupportedUsageClasses, types.UsageClassTypeOnDemand) {
			out = append(out, catalog.Offering{
				Zone: z.Zone, CapacityType: label.OnDemand, Labels: labels, PriceHourly: onDemand, Priced: priced, Available: priced,
			})
		}
		if slices.Contains(info.SupportedUsageClasses, types.UsageClassTypeSpot) {
			spot, known := r.Spot[name][z.Zone]
			out = append(out, catalog.Offering{
				Zone: z.Zone, CapacityType: label.Spot, Labels: labels, PriceHourly: spot, Priced: known, Available: known,
			})
		}
		for i := range c.Status.CapacityReservations {
			if cr := &c.Status.CapacityReservations[i]; cr.InstanceType == name && cr.AvailabilityZone == z.Zone {
				out = append(out, reserved(cr, labels, onDemand, c.Left[cr.ID]))
			}
		}
	}
	for i := range out {
		if c.Group != nil {
			out[i].Group = c.Group.ID
		}
		if slices.Contains(r.Away, out[i].Labels[awsv1.LabelTopologyZoneID]) {
			out[i].Available = false
		}
	}
	return inPartitions(out, c.Group)
}

// zones returns where the type is sold and the class has a subnet, by name.
func zones(name string, r *Region, c *Class) []awsv1.Subnet {
	var out []awsv1.Subnet
	for _, s := range c.Status.Subnets {
		seen := slices.ContainsFunc(out, func(o awsv1.Subnet) bool { return o.Zone == s.Zone })
		if !seen && slices.Contains(r.Offered[name], s.Zone) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b awsv1.Subnet) int { return cmp.Compare(a.Zone, b.Zone) })
	return out
}

func reserved(cr *awsv1.CapacityReservation, zone map[string]string, onDemand float64, left int) catalog.Offering {
	labels := map[string]string{
		awsv1.LabelCapacityReservationID:            cr.ID,
		awsv1.LabelCapacityReservationType:          cmp.Or(cr.ReservationType, awsv1.CapacityReservationTypeDefault),
		awsv1.LabelCapacityReservationInterruptible: strconv.FormatBool(cr.Interruptible),
	}
	for key, value := range zone {
		labels[key] = value
	}
	return catalog.Offering{
		Zone: cr.AvailabilityZone, CapacityType: label.Reserved, Labels: labels, PriceHourly: onDemand * reservedShare, Priced: true,
		Available: cr.State != awsv1.CapacityReservationStateExpiring, Reservation: cr.ID, Left: left,
	}
}

// inPartitions returns each offering once for each partition of the placement group.
func inPartitions(offered []catalog.Offering, g *Group) []catalog.Offering {
	if g == nil || g.Strategy != types.PlacementStrategyPartition {
		return offered
	}
	var out []catalog.Offering
	for _, o := range offered {
		for n := range g.Partitions {
			in := o
			in.Labels = map[string]string{awsv1.LabelPlacementGroupPartition: strconv.Itoa(n + 1)}
			for key, value := range o.Labels {
				in.Labels[key] = value
			}
			out = append(out, in)
		}
	}
	return out
}
