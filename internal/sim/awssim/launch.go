package awssim

import (
	"math"
	"slices"
	"strings"
	"time"
)

// valid returns what is wrong with a launch option whatever the capacity.
func (s *fleets) valid(o *launchOption, now time.Time) *apiError {
	im := s.images.byID[o.imageID]
	switch {
	case o.missing != nil:
		return o.missing
	case o.typ == nil:
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", o.instanceType)
	case o.subnet == nil:
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.override.text("SubnetId"))
	case o.zone != o.subnet.Zone:
		return fail("InvalidParameterValue", "The availability zone %s is not the one of subnet %s", o.zone, o.subnet.ID)
	case !strings.HasPrefix(o.imageID, "ami-"):
		return fail("InvalidAMIID.Malformed", "Invalid id: \"%s\"", o.imageID)
	case im == nil:
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", o.imageID)
	case im.Architecture != o.typ.arch:
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.", o.typ.arch, im.Architecture)
	case !o.typ.offeredIn(o.subnet.zoneID):
		return fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", o.instanceType, o.zone)
	case o.template.data.flag("EnclaveOptions", "Enabled") && !o.typ.enclaves():
		return fail("Unsupported", "The instance type '%s' does not support AWS Nitro Enclaves.", o.instanceType)
	case o.capacityType == capacitySpot && o.price == math.MaxFloat64:
		return fail("Unsupported", "Spot is not supported for the instance type %s in %s", o.instanceType, o.zone)
	}
	if name := o.template.data.text("IamInstanceProfile", "Name"); name != "" {
		if p := s.iam.byName[name]; p == nil || p.visible.After(now) || p.role == "" {
			return fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
		}
	}
	return s.validNetwork(o)
}

func (s *fleets) validNetwork(o *launchOption) *apiError {
	nics := o.template.data.list("NetworkInterface")
	public := 0
	for _, nic := range nics {
		for _, id := range nic.texts("SecurityGroupId") {
			if !slices.ContainsFunc(s.network.groups, func(g securityGroup) bool { return g.id == id }) {
				return fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
			}
		}
		if card := nic.number(0, "NetworkCardIndex"); card >= o.typ.cards {
			return fail("InvalidParameterValue", "Network card index %d is invalid for instance type %s", card, o.instanceType)
		}
		if strings.HasPrefix(nic.text("InterfaceType"), "efa") && o.typ.efas == 0 {
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

// launch launches one instance of a launch option, or says why not.
func (s *fleets) launch(o *launchOption, now time.Time) (*instance, *apiError) {
	if refusal := s.valid(o, now); refusal != nil {
		return nil, refusal
	}
	r, refusal := s.reservations.reservationFor(o, now)
	if refusal != nil {
		return nil, refusal
	}
	place, refusal := s.placements.placementFor(o)
	if refusal != nil {
		return nil, refusal
	}
	k := poolKey{o.capacityType, o.instanceType, o.zone}
	nics := max(1, len(o.template.data.list("NetworkInterface")))
	switch {
	case s.pools.overQuota(o, now):
		if o.capacityType == capacitySpot {
			return nil, fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
		}
		return nil, fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", s.pools.quota(o.typ, o.capacityType, now))
	case r == nil && s.pools.capacityLeft(k, now) < 1 && o.capacityType == capacitySpot:
		return nil, fail("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.")
	case r == nil && s.pools.capacityLeft(k, now) < 1, r != nil && s.pools.reservedShort(r, now):
		return nil, fail("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", o.instanceType, o.zone)
	case s.network.addressesOf(o.subnet, &call{now: now}) < nics:
		return nil, fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", o.subnet.ID)
	}
	in := s.instances.newInstance(o, r, nics, now)
	in.placement = place
	if r != nil {
		r.Available--
	} else if n, ok := s.pools.capacity[k]; ok {
		s.pools.capacity[k] = n - 1
	}
	s.instances.byID[in.id] = in
	s.instances.plan(in, now)
	return in, nil
}

// runInstances answers dry runs only: nobody launches that way here.
func (s *fleets) runInstances(c *call) (any, error) {
	t := &template{data: c.form}
	if spec := c.form.at("LaunchTemplate"); len(spec.children) > 0 {
		var err error
		if t, err = s.templates.template(spec, c.now); err != nil {
			return nil, err
		}
	}
	override := &form{children: map[string]*form{"InstanceType": c.form.at("InstanceType"), "SubnetId": c.form.at("SubnetId")}}
	if nics := c.form.list("NetworkInterface"); len(nics) > 0 {
		merged, err := s.mergeInterfaces(t.data.list("NetworkInterface"), nics)
		if err != nil {
			return nil, err
		}
		t = &template{data: t.data.with("NetworkInterface", listForm(merged))}
		override.children["SubnetId"] = merged[0].at("SubnetId")
	}
	o := s.option(c, t, override, capacityOnDemand)
	if err := checkTags(c.form.tagsFor("instance")); err != nil {
		return nil, err
	}
	if refusal := s.valid(o, c.now); refusal != nil && !s.base.opts.Beliefs.BlindDryRun {
		return nil, refusal
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	return nil, fail("UnsupportedOperation", "awssim launches by CreateFleet only")
}

// mergeInterfaces returns the network interfaces that a request with some of its own has
// with those of its template. Each needs a subnet, all in one zone, and is there once.
func (s *fleets) mergeInterfaces(template, request []*form) ([]*form, error) {
	type place struct{ card, device int }
	at := func(nic *form) place { return place{nic.number(0, "NetworkCardIndex"), nic.number(0, "DeviceIndex")} }
	var out []*form
	if !s.base.opts.Beliefs.ReplaceInterfaces {
		out = slices.Clone(template)
	}
	asked := map[place]bool{}
	for _, nic := range request {
		if asked[at(nic)] {
			return nil, fail("InvalidParameterValue", "Each network interface requires a unique device index.")
		}
		asked[at(nic)] = true
		i := slices.IndexFunc(out, func(had *form) bool { return at(had) == at(nic) })
		if i < 0 {
			out = append(out, nic)
			continue
		}
		for field, value := range nic.children {
			out[i] = out[i].with(field, value)
		}
	}
	for _, nic := range out {
		subnet, first := s.network.subnets[nic.text("SubnetId")], s.network.subnets[out[0].text("SubnetId")]
		switch {
		case !nic.isSet("SubnetId"):
			return nil, fail("MissingParameter", "The network interface of device index %d has no subnet", at(nic).device)
		case subnet == nil:
			return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", nic.text("SubnetId"))
		case subnet.Zone != first.Zone:
			return nil, fail("InvalidParameterCombination", "The network interfaces are in different Availability Zones")
		}
	}
	return out, nil
}
