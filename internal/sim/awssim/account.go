package awssim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const vpcID = "vpc-0d0e7a11000000001"

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

// Image is an AMI.
type Image struct {
	ID, Name, Architecture, Owner string
	Created, Deprecated           time.Time
	Windows                       bool
	Tags                          map[string]string
	family                        string // one of package boot's
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

// furnish puts into the account what the options and the defaults say.
func (s *Sim) furnish() error {
	s.zones = defaultZones()
	if s.opts.Region != "us-east-1" {
		for i := range s.zones {
			s.zones[i].Name = s.opts.Region + s.zones[i].Name[len("us-east-1"):]
		}
	}
	discovery := map[string]string{"karpenter.sh/discovery": s.opts.Cluster.Name}
	subnets := s.opts.Subnets
	if subnets == nil {
		subnets = s.defaultSubnets(discovery)
	}
	for _, sub := range subnets {
		if err := s.addSubnet(sub); err != nil {
			return err
		}
	}
	s.groups = []securityGroup{
		{"sg-0a11000000000000a", "eks-cluster-sg-" + s.opts.Cluster.Name, "EKS created security group", map[string]string{
			"kubernetes.io/cluster/" + s.opts.Cluster.Name: "owned", "karpenter.sh/discovery": s.opts.Cluster.Name,
		}},
		{"sg-0a11000000000000b", s.opts.Cluster.Name + "-node", "Nodes", map[string]string{"Name": s.opts.Cluster.Name + "-node", "karpenter.sh/discovery": s.opts.Cluster.Name}},
		{"sg-0a11000000000000c", "default", "default VPC security group", nil},
	}
	s.publishImages(s.clock.Now())
	for _, role := range append([]string{"KarpenterNodeRole-" + s.opts.Cluster.Name}, s.opts.Roles...) {
		s.roles[role] = true
	}
	s.queues[s.opts.Queue] = &queue{name: s.opts.Queue}
	s.spot = newSpotMarket(s.clock.Now())
	return nil
}

func (s *Sim) defaultSubnets(discovery map[string]string) []Subnet {
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

func (s *Sim) addSubnet(sub Subnet) error {
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

// release is the name of an image generation; newer ones follow deprecations.
func release(at time.Time) string { return "v" + at.UTC().Format("20060102") }

// publishImages makes the images of the cluster's version and the public parameters that
// point to them: the version that is current, and "latest" or "recommended".
func (s *Sim) publishImages(at time.Time) {
	k, v := s.opts.Cluster.Version, release(at)
	al2 := "/aws/service/eks/optimized-ami/" + k
	for _, a := range []struct{ path, name, arch string }{
		{"amazon-linux-2", "amazon-eks-node-", "x86_64"},
		{"amazon-linux-2-arm64", "amazon-eks-arm64-node-", "arm64"},
		{"amazon-linux-2-gpu", "amazon-eks-gpu-node-", "x86_64"},
	} {
		name := a.name + k + "-" + v
		s.publish(at, name, a.arch, "al2", al2+"/"+a.path+"/recommended/image_id", al2+"/"+a.path+"/"+name+"/image_id")
	}
	for _, a := range []struct{ arch, variant string }{
		{"x86_64", "standard"}, {"x86_64", "nvidia"}, {"x86_64", "neuron"}, {"arm64", "standard"}, {"arm64", "nvidia"},
	} {
		name := strings.Join([]string{"amazon-eks-node-al2023", a.arch, a.variant, k, v}, "-")
		path := al2 + "/amazon-linux-2023/" + a.arch + "/" + a.variant
		s.publish(at, name, a.arch, "al2023", path+"/recommended/image_id", path+"/"+name+"/image_id")
	}
	version := fmt.Sprintf("1.%d.%d", 40+at.Year()-2024, at.YearDay())
	for _, a := range []struct{ flavor, arch string }{{"", "x86_64"}, {"", "arm64"}, {"-nvidia", "x86_64"}, {"-nvidia", "arm64"}} {
		name := "bottlerocket-aws-k8s-" + k + a.flavor + "-" + a.arch + "-v" + version
		path := "/aws/service/bottlerocket/aws-k8s-" + k + a.flavor + "/" + a.arch
		s.publish(at, name, a.arch, "bottlerocket", path+"/latest/image_id", path+"/"+version+"/image_id")
	}
	for _, year := range []string{"2019", "2022", "2025"} {
		name := "Windows_Server-" + year + "-English-Core-EKS_Optimized-" + k
		s.publish(at, name+"-"+at.UTC().Format("2006.01.02"), "x86_64", "windows"+year, "/aws/service/ami-windows-latest/"+name+"/image_id")
	}
}

func (s *Sim) publish(at time.Time, name, arch, family string, parameters ...string) {
	id := s.id("ami")
	s.images[id] = &Image{
		ID: id, Name: name, Architecture: arch, Owner: "602401143452", Created: at.Add(-24 * time.Hour), Deprecated: at.AddDate(2, 0, 0),
		Windows: strings.HasPrefix(family, "windows"), family: family,
	}
	for _, p := range parameters {
		s.parameters[p] = id
	}
}

// AddImage gives the account an image of its own. The family says how it reads its user
// data: al2, al2023, bottlerocket, windows2022, or empty for none.
func (s *Sim) AddImage(im Image, family string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	im.family = family
	if im.Owner == "" {
		im.Owner = s.opts.AccountID
	}
	s.images[im.ID] = &im
}

// deprecate ends the images' time and publishes a newer generation.
func (s *Sim) deprecate(f *Fault, now time.Time) {
	hit := false
	for _, im := range s.images {
		if im.Deprecated.After(now) && (matches(f.Target, im.ID) || matches(f.Target, im.Name)) {
			im.Deprecated, hit = now, true
		}
	}
	if hit {
		s.publishImages(now.Add(24 * time.Hour))
	}
}
