package awssim

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// The states of an instance.
const (
	statePending    = "pending"
	stateRunning    = "running"
	stateStopping   = "shutting-down"
	stateTerminated = "terminated"
)

// instance is one machine that runs, or did.
type instance struct {
	id, spotRequest, clientToken string
	machine                      *machine
	subnet                       *Subnet
	image                        *Image
	template                     *template
	capacityType                 string
	quota                        string // that its vCPUs count against
	state, reason                string
	launched, visible, ended     time.Time
	addresses                    []netip.Addr
	priceHourly                  float64 // fixed at the launch
	tags                         map[string]string
	reservation                  *Reservation
	placement                    placed
	// node is the name of its Node once it has joined; bootError why it will not.
	node, bootError string
	// protected: it may not be terminated by whoever asks.
	protected bool
	// interrupted is when its notice was given.
	interrupted   time.Time
	impairedSince time.Time
	maintenance   time.Time
}

func (in *instance) live() bool { return in.state == statePending || in.state == stateRunning }

// dress tags a new instance as its fleet says.
func (in *instance) dress(tags map[string]string, fleet, clientToken string) {
	maps.Copy(in.tags, tags)
	in.tags["aws:ec2:fleet-id"] = fleet
	in.clientToken = clientToken
}

func (s *Sim) newInstance(o *order, r *Reservation, nics int, now time.Time) *instance {
	in := &instance{
		id: s.id("i"), machine: o.machine, subnet: o.subnet, image: s.images[o.imageID], template: o.template,
		capacityType: o.capacityType, priceHourly: o.price, state: statePending, launched: now, visible: s.visible(now), reservation: r,
		tags: map[string]string{"aws:ec2launchtemplate:id": o.template.id, "aws:ec2launchtemplate:version": "1"},
	}
	if o.capacityType == capacitySpot {
		in.spotRequest = s.id("sir")
	}
	for range nics {
		in.addresses = append(in.addresses, o.subnet.lease())
	}
	return in
}

// lifecycle is as DescribeInstances has it: empty for on demand.
func (in *instance) lifecycle() string {
	switch {
	case in.capacityType == capacitySpot:
		return capacitySpot
	case in.reservation != nil && in.reservation.Type == capacityBlock:
		return capacityBlock
	case in.reservation != nil && in.reservation.Interruptible:
		return "interruptible-capacity-reservation"
	default:
		return ""
	}
}

func stateCode(state string) int {
	return map[string]int{statePending: 0, stateRunning: 16, stateStopping: 32, stateTerminated: 48}[state]
}

func stateFields(state string) fields {
	return fields{{"code", stateCode(state)}, {"name", state}}
}

func describeInstances(s *Sim, c *call) (any, error) {
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
			return fields{{"reservationId", "r-" + in.id[2:]}, {"ownerId", s.opts.AccountID}, {"instancesSet", list{s.describe(in)}}}
		},
	})
}

// named returns the instances that a request names, or all that are seen.
func (s *Sim) named(c *call, ids []string) ([]*instance, error) {
	if len(ids) == 0 {
		return slices.DeleteFunc(slices.Collect(maps.Values(s.instances)), func(in *instance) bool { return s.unseen(in, c.now) }), nil
	}
	var out []*instance
	for _, id := range ids {
		if len(id) < 3 || id[:2] != "i-" {
			return nil, fail("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		in := s.instances[id]
		if in == nil || s.unseen(in, c.now) {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		out = append(out, in)
	}
	return out, nil
}

func (s *Sim) instanceProperty(in *instance, filter string) ([]string, bool) {
	switch filter {
	case "instance-id":
		return only(in.id)
	case "instance-state-name":
		return only(in.state)
	case "instance-type":
		return only(in.machine.name)
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
		return only(in.name(s.opts.Region))
	case "private-ip-address":
		return only(in.addresses[0].String())
	default:
		return nil, false
	}
}

func (s *Sim) describe(in *instance) fields {
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
		{"privateDnsName", in.name(s.opts.Region)},
		{"instanceType", in.machine.name},
		{"launchTime", in.launched},
		{"placement", placement},
		{"platform", platform},
		{"architecture", in.machine.arch},
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
		out = append(out, field{"iamInstanceProfile", fields{{"arn", s.arn("iam", "instance-profile/"+p)}}})
	}
	if in.reservation != nil {
		out = append(out, field{"capacityReservationId", in.reservation.ID})
	}
	if in.reason != "" {
		out = append(out, field{"stateReason", fields{{"code", in.reason}, {"message", in.reason}}})
	}
	return out
}

func orDefault(text, or string) string {
	if text == "" {
		return or
	}
	return text
}

// arn names a thing of the account.
func (s *Sim) arn(service, resource string) string {
	region := s.opts.Region
	if service == "iam" {
		region = ""
	}
	return "arn:aws:" + service + ":" + region + ":" + s.opts.AccountID + ":" + resource
}

// groupsOf are the security groups of an interface; without an interface in the template
// the default one.
func (s *Sim) groupsOf(in *instance, nic int) list {
	ids := in.template.data.texts("SecurityGroupId")
	if nics := in.template.data.list("NetworkInterface"); nic < len(nics) {
		ids = nics[nic].texts("SecurityGroupId")
	}
	var out list
	for _, g := range s.groups {
		if slices.Contains(ids, g.id) {
			out = append(out, fields{{"groupId", g.id}, {"groupName", g.name}})
		}
	}
	return out
}

func (s *Sim) interfaces(in *instance) list {
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

func terminateInstances(s *Sim, c *call) (any, error) {
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

// Protect gives an instance termination protection, or takes it away.
func (s *Sim) Protect(id string, protected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instances[id]; in != nil {
		in.protected = protected
	}
}

// terminate begins an instance's end. What it took comes back when it is over.
func (s *Sim) terminate(in *instance, reason string, now time.Time) {
	if !in.live() {
		return
	}
	in.reason = reason
	s.setState(in, stateStopping, now)
	s.at(now.Add(s.between(s.opts.MinEnd, s.opts.MaxEnd)), func(now time.Time) {
		s.setState(in, stateTerminated, now)
		in.ended = now
		s.leave(in)
		s.giveBack(in)
		s.spent += in.bill(now)
		s.at(now.Add(terminatedVisible), func(time.Time) { delete(s.instances, in.id) })
	})
}

// bill is what an instance has cost in dollars, by the second.
func (in *instance) bill(now time.Time) float64 {
	return in.priceHourly * now.Sub(in.launched).Hours()
}

func (s *Sim) giveBack(in *instance) {
	s.vcpus[in.quota] -= in.machine.vcpus
	for _, a := range in.addresses {
		delete(in.subnet.used, a)
	}
	k := poolKey{in.capacityType, in.machine.name, in.subnet.Zone}
	if in.reservation != nil {
		in.reservation.Available++
	} else if n, ok := s.capacity[k]; ok && in.interrupted.IsZero() {
		// A pool from which machines are taken back has no room for them.
		s.capacity[k] = n + 1
	}
}

// lose ends instances by nobody's wish: by hand, or with their zone.
func (s *Sim) lose(f *Fault, in *instance, now time.Time) {
	reason := "Client.UserInitiatedShutdown"
	if f.Kind == FaultZone {
		reason = "Server.InternalError"
	}
	s.terminate(in, reason, now)
}

func createTags(s *Sim, c *call) (any, error) {
	tags := c.form.tags("Tag")
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	var targets []map[string]string
	for _, id := range c.form.texts("ResourceId") {
		switch t := s.templates[id]; {
		case t != nil:
			targets = append(targets, t.tags)
		case s.subnets[id] != nil:
			targets = append(targets, s.subnets[id].Tags)
		default:
			named, err := s.named(c, []string{id})
			if err != nil {
				return nil, err
			}
			targets = append(targets, named[0].tags)
		}
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	for _, t := range targets {
		maps.Copy(t, tags)
		if err := checkCount(t); err != nil {
			return nil, err
		}
	}
	return fields{{"return", true}}, nil
}

func checkCount(tags map[string]string) error {
	n := 0
	for k := range tags {
		if len(k) < 4 || k[:4] != "aws:" {
			n++
		}
	}
	if n > tagsMax {
		return fail("TagLimitExceeded", "The maximum number of tags for a resource is %d", tagsMax)
	}
	return nil
}
