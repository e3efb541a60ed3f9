package awssim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

const (
	// fleetBodyMax is the largest fleet request that EC2 takes.
	fleetBodyMax = 160 << 10
	// answersKept is for how long a client token is remembered.
	answersKept = 48 * time.Hour
)

// answered is a fleet request that has been answered.
type answered struct {
	request string
	answer  fields
}

// order is one way to launch an instance of a fleet: a template with one override.
type order struct {
	template     *template
	override     *form
	machine      *machine
	subnet       *Subnet
	zone         string
	imageID      string
	capacityType string
	price        float64
	priority     float64
	left         int
	// instanceType is what was asked for; there may be no such machine.
	instanceType string
	// missing is what to say if the template does not exist.
	missing *apiError
}

func createFleet(s *Sim, c *call) (any, error) {
	f := c.form
	if kind := f.text("Type"); kind != "instant" {
		return nil, fail("InvalidParameterValue", "awssim launches fleets of type instant only, not %q", kind)
	}
	if most := cmp.Or(s.opts.Beliefs.FleetBodyMax, fleetBodyMax); c.size > most {
		return nil, fail("InvalidInput", "The request body is too large: %d bytes, at most %d", c.size, most)
	}
	if kind := f.text("TargetCapacitySpecification", "DefaultTargetCapacityType"); s.opts.Beliefs.NoReservedFleets && (kind == "capacity-block" || kind == "reserved-capacity") {
		return nil, fail("InvalidParameterValue", "The value '%s' for DefaultTargetCapacityType is not supported by fleets of type instant", kind)
	}
	total, err := strconv.Atoi(f.text("TargetCapacitySpecification", "TotalTargetCapacity"))
	if err != nil || total < 1 || total > 10000 {
		return nil, fail("InvalidTargetCapacitySpecification", "TotalTargetCapacity must be between 1 and 10000")
	}
	for _, kind := range []string{"instance", "volume", "fleet"} {
		if err := checkTags(f.tagsFor(kind)); err != nil {
			return nil, err
		}
	}
	orders, err := s.orders(c)
	if err != nil {
		return nil, err
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	token, request := f.text("ClientToken"), f.String()
	if old := s.fleets[token]; old != nil && token != "" {
		return s.repeated(c, old, orders, total)
	}
	out := s.launchFleet(c, orders, total)
	if token != "" {
		s.fleets[token] = &answered{request, out}
		s.at(c.now.Add(cmp.Or(s.opts.Beliefs.TokenKept, answersKept)), func(time.Time) { delete(s.fleets, token) })
	}
	return out, nil
}

// orders reads all ways in which the fleet may be launched, the best first.
func (s *Sim) orders(c *call) ([]*order, error) {
	configs := c.form.list("LaunchTemplateConfigs")
	if len(configs) == 0 {
		return nil, fail("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
	}
	capacityType := cmp.Or(c.form.text("TargetCapacitySpecification", "DefaultTargetCapacityType"), capacityOnDemand)
	var orders []*order
	for _, config := range configs {
		spec := config.at("LaunchTemplateSpecification")
		t, err := s.template(spec, c.now)
		var missing *apiError
		if errors.As(err, &missing) && s.opts.Beliefs.TemplateErrorInside {
			t, err = &template{name: spec.text("LaunchTemplateName"), id: spec.text("LaunchTemplateId"), data: &form{}}, nil
		}
		if err != nil {
			return nil, err
		}
		overrides := config.list("Overrides")
		if len(overrides) == 0 {
			overrides = []*form{{}}
		}
		for _, o := range overrides {
			order := s.order(c, t, o, capacityType)
			order.missing = missing
			orders = append(orders, order)
		}
	}
	if s.opts.Beliefs.EqualByCapacity {
		slices.SortStableFunc(orders, func(a, b *order) int { return cmp.Compare(b.left, a.left) })
	}
	sortOrders(orders, c.form, capacityType)
	return orders, nil
}

func (s *Sim) order(c *call, t *template, override *form, capacityType string) *order {
	o := &order{
		template: t, override: override, capacityType: capacityType,
		instanceType: cmp.Or(override.text("InstanceType"), t.data.text("InstanceType")),
		imageID:      cmp.Or(override.text("ImageId"), t.data.text("ImageId")),
		zone:         override.text("AvailabilityZone"),
		priority:     math.MaxFloat64, price: math.MaxFloat64, left: math.MaxInt,
	}
	o.machine = s.types.byName[o.instanceType]
	if o.subnet = s.subnets[override.text("SubnetId")]; o.subnet != nil && o.zone == "" {
		o.zone = o.subnet.Zone
	}
	if p, err := strconv.ParseFloat(override.text("Priority"), 64); err == nil {
		o.priority = p
	}
	if o.machine == nil || o.subnet == nil {
		return o
	}
	o.price = o.machine.onDemand
	if capacityType == capacitySpot {
		o.price = math.MaxFloat64
		if p, _, ok := s.spot.price(s.opts.Seed, o.machine, o.subnet.zoneID, c.now); ok {
			o.price = p
		}
	}
	o.left = s.capacityLeft(poolKey{capacityType, o.instanceType, o.zone}, c.now)
	return o
}

// sortOrders puts the orders into the sequence that the allocation strategy says.
func sortOrders(orders []*order, f *form, capacityType string) {
	byPrice := func(a, b *order) int { return cmp.Compare(a.price, b.price) }
	byPriority := func(a, b *order) int { return cmp.Compare(a.priority, b.priority) }
	byRoom := func(a, b *order) int { return cmp.Compare(b.left, a.left) }
	need := f.number(1, "TargetCapacitySpecification", "TotalTargetCapacity")
	strategy := cmp.Or(f.text("OnDemandOptions", "AllocationStrategy"), "lowest-price")
	if capacityType == capacitySpot {
		strategy = cmp.Or(f.text("SpotOptions", "AllocationStrategy"), "lowest-price")
	}
	slices.SortStableFunc(orders, func(a, b *order) int {
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

// launchFleet launches what it can and tells which override failed with what.
func (s *Sim) launchFleet(c *call, orders []*order, total int) fields {
	id := s.id("fleet")
	tags := c.form.tagsFor("instance")
	var instances, refusals list
	left := total
	for _, o := range orders {
		if left == 0 {
			break
		}
		var ids list
		for left > 0 {
			in, refusal := s.launch(o, c.now)
			if refusal != nil {
				s.refused["ec2:CreateFleet "+refusal.code]++
				refusals = append(refusals, fields{
					{"launchTemplateAndOverrides", o.describe()},
					{"lifecycle", o.capacityType},
					{"errorCode", refusal.code},
					{"errorMessage", refusal.message},
				})
				break
			}
			in.dress(tags, id, c.form.text("ClientToken"))
			ids = append(ids, in.id)
			left--
		}
		if len(ids) > 0 {
			platform := ""
			if im := s.images[o.imageID]; im != nil && im.Windows {
				platform = "windows"
			}
			instances = append(instances, fields{
				{"launchTemplateAndOverrides", o.describe()},
				{"lifecycle", o.capacityType},
				{"instanceIds", ids},
				{"instanceType", o.instanceType},
				{"platform", platform},
			})
		}
	}
	return fields{{"fleetId", id}, {"errorSet", refusals}, {"fleetInstanceSet", instances}}
}

func (o *order) describe() fields {
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

// runInstances answers dry runs only: nobody launches that way here.
func runInstances(s *Sim, c *call) (any, error) {
	t := &template{data: c.form}
	if spec := c.form.at("LaunchTemplate"); len(spec.children) > 0 {
		var err error
		if t, err = s.template(spec, c.now); err != nil {
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
	o := s.order(c, t, override, capacityOnDemand)
	if err := checkTags(c.form.tagsFor("instance")); err != nil {
		return nil, err
	}
	if refusal := s.valid(o, c.now); refusal != nil && !s.opts.Beliefs.BlindDryRun {
		return nil, refusal
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	return nil, fail("UnsupportedOperation", "awssim launches by CreateFleet only")
}

// mergeInterfaces returns the network interfaces that a request with some of its own has
// with those of its template. Each needs a subnet, all in one zone, and is there once.
func (s *Sim) mergeInterfaces(template, request []*form) ([]*form, error) {
	type place struct{ card, device int }
	at := func(nic *form) place { return place{nic.number(0, "NetworkCardIndex"), nic.number(0, "DeviceIndex")} }
	var out []*form
	if !s.opts.Beliefs.ReplaceInterfaces {
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
		subnet, first := s.subnets[nic.text("SubnetId")], s.subnets[out[0].text("SubnetId")]
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
