package awssim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// poolKey names a capacity pool.
type poolKey struct{ capacityType, instanceType, zone string }

// quotaFamilies are the classes that EC2 counts vCPUs by; a family in none is standard.
func quotaFamilies() map[string][]string {
	return map[string][]string{
		"f": {"f"}, "g": {"g", "gr", "vt"}, "p": {"p"}, "x": {"x"}, "inf": {"inf"}, "trn": {"trn"}, "dl": {"dl"}, "hpc": {"hpc"}, "high-memory": {"u"},
	}
}

// defaultQuotas are those of an account that has asked for more.
func defaultQuotas() map[string]int {
	out := map[string]int{}
	for class := range quotaFamilies() {
		out[capacityOnDemand+"/"+class], out[capacitySpot+"/"+class] = 100_000, 100_000
	}
	out[capacityOnDemand+"/standard"], out[capacitySpot+"/standard"] = 1_000_000, 1_000_000
	return out
}

// quotaOf names the quota that a machine counts against.
func (s *Sim) quotaOf(m *machine, capacityType string) string {
	letters := m.family
	if i := strings.IndexFunc(letters, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		letters = letters[:i]
	}
	if capacityType != capacitySpot {
		capacityType = capacityOnDemand
	}
	for class, families := range quotaFamilies() {
		if s.opts.Beliefs.OneQuota {
			break
		}
		if slices.Contains(families, letters) || class == "high-memory" && strings.HasPrefix(m.family, "u") {
			return capacityType + "/" + class
		}
	}
	return capacityType + "/standard"
}

// SetQuota sets how many vCPUs a class may have: "on-demand/standard", "spot/g".
func (s *Sim) SetQuota(name string, vcpus int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas[name] = vcpus
}

// SetCapacity sets how many machines a pool has left. Terminated ones come back to it.
func (s *Sim) SetCapacity(capacityType, instanceType, zone string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity[poolKey{capacityType, instanceType, zone}] = n
}

// capacityLeft is how many machines a pool has.
func (s *Sim) capacityLeft(k poolKey, now time.Time) int {
	for _, kind := range []string{FaultShort, FaultZone} {
		for _, f := range s.faultsOf(kind, now) {
			if matches(f.CapacityType, k.capacityType) && matches(f.InstanceType, k.instanceType) && matches(f.Zone, k.zone) {
				return 0
			}
		}
	}
	if n, ok := s.capacity[k]; ok {
		return n
	}
	if s.opts.Capacity == nil {
		return math.MaxInt
	}
	n := s.opts.Capacity(k.capacityType, k.instanceType, k.zone)
	s.capacity[k] = n
	return n
}

// valid checks what is wrong with an order whatever the capacity.
func (s *Sim) valid(o *order, now time.Time) *apiError {
	im := s.images[o.imageID]
	switch {
	case o.missing != nil:
		return o.missing
	case o.machine == nil:
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", o.instanceType)
	case o.subnet == nil:
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.override.text("SubnetId"))
	case o.zone != o.subnet.Zone:
		return fail("InvalidParameterValue", "The availability zone %s is not the one of subnet %s", o.zone, o.subnet.ID)
	case !strings.HasPrefix(o.imageID, "ami-"):
		return fail("InvalidAMIID.Malformed", "Invalid id: \"%s\"", o.imageID)
	case im == nil:
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", o.imageID)
	case im.Architecture != o.machine.arch:
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.", o.machine.arch, im.Architecture)
	case !o.machine.offeredIn(o.subnet.zoneID):
		return fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", o.instanceType, o.zone)
	case o.capacityType == capacitySpot && o.price == math.MaxFloat64:
		return fail("Unsupported", "Spot is not supported for the instance type %s in %s", o.instanceType, o.zone)
	}
	if name := o.template.data.text("IamInstanceProfile", "Name"); name != "" {
		if p := s.profiles[name]; p == nil || p.visible.After(now) || p.role == "" {
			return fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
		}
	}
	return s.validNetwork(o)
}

func (s *Sim) validNetwork(o *order) *apiError {
	nics := o.template.data.list("NetworkInterface")
	public := 0
	for _, nic := range nics {
		for _, id := range nic.texts("SecurityGroupId") {
			if !slices.ContainsFunc(s.groups, func(g securityGroup) bool { return g.id == id }) {
				return fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
			}
		}
		if card := nic.number(0, "NetworkCardIndex"); card >= o.machine.cards {
			return fail("InvalidParameterValue", "Network card index %d is invalid for instance type %s", card, o.instanceType)
		}
		if strings.HasPrefix(nic.text("InterfaceType"), "efa") && o.machine.efas == 0 {
			return fail("Unsupported", "Instance type %s does not support Elastic Fabric Adapter", o.instanceType)
		}
		if nic.flag("AssociatePublicIpAddress") {
			public++
		}
	}
	if public > 0 && len(nics) > 1 {
		return fail("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
	}
	return nil
}

// launch launches one instance of an order, or says why not.
func (s *Sim) launch(o *order, now time.Time) (*instance, *apiError) {
	if refusal := s.valid(o, now); refusal != nil {
		return nil, refusal
	}
	r, refusal := s.reservationFor(o, now)
	if refusal != nil {
		return nil, refusal
	}
	place, refusal := s.placementFor(o)
	if refusal != nil {
		return nil, refusal
	}
	k := poolKey{o.capacityType, o.instanceType, o.zone}
	nics := max(1, len(o.template.data.list("NetworkInterface")))
	switch {
	case s.overQuota(o, now):
		if o.capacityType == capacitySpot {
			return nil, fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
		}
		return nil, fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", s.quota(o.machine, o.capacityType, now))
	case r == nil && s.capacityLeft(k, now) < 1 && o.capacityType == capacitySpot:
		return nil, fail("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.")
	case r == nil && s.capacityLeft(k, now) < 1:
		return nil, fail("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", o.instanceType, o.zone)
	case s.addressesOf(o.subnet, &call{now: now}) < nics:
		return nil, fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", o.subnet.ID)
	}
	in := s.newInstance(o, r, nics, now)
	in.placement = place
	if r != nil {
		r.Available--
	} else if n, ok := s.capacity[k]; ok {
		s.capacity[k] = n - 1
	}
	s.instances[in.id] = in
	s.plan(in, now)
	return in, nil
}

// quota is how many vCPUs may run of a machine's class.
func (s *Sim) quota(m *machine, capacityType string, now time.Time) int {
	name := s.quotaOf(m, capacityType)
	for _, f := range s.faultsOf(FaultQuota, now) {
		if matches(f.Target, name) {
			return f.Count
		}
	}
	return s.quotas[name]
}

func (s *Sim) overQuota(o *order, now time.Time) bool {
	name := s.quotaOf(o.machine, o.capacityType)
	return s.vcpus[name]+o.machine.vcpus > s.quota(o.machine, o.capacityType, now)
}

// plan says when the instance runs and when its Node joins.
func (s *Sim) plan(in *instance, now time.Time) {
	in.quota = s.quotaOf(in.machine, in.capacityType)
	s.vcpus[in.quota] += in.machine.vcpus
	boot := s.between(s.opts.MinBoot, s.opts.MaxBoot)
	s.at(now.Add(min(boot/2, s.between(2*time.Second, 8*time.Second))), func(now time.Time) {
		if in.state == statePending {
			s.setState(in, stateRunning, now)
		}
	})
	s.at(now.Add(boot), func(now time.Time) {
		if in.live() {
			s.join(in, now)
		}
	})
}

// name is an instance's private DNS name, and so its Node's.
func (in *instance) name(region string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-%s.%s", strings.ReplaceAll(in.addresses[0].String(), ".", "-"), domain)
}
