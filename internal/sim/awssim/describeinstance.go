package awssim

import (
	"slices"
	"strconv"
)

func (s *instances) describeInstances(c *call) (any, error) {
	all, err := s.named(c, c.form.texts("InstanceId"))
	if err != nil {
		return nil, err
	}
	if len(c.form.texts("InstanceId")) > 0 && c.form.isSet("MaxResults") {
		return nil, fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	// Each instance is a reservation by itself: EC2 promises no other grouping.
	return describeAll(c, "reservationSet", 1000, all, described[*instance]{
		key: func(in *instance) string { return in.id }, tags: func(in *instance) map[string]string { return in.tags },
		property: s.instanceProperty,
		write: func(in *instance) fields {
			return fields{{"reservationId", "r-" + in.id[2:]}, {"ownerId", s.base.opts.AccountID}, {"instancesSet", list{s.describe(in)}}}
		},
	})
}

func (s *instances) instanceProperty(in *instance, filter string) ([]string, bool) {
	switch filter {
	case "instance-id":
		return only(in.id)
	case "instance-state-name":
		return only(in.state)
	case "instance-type":
		return only(in.typ.name)
	case "instance-lifecycle":
		return only(in.lifecycle())
	case "availability-zone":
		return only(in.subnet.Zone)
	case "availability-zone-id":
		return only(in.subnet.zoneID)
	case "subnet-id":
		return only(in.subnet.ID)
	case "vpc-id":
		return only(vpcID)
	case "image-id":
		return only(in.image.ID)
	case "client-token":
		return only(in.clientToken)
	case "private-dns-name":
		return only(in.name(s.base.opts.Region))
	case "private-ip-address":
		return only(in.addresses[0].String())
	default:
		return nil, false
	}
}

func (s *instances) describe(in *instance) fields {
	platform := ""
	if in.image.Windows {
		platform = "windows"
	}
	placement := fields{
		{"availabilityZone", in.subnet.Zone},
		{"availabilityZoneId", in.subnet.zoneID},
		{"tenancy", orDefault(in.template.data.text("Placement", "Tenancy"), "default")},
		{"groupId", in.placement.groupID},
		{"groupName", in.placement.groupName},
	}
	if in.placement.partition > 0 {
		placement = append(placement, field{"partitionNumber", in.placement.partition})
	}
	out := fields{
		{"instanceId", in.id},
		{"imageId", in.image.ID},
		{"instanceState", stateFields(in.state)},
		{"privateDnsName", in.name(s.base.opts.Region)},
		{"instanceType", in.typ.name},
		{"launchTime", in.launched},
		{"placement", placement},
		{"enclaveOptions", fields{{"enabled", in.enclaves() == "true"}}},
		{"platform", platform},
		{"architecture", in.typ.arch},
		{"subnetId", in.subnet.ID},
		{"vpcId", vpcID},
		{"privateIpAddress", in.addresses[0].String()},
		{"hypervisor", "xen"},
		{"virtualizationType", "hvm"},
		{"rootDeviceType", "ebs"},
		{"instanceLifecycle", in.lifecycle()},
		{"spotInstanceRequestId", in.spotRequest},
		{"clientToken", in.clientToken},
		{"groupSet", s.groupsOf(in, 0)},
		{"networkInterfaceSet", s.interfaces(in)},
		{"tagSet", tagSet(in.tags)},
		{"capacityReservationSpecification", fields{{
			"capacityReservationPreference",
			orDefault(in.template.data.text("CapacityReservationSpecification", "CapacityReservationPreference"), "open"),
		}}},
	}
	if p := in.template.data.text("IamInstanceProfile", "Name"); p != "" {
		out = append(out, field{"iamInstanceProfile", fields{{"arn", s.base.arn("iam", "instance-profile/"+p)}}})
	}
	if in.reservation != nil {
		out = append(out, field{"capacityReservationId", in.reservation.ID})
	}
	if in.reason != "" {
		out = append(out, field{"stateReason", fields{{"code", in.reason}, {"message", in.reason}}})
	}
	return out
}

// groupsOf are the security groups of an interface; without an interface in the template
// the default one.
func (s *instances) groupsOf(in *instance, nic int) list {
	ids := in.template.data.texts("SecurityGroupId")
	if nics := in.template.data.list("NetworkInterface"); nic < len(nics) {
		ids = nics[nic].texts("SecurityGroupId")
	}
	var out list
	for _, g := range s.network.groups {
		if slices.Contains(ids, g.id) {
			out = append(out, fields{{"groupId", g.id}, {"groupName", g.name}})
		}
	}
	return out
}

func (s *instances) interfaces(in *instance) list {
	var out list
	nics := in.template.data.list("NetworkInterface")
	for i, a := range in.addresses {
		kind, card, device := "interface", 0, i
		if i < len(nics) {
			kind = orDefault(nics[i].text("InterfaceType"), kind)
			card, device = nics[i].number(0, "NetworkCardIndex"), nics[i].number(i, "DeviceIndex")
		}
		out = append(out, fields{
			{"networkInterfaceId", "eni-" + in.id[2:] + strconv.Itoa(i)},
			{"subnetId", in.subnet.ID},
			{"vpcId", vpcID},
			{"interfaceType", kind},
			{"status", "in-use"},
			{"privateIpAddress", a.String()},
			{"groupSet", s.groupsOf(in, i)},
			{"attachment", fields{{"deviceIndex", device}, {"networkCardIndex", card}, {"status", "attached"}}},
		})
	}
	return out
}

// rebootInstances answers RebootInstances. Instances that have ended, or are about to, are passed over.
func (s *instances) rebootInstances(c *call) (any, error) {
	all, err := s.named(c, c.form.texts("InstanceId"))
	if err != nil {
		return nil, err
	}
	if !c.form.isSet("InstanceId") {
		return nil, fail("MissingParameter", "The request must contain the parameter InstanceId")
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	for _, in := range all {
		s.reboot(in, c.now)
	}
	return fields{{"return", true}}, nil
}

func (s *instances) terminateInstances(c *call) (any, error) {
	all, err := s.named(c, c.form.texts("InstanceId"))
	if err != nil {
		return nil, err
	}
	if !c.form.isSet("InstanceId") {
		return nil, fail("MissingParameter", "The request must contain the parameter InstanceId")
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	for _, in := range all {
		if in.protected {
			return nil, fail("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", in.id)
		}
	}
	var changes list
	for _, in := range all {
		before := in.state
		s.terminate(in, "Client.UserInitiatedShutdown", c.now)
		changes = append(changes, fields{
			{"instanceId", in.id}, {"currentState", stateFields(in.state)}, {"previousState", stateFields(before)},
		})
	}
	return fields{{"instancesSet", changes}}, nil
}
