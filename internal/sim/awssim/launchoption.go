package awssim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// launchOption is one way to launch an instance of a fleet: a template with one override.
type launchOption struct {
	template     *template
	override     *form
	typ          *ec2Type
	subnet       *Subnet
	zone         string
	imageID      string
	capacityType string
	price        float64
	priority     float64
	left         int
	// instanceType is what was asked for; there may be no such instance.
	instanceType string
	// missing is what to say if the template does not exist.
	missing *apiError
}

func (o *launchOption) describe() fields {
	priority := ""
	if o.priority != math.MaxFloat64 {
		priority = fmt.Sprint(o.priority)
	}
	subnet := ""
	if o.subnet != nil {
		subnet = o.subnet.ID
	}
	return fields{
		{"launchTemplateSpecification", fields{{"launchTemplateId", o.template.id}, {"launchTemplateName", o.template.name}, {"version", "1"}}},
		{"overrides", fields{
			{"instanceType", o.instanceType},
			{"subnetId", cmp.Or(subnet, o.override.text("SubnetId"))},
			{"availabilityZone", o.zone},
			{"imageId", o.imageID},
			{"priority", priority},
		}},
	}
}

// sortOptions sorts launch options as the allocation strategy says.
func sortOptions(options []*launchOption, f *form, capacityType string) {
	byPrice := func(a, b *launchOption) int { return cmp.Compare(a.price, b.price) }
	byPriority := func(a, b *launchOption) int { return cmp.Compare(a.priority, b.priority) }
	byRoom := func(a, b *launchOption) int { return cmp.Compare(b.left, a.left) }
	need := f.number(1, "TargetCapacitySpecification", "TotalTargetCapacity")
	strategy := cmp.Or(f.text("OnDemandOptions", "AllocationStrategy"), "lowest-price")
	if capacityType == capacitySpot {
		strategy = cmp.Or(f.text("SpotOptions", "AllocationStrategy"), "lowest-price")
	}
	slices.SortStableFunc(options, func(a, b *launchOption) int {
		switch strategy {
		case "prioritized":
			return byPriority(a, b)
		case "capacity-optimized":
			return byRoom(a, b)
		case "capacity-optimized-prioritized":
			return cmp.Or(byRoom(a, b), byPriority(a, b))
		case "price-capacity-optimized":
			// Pools with room for all of it come first, the cheapest of them ahead.
			return cmp.Or(-compareBools(a.left >= need, b.left >= need), byPrice(a, b))
		default:
			return byPrice(a, b)
		}
	})
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
