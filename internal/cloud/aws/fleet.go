package aws

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// fleets asks EC2 for fleets of instances.
type fleets struct {
	opts         *Options
	clients      *clients
	cluster      *clusterInfo
	templates    *templates
	addresses    *addresses
	reservations *reservations
	shifts       *shifts
	zones        *zones
}

// draft is a fleetSpec whose launch templates exist: all of a request for a fleet but the number
// of instances.
type draft struct {
	fleetSpec *fleetSpec
	choices   []templatedChoice
	subnets   map[string]string // by zone
	tags      map[string]string
}

// draft makes the launch templates of a fleetSpec that do not exist yet.
func (f *fleets) draft(ctx context.Context, s *fleetSpec) (*draft, error) {
	d := &draft{fleetSpec: s, subnets: f.addresses.best(f.shifts.here(s.class.Status.Subnets)), tags: f.tags(s.class, s.labels[label.NodePool])}
	places := placesOf(s.choices)
	s.choices = slices.DeleteFunc(s.choices, func(o catalog.Choice) bool { return d.subnets[o.Offering.Zone] == "" })
	if len(s.choices) == 0 {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Short: places, Message: "node class " + s.class.Name + " has no subnet with free addresses in the zones of the offerings, zonal shifts considered"}
	}
	var err error
	if s.dns, err = f.cluster.dns(ctx); err != nil {
		return nil, err
	}
	d.choices, err = f.templates.ensure(ctx, s, d.tags)
	if err != nil {
		return nil, err
	}
	kept := make([]catalog.Choice, 0, len(d.choices))
	for _, o := range d.choices {
		kept = append(kept, o.Choice)
	}
	if why := s.rules.unmet(kept); why != "" {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: reasonMinValues, Message: why}
	}
	return d, nil
}

// tags are those of everything that is made for a class and pool.
func (f *fleets) tags(class *awsv1.EC2NodeClass, pool string) map[string]string {
	tags := map[string]string{}
	for key, value := range class.Spec.Tags {
		tags[key] = value
	}
	tags[awsv1.TagClusterPrefix+f.opts.ClusterName] = awsv1.TagClusterOwned
	tags[awsv1.TagEKSClusterName] = f.opts.ClusterName
	tags[awsv1.TagNodePool] = pool
	tags[awsv1.TagNodeClass] = class.Name
	return tags
}

// placesOf returns where the choices are.
func placesOf(choices []catalog.Choice) []catalog.Place {
	var places []catalog.Place
	for _, c := range choices {
		places = append(places, catalog.Place{Type: c.Type.Name, Zone: c.Offering.Zone, CapacityType: c.Offering.CapacityType, Reservation: c.Offering.Reservation})
	}
	return places
}

// request returns a request for a fleet, to be sealed when its members are known.
func (d *draft) request() fleetRequest {
	s := d.fleetSpec
	instance := map[string]string{}
	for key, value := range d.tags {
		instance[key] = value
	}
	if hash := s.class.Annotations[awsv1.AnnotationHash]; hash != "" {
		instance[awsv1.AnnotationHash], instance[awsv1.AnnotationHashVersion] = hash, s.class.Annotations[awsv1.AnnotationHashVersion]
	}
	efaOnly := slices.ContainsFunc(s.class.Spec.NetworkInterfaces, func(i awsv1.NetworkInterface) bool { return i.InterfaceType == awsv1.InterfaceTypeEFAOnly })
	o := fleetRequest{
		EFA: s.efa || efaOnly, CapacityType: s.capacityType, Tenancy: s.tenancy, Partition: s.partition,
		Reservations: map[string]string{}, Addresses: map[string]int{},
	}
	o.Input = &ec2.CreateFleetInput{
		Type:                        types.FleetTypeInstant,
		Context:                     s.class.Spec.Context,
		LaunchTemplateConfigs:       d.configs(&o),
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{DefaultTargetCapacityType: s.targetType()},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: tagList(instance)},
			{ResourceType: types.ResourceTypeVolume, Tags: tagList(d.tags)},
			{ResourceType: types.ResourceTypeFleet, Tags: tagList(d.tags)},
		},
	}
	switch o.Input.TargetCapacitySpecification.DefaultTargetCapacityType {
	case types.DefaultTargetCapacityTypeSpot:
		o.Input.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
		if s.repriced {
			o.Input.SpotOptions.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
	case types.DefaultTargetCapacityTypeOnDemand: // the core has ranked the offerings
		o.Input.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized}
	case types.DefaultTargetCapacityTypeReservedCapacity:
		o.Input.ReservedCapacityOptions = &types.ReservedCapacityOptionsRequest{ReservationTypes: []types.FleetReservationType{types.FleetReservationTypeInterruptibleCapacityReservation}}
	case types.DefaultTargetCapacityTypeCapacityBlock:
	}
	return o
}

// configs returns the offerings by launch template. Equal costs have equal priority, so that
// EC2 chooses among them.
func (d *draft) configs(o *fleetRequest) []types.FleetLaunchTemplateConfigRequest {
	var out []types.FleetLaunchTemplateConfigRequest
	at := map[string]int{}
	priority := 0.0
	for i, choice := range d.choices {
		if i > 0 && choice.Offering.Cost() != d.choices[i-1].Offering.Cost() {
			priority++
		}
		name := choice.template
		if _, ok := at[name]; !ok {
			at[name] = len(out)
			out = append(out, types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: aws.String(name), Version: aws.String("$Latest"),
			}})
		}
		c := &out[at[name]]
		c.Overrides = append(c.Overrides, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(choice.Type.Name), AvailabilityZone: aws.String(choice.Offering.Zone),
			SubnetId: aws.String(d.subnets[choice.Offering.Zone]), ImageId: aws.String(choice.image), Priority: aws.Float64(priority),
		})
		o.Addresses[choice.Type.Name] = d.fleetSpec.addresses(choice.Type)
		o.Group = choice.Offering.Group
		if choice.Offering.Reservation != "" {
			o.Reservations[choice.Type.Name+"/"+choice.Offering.Zone] = choice.Offering.Reservation
		}
	}
	return out
}

// send sends a request to EC2, once: only the ledger repeats requests.
func (f *fleets) send(ctx context.Context, o *fleetRequest, doubtful bool) (outcome, error) {
	out, err := f.clients.EC2.CreateFleet(ctx, o.Input, func(opts *ec2.Options) { opts.Retryer = aws.NopRetryer{} })
	if err != nil {
		f.countRefusals(o, []refusal{{Code: errorCode(err), Message: err.Error()}})
		return answerError(o, err, doubtful)
	}
	v := outcome{instances: launched(o, out)}
	for i := range v.instances {
		f.addresses.take(v.instances[i].SubnetID, max(1, o.Addresses[v.instances[i].Type]))
		f.reservations.take(v.instances[i].Reservation)
	}
	all := refusals(out) // an answer with all instances may have some, too
	f.countRefusals(o, all)
	for _, r := range all {
		switch {
		case r.Code == codeNoAddresses && r.Subnet != "":
			f.addresses.exhausted(r.Subnet)
		case r.Code == codeReservedFull:
			f.reservations.learn(o.Reservations[r.Type+"/"+r.Zone], 0)
		}
	}
	v.short, v.keep = shortages(o, all)
	if len(v.instances) < len(o.Members) {
		v.failure = failureOf(o, all)
	}
	return v, nil
}

// countRefusals counts the refusals in EC2's answer.
func (f *fleets) countRefusals(o *fleetRequest, all []refusal) {
	for _, r := range all {
		f.opts.Meter.LaunchFailed(r.Zone, f.zones.id(r.Zone), o.CapacityType, reasonOf(r.Code, r.Message))
	}
}
