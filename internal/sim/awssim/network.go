package awssim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

const vpcID = "vpc-0d0e7a11000000001"

// network has the zones, subnets and security groups.
type network struct {
	base *base

	zones   []Zone
	subnets map[string]*Subnet
	groups  []securityGroup
}

// Zone is an availability zone: the name that this account has for it, and its id.
type Zone struct{ Name, ID string }

// Subnet is a part of the VPC in one zone.
type Subnet struct {
	ID   string `json:"id"`
	Zone string `json:"zone"`
	// CIDR bounds how many addresses there are; five of them are Amazon's.
	CIDR   string            `json:"cidr"`
	Public bool              `json:"public"`
	Tags   map[string]string `json:"tags"`

	zoneID string
	prefix netip.Prefix
	used   map[netip.Addr]bool
}

type securityGroup struct {
	id, name, description string
	tags                  map[string]string
}

// defaultZones is a map from names to ids like a real account's: not in the same order.
func defaultZones() []Zone {
	return []Zone{
		{"us-east-1a", "use1-az4"},
		{"us-east-1b", "use1-az6"},
		{"us-east-1c", "use1-az1"},
		{"us-east-1d", "use1-az2"},
		{"us-east-1e", "use1-az3"},
		{"us-east-1f", "use1-az5"},
	}
}

func (s *network) defaultSubnets(discovery map[string]string) []Subnet {
	var out []Subnet
	for i, z := range s.zones {
		private := map[string]string{"Name": "private-" + z.Name, "kubernetes.io/role/internal-elb": "1"}
		for k, v := range discovery {
			private[k] = v
		}
		out = append(out,
			Subnet{ID: fmt.Sprintf("subnet-0b000000000000%03x", i), Zone: z.Name, CIDR: fmt.Sprintf("10.0.%d.0/20", 16*i), Tags: private},
			Subnet{ID: fmt.Sprintf("subnet-0c000000000000%03x", i), Zone: z.Name, CIDR: fmt.Sprintf("10.0.%d.0/24", 200+i), Public: true, Tags: map[string]string{"Name": "public-" + z.Name, "kubernetes.io/role/elb": "1"}})
	}
	return out
}

func (s *network) addSubnet(sub Subnet) error {
	i := slices.IndexFunc(s.zones, func(z Zone) bool { return z.Name == sub.Zone })
	if i < 0 {
		return fmt.Errorf("awssim: subnet %s: the account has no zone %q, it has %v", sub.ID, sub.Zone, s.zones)
	}
	prefix, err := netip.ParsePrefix(sub.CIDR)
	if err != nil || !prefix.Addr().Is4() {
		return fmt.Errorf("awssim: subnet %s: cidr: %q is not an IPv4 prefix such as 10.0.0.0/20", sub.ID, sub.CIDR)
	}
	sub.zoneID, sub.prefix, sub.used = s.zones[i].ID, prefix.Masked(), map[netip.Addr]bool{}
	s.subnets[sub.ID] = &sub
	return nil
}

func (s *network) zoneID(name string) string {
	for _, z := range s.zones {
		if z.Name == name {
			return z.ID
		}
	}
	return ""
}

// free is how many addresses are left.
func (n *Subnet) free() int {
	return max(0, 1<<(32-n.prefix.Bits())-5-len(n.used))
}

// lease takes the lowest free address. The caller has asked free.
func (n *Subnet) lease() netip.Addr {
	base := n.prefix.Addr().As4()
	first := binary.BigEndian.Uint32(base[:])
	for i := uint32(4); ; i++ {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], first+i)
		if a := netip.AddrFrom4(b); !n.used[a] {
			n.used[a] = true
			return a
		}
	}
}

// addressesOf is how many addresses a subnet has now.
func (s *network) addressesOf(n *Subnet, c *call) int {
	for _, f := range s.base.faultsOf(FaultAddresses, c.now) {
		if matches(f.Target, n.ID) && matches(f.Zone, n.Zone) {
			return 0
		}
	}
	return n.free()
}

func (s *network) describeSubnets(c *call) (any, error) {
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
				{"ownerId", s.base.opts.AccountID},
				{"tagSet", tagSet(n.Tags)},
			}
		},
	})
}

func (s *network) describeGroups(c *call) (any, error) {
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
				{"ownerId", s.base.opts.AccountID},
				{"tagSet", tagSet(g.tags)},
			}
		},
	})
}
