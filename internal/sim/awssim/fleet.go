package awssim

import (
	"cmp"
	"errors"
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

// fleets launches instances.
type fleets struct {
	base         *base
	network      *network
	images       *images
	iam          *iam
	templates    *templates
	pools        *pools
	prices       *prices
	reservations *reservations
	placements   *placements
	instances    *instances

	answered map[string]*answered // by client token
}

// answered is a fleet request that has been answered.
type answered struct {
	request string
	answer  fields
}

func (s *fleets) createFleet(c *call) (any, error) {
	f := c.form
	if kind := f.text("Type"); kind != "instant" {
		return nil, fail("InvalidParameterValue", "awssim launches fleets of type instant only, not %q", kind)
	}
	if most := cmp.Or(s.base.opts.Beliefs.FleetBodyMax, fleetBodyMax); c.size > most {
		return nil, fail("InvalidInput", "The request body is too large: %d bytes, at most %d", c.size, most)
	}
	if kind := f.text("TargetCapacitySpecification", "DefaultTargetCapacityType"); s.base.opts.Beliefs.NoReservedFleets && (kind == "capacity-block" || kind == "reserved-capacity") {
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
	options, err := s.options(c)
	if err != nil {
		return nil, err
	}
	if err := dryRun(c); err != nil {
		return nil, err
	}
	token, request := f.text("ClientToken"), f.String()
	if old := s.answered[token]; old != nil && token != "" {
		return s.repeated(c, old, options, total)
	}
	out := s.launchFleet(c, options, total)
	if token != "" {
		s.answered[token] = &answered{request, out}
		s.base.at(c.now.Add(cmp.Or(s.base.opts.Beliefs.TokenKept, answersKept)), func(time.Time) { delete(s.answered, token) })
	}
	return out, nil
}

// options reads all ways in which the fleet may be launched, the best first.
func (s *fleets) options(c *call) ([]*launchOption, error) {
	configs := c.form.list("LaunchTemplateConfigs")
	if len(configs) == 0 {
		return nil, fail("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
	}
	capacityType := cmp.Or(c.form.text("TargetCapacitySpecification", "DefaultTargetCapacityType"), capacityOnDemand)
	var options []*launchOption
	for _, config := range configs {
		spec := config.at("LaunchTemplateSpecification")
		t, err := s.templates.template(spec, c.now)
		var missing *apiError
		if errors.As(err, &missing) && s.base.opts.Beliefs.TemplateErrorInside {
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
			option := s.option(c, t, o, capacityType)
			option.missing = missing
			options = append(options, option)
		}
	}
	if s.base.opts.Beliefs.EqualByCapacity {
		slices.SortStableFunc(options, func(a, b *launchOption) int { return cmp.Compare(b.left, a.left) })
	}
	sortOptions(options, c.form, capacityType)
	return options, nil
}

func (s *fleets) option(c *call, t *template, override *form, capacityType string) *launchOption {
	o := &launchOption{
		template: t, override: override, capacityType: capacityType,
		instanceType: cmp.Or(override.text("InstanceType"), t.data.text("InstanceType")),
		imageID:      cmp.Or(override.text("ImageId"), t.data.text("ImageId")),
		zone:         override.text("AvailabilityZone"),
		priority:     math.MaxFloat64, price: math.MaxFloat64, left: math.MaxInt,
	}
	o.typ = s.base.types.byName[o.instanceType]
	if o.subnet = s.network.subnets[override.text("SubnetId")]; o.subnet != nil && o.zone == "" {
		o.zone = o.subnet.Zone
	}
	if p, err := strconv.ParseFloat(override.text("Priority"), 64); err == nil {
		o.priority = p
	}
	if o.typ == nil || o.subnet == nil {
		return o
	}
	o.price = o.typ.onDemand
	if capacityType == capacitySpot {
		o.price = math.MaxFloat64
		if p, _, ok := s.prices.spot.price(s.base.opts.Seed, o.typ, o.subnet.zoneID, c.now); ok {
			o.price = p
		}
	}
	o.left = s.pools.capacityLeft(poolKey{capacityType, o.instanceType, o.zone}, c.now)
	return o
}

// launchFleet launches what it can and reports which override failed with what.
func (s *fleets) launchFleet(c *call, options []*launchOption, total int) fields {
	id := s.base.id("fleet")
	tags := c.form.tagsFor("instance")
	var instances, refusals list
	left := total
	for _, o := range options {
		if left == 0 {
			break
		}
		var ids list
		for left > 0 {
			in, refusal := s.launch(o, c.now)
			if refusal != nil {
				s.base.refused["ec2:CreateFleet "+refusal.code]++
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
			if im := s.images.byID[o.imageID]; im != nil && im.Windows {
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

// repeated answers a CreateFleet whose client token was seen before.
func (s *fleets) repeated(c *call, old *answered, options []*launchOption, total int) (any, error) {
	mismatch := fail("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	switch s.base.opts.Beliefs.RepeatedToken {
	case RepeatOthers:
		return s.launchFleet(c, options, total), nil
	case RepeatNothing:
		return fields{old.answer[0], {"errorSet", list(nil)}, {"fleetInstanceSet", list(nil)}}, nil
	case RepeatMismatch:
		return nil, mismatch
	case RepeatRefused:
		return nil, fail("IdempotentInstanceTerminated", "The client token was used before.")
	}
	if old.request != c.form.String() {
		return nil, mismatch
	}
	if s.base.opts.Beliefs.RefusalsForgotten {
		return fields{old.answer[0], {"errorSet", list(nil)}, old.answer[2]}, nil
	}
	return old.answer, nil
}
