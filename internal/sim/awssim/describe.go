package awssim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ec2Operations lists EC2's operations by name.
func ec2Operations() map[string]operation {
	return map[string]operation{
		"DescribeInstanceTypes":         describeTypes,
		"DescribeInstanceTypeOfferings": describeOfferings,
		"DescribeSubnets":               describeSubnets,
		"DescribeSecurityGroups":        describeGroups,
		"DescribeImages":                describeImages,
		"DescribeCapacityReservations":  describeReservations,
		"DescribePlacementGroups":       describePlacements,
		"DescribeLaunchTemplates":       describeTemplates,
		"CreateLaunchTemplate":          createTemplate,
		"DeleteLaunchTemplate":          deleteTemplate,
		"CreateFleet":                   createFleet,
		"RunInstances":                  runInstances,
		"DescribeInstances":             describeInstances,
		"TerminateInstances":            terminateInstances,
		"CreateTags":                    createTags,
		"DescribeSpotPriceHistory":      describeSpotPrices,
		"DescribeInstanceStatus":        describeStatus,
	}
}

// dryRun is EC2's yes to a request that asked whether it would do.
func dryRun(c *call) error {
	if c.form.flag("DryRun") {
		return &apiError{http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	return nil
}

// answer writes a list under a name, and the token of the next page.
func answer(name string, items list, next string) fields {
	return fields{{name, items}, {"nextToken", next}}
}

// describeAll answers a Describe operation: it selects, cuts a page and writes.
func describeAll[T any](c *call, set string, most int, all []T, d described[T]) (any, error) {
	if err := dryRun(c); err != nil {
		return nil, err
	}
	var found []T
	filters := c.form.list("Filter")
	for _, it := range all {
		ok, err := selects(filters, d.tags(it), func(name string) ([]string, bool) { return d.property(it, name) })
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, it)
		}
	}
	found, next, err := page(c, found, d.key, c.form.number(0, "MaxResults"), 1, most)
	if err != nil {
		return nil, err
	}
	var items list
	for _, it := range found {
		items = append(items, d.write(it))
	}
	return answer(set, items, next), nil
}

// described is what describeAll must know of a kind of thing.
type described[T any] struct {
	key      func(T) string
	tags     func(T) map[string]string
	property func(it T, filter string) ([]string, bool)
	write    func(T) fields
}

func noTags[T any](T) map[string]string { return nil }

func describeTypes(s *Sim, c *call) (any, error) {
	asked := c.form.texts("InstanceType")
	if n := c.form.number(0, "MaxResults"); len(asked) > 0 && n > 0 {
		return nil, fail("InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults")
	}
	var all []*machine
	for _, name := range asked {
		if s.types.byName[name] == nil {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		all = append(all, s.types.byName[name])
	}
	if len(asked) == 0 {
		for _, name := range s.types.names {
			all = append(all, s.types.byName[name])
		}
	}
	return describeAll(c, "instanceTypeSet", 100, all, described[*machine]{
		key: func(m *machine) string { return m.name }, tags: noTags[*machine], write: func(m *machine) fields { return m.describe(s.opts.Beliefs.BandwidthUnsaid) }, property: machineProperty,
	})
}

func machineProperty(m *machine, filter string) ([]string, bool) {
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

// text returns a field's text, or the first text of a list.
func (f fields) text(name string) string {
	for _, g := range f {
		if l, ok := g.value.(list); ok && g.name == name {
			return fmt.Sprint(l[0])
		}
		if g.name == name {
			return fmt.Sprint(g.value)
		}
	}
	return ""
}

// offered is a type in a place.
type offered struct{ machine, location, kind string }

func describeOfferings(s *Sim, c *call) (any, error) {
	kind := cmp.Or(c.form.text("LocationType"), "region")
	var all []offered
	for _, name := range s.types.names {
		m := s.types.byName[name]
		switch kind {
		case "region":
			all = append(all, offered{name, s.opts.Region, kind})
		case "availability-zone", "availability-zone-id":
			for _, z := range s.zones {
				if m.offeredIn(z.ID) {
					all = append(all, offered{name, map[string]string{"availability-zone": z.Name, "availability-zone-id": z.ID}[kind], kind})
				}
			}
		default:
			return nil, fail("InvalidParameterValue", "The location type %s is invalid", kind)
		}
	}
	return describeAll(c, "instanceTypeOfferingSet", 1000, all, described[offered]{
		key: func(o offered) string { return o.machine + " " + o.location }, tags: noTags[offered],
		property: func(o offered, filter string) ([]string, bool) {
			switch filter {
			case "instance-type":
				return only(o.machine)
			case "location":
				return only(o.location)
			default:
				return nil, false
			}
		},
		write: func(o offered) fields {
			return fields{{"instanceType", o.machine}, {"locationType", o.kind}, {"location", o.location}}
		},
	})
}

// byID returns the things that a request names, or all; code is for those that are not there.
func byID[T any](ids []string, all map[string]T, code, what string) ([]T, error) {
	var out []T
	if len(ids) == 0 {
		for _, v := range all {
			out = append(out, v)
		}
		return out, nil
	}
	for _, id := range ids {
		v, ok := all[id]
		if !ok {
			return nil, fail(code, "The %s '%s' does not exist", what, id)
		}
		out = append(out, v)
	}
	return out, nil
}

func describeSubnets(s *Sim, c *call) (any, error) {
	all, err := byID(c.form.texts("SubnetId"), s.subnets, "InvalidSubnetID.NotFound", "subnet ID")
	if err != nil {
		return nil, err
	}
	return describeAll(c, "subnetSet", 1000, all, described[*Subnet]{
		key: func(n *Subnet) string { return n.ID }, tags: func(n *Subnet) map[string]string { return n.Tags },
		property: func(n *Subnet, filter string) ([]string, bool) {
			switch filter {
			case "subnet-id":
				return only(n.ID)
			case "vpc-id":
				return only(vpcID)
			case "availability-zone":
				return only(n.Zone)
			case "availability-zone-id":
				return only(n.zoneID)
			case "state":
				return only("available")
			default:
				return nil, false
			}
		},
		write: func(n *Subnet) fields {
			return fields{
				{"subnetId", n.ID},
				{"vpcId", vpcID},
				{"state", "available"},
				{"cidrBlock", n.CIDR},
				{"availabilityZone", n.Zone},
				{"availabilityZoneId", n.zoneID},
				{"availableIpAddressCount", s.addressesOf(n, c)},
				{"mapPublicIpOnLaunch", n.Public},
				{"ownerId", s.opts.AccountID},
				{"tagSet", tagSet(n.Tags)},
			}
		},
	})
}

// addressesOf is how many addresses a subnet has now.
func (s *Sim) addressesOf(n *Subnet, c *call) int {
	for _, f := range s.faultsOf(FaultAddresses, c.now) {
		if matches(f.Target, n.ID) && matches(f.Zone, n.Zone) {
			return 0
		}
	}
	return n.free()
}

func describeGroups(s *Sim, c *call) (any, error) {
	byName := map[string]securityGroup{}
	for _, g := range s.groups {
		byName[g.id] = g
	}
	all, err := byID(c.form.texts("GroupId"), byName, "InvalidGroup.NotFound", "security group")
	if err != nil {
		return nil, err
	}
	return describeAll(c, "securityGroupInfo", 1000, all, described[securityGroup]{
		key: func(g securityGroup) string { return g.id }, tags: func(g securityGroup) map[string]string { return g.tags },
		property: func(g securityGroup, filter string) ([]string, bool) {
			switch filter {
			case "group-id":
				return only(g.id)
			case "group-name":
				return only(g.name)
			case "vpc-id":
				return only(vpcID)
			default:
				return nil, false
			}
		},
		write: func(g securityGroup) fields {
			return fields{
				{"groupId", g.id},
				{"groupName", g.name},
				{"groupDescription", g.description},
				{"vpcId", vpcID},
				{"ownerId", s.opts.AccountID},
				{"tagSet", tagSet(g.tags)},
			}
		},
	})
}

func describeImages(s *Sim, c *call) (any, error) {
	asked := c.form.texts("ImageId")
	for _, id := range asked {
		if !strings.HasPrefix(id, "ami-") {
			return nil, fail("InvalidAMIID.Malformed", "Invalid id: \"%s\" (expecting \"ami-...\")", id)
		}
	}
	all, err := byID(asked, s.images, "InvalidAMIID.NotFound", "image id")
	if err != nil {
		return nil, err
	}
	owners := c.form.texts("Owner")
	all = slices.DeleteFunc(all, func(im *Image) bool {
		aged := !im.Deprecated.IsZero() && !im.Deprecated.After(c.now) && !c.form.flag("IncludeDeprecated") && len(asked) == 0
		return aged || len(owners) > 0 && !slices.ContainsFunc(owners, func(o string) bool { return s.owns(o, im) })
	})
	return describeAll(c, "imagesSet", 1000, all, described[*Image]{
		key: func(im *Image) string { return im.ID }, tags: func(im *Image) map[string]string { return im.Tags }, property: imageProperty,
		write: func(im *Image) fields {
			platform := ""
			if im.Windows {
				platform = "windows"
			}
			return fields{
				{"imageId", im.ID},
				{"name", im.Name},
				{"architecture", im.Architecture},
				{"creationDate", im.Created},
				{"deprecationTime", im.Deprecated},
				{"imageOwnerId", im.Owner},
				{"imageState", "available"},
				{"imageType", "machine"},
				{"platform", platform},
				{"virtualizationType", "hvm"},
				{"rootDeviceType", "ebs"},
				{"tagSet", tagSet(im.Tags)},
			}
		},
	})
}

// owns tells whether an image belongs to an owner as requests name them.
func (s *Sim) owns(owner string, im *Image) bool {
	switch owner {
	case "self":
		return im.Owner == s.opts.AccountID
	case "amazon":
		return im.Owner != s.opts.AccountID
	default:
		return im.Owner == owner
	}
}

func imageProperty(im *Image, filter string) ([]string, bool) {
	switch filter {
	case "image-id":
		return only(im.ID)
	case "name":
		return only(im.Name)
	case "state":
		return only("available")
	case "architecture":
		return only(im.Architecture)
	case "owner-id":
		return only(im.Owner)
	case "virtualization-type":
		return only("hvm")
	default:
		return nil, false
	}
}
