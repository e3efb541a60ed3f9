package awssim

import (
	"cmp"
	"strconv"
)

// catalog answers what EC2 sells, and where.
type catalog struct {
	base    *base
	network *network
}

func (s *catalog) describeTypes(c *call) (any, error) {
	asked := c.form.texts("InstanceType")
	if n := c.form.number(0, "MaxResults"); len(asked) > 0 && n > 0 {
		return nil, fail("InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults")
	}
	var all []*ec2Type
	for _, name := range asked {
		if s.base.types.byName[name] == nil {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		all = append(all, s.base.types.byName[name])
	}
	if len(asked) == 0 {
		for _, name := range s.base.types.names {
			all = append(all, s.base.types.byName[name])
		}
	}
	return describeAll(c, "instanceTypeSet", 100, all, described[*ec2Type]{
		key: func(m *ec2Type) string { return m.name }, tags: noTags[*ec2Type], write: func(m *ec2Type) fields { return m.describe(s.base.opts.Beliefs.BandwidthUnsaid) }, property: typeProperty,
	})
}

func typeProperty(m *ec2Type, filter string) ([]string, bool) {
	switch filter {
	case "instance-type":
		return only(m.name)
	case "processor-info.supported-architecture":
		return only(m.arch)
	case "supported-virtualization-type":
		return only(m.describe(false).text("supportedVirtualizationTypes"))
	case "bare-metal":
		return only(strconv.FormatBool(m.metal))
	case "hypervisor":
		return only(m.hypervisor())
	case "supported-usage-class":
		return m.usageClasses(), true
	case "current-generation":
		return only("true")
	default:
		return nil, false
	}
}

// offered is an instance type in a zone or region.
type offered struct{ typ, location, kind string }

func (s *catalog) describeOfferings(c *call) (any, error) {
	kind := cmp.Or(c.form.text("LocationType"), "region")
	var all []offered
	for _, name := range s.base.types.names {
		m := s.base.types.byName[name]
		switch kind {
		case "region":
			all = append(all, offered{name, s.base.opts.Region, kind})
		case "availability-zone", "availability-zone-id":
			for _, z := range s.network.zones {
				if m.offeredIn(z.ID) {
					all = append(all, offered{name, map[string]string{"availability-zone": z.Name, "availability-zone-id": z.ID}[kind], kind})
				}
			}
		default:
			return nil, fail("InvalidParameterValue", "The location type %s is invalid", kind)
		}
	}
	return describeAll(c, "instanceTypeOfferingSet", 1000, all, described[offered]{
		key: func(o offered) string { return o.typ + " " + o.location }, tags: noTags[offered],
		property: func(o offered, filter string) ([]string, bool) {
			switch filter {
			case "instance-type":
				return only(o.typ)
			case "location":
				return only(o.location)
			default:
				return nil, false
			}
		},
		write: func(o offered) fields {
			return fields{{"instanceType", o.typ}, {"locationType", o.kind}, {"location", o.location}}
		},
	})
}
