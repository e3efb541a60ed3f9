package aws

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// launchTag is the tag on every instance with the name of its batch.
const launchTag = awsv1.AnnotationLaunch

// member is one request of a batch.
type member struct {
	Token, Claim string
}

// fleetRequest is the request for a fleet that a batch sends to EC2.
type fleetRequest struct {
	ClientToken string
	Begun       time.Time
	Members     []member
	// CapacityType, Tenancy and Partition of the instances; Reservations by type and zone, of
	// capacity type reserved.
	CapacityType, Tenancy, Partition string
	// Group is the placement group; empty: none.
	Group string
	// EFA: the instances have the interfaces that pods may ask for.
	EFA          bool
	Reservations map[string]string
	// Addresses is how many an instance takes of its subnet, by type.
	Addresses map[string]int
	// Input is nil in a batch of another process.
	Input *ec2.CreateFleetInput
}

// places returns the offerings that a request may be filled from.
func (o *fleetRequest) places() []catalog.Place {
	var all []catalog.Place
	for _, c := range o.Input.LaunchTemplateConfigs {
		for _, over := range c.Overrides {
			p := catalog.Place{Type: string(over.InstanceType), Zone: aws.ToString(over.AvailabilityZone), CapacityType: o.CapacityType}
			p.Reservation = o.Reservations[p.Type+"/"+p.Zone]
			all = append(all, p)
		}
	}
	return all
}

// isForReservations reports whether a request is for capacity blocks or interruptible
// reservations. EC2 may refuse such a fleet altogether: it is not documented that CreateFleet
// launches from them.
func (o *fleetRequest) isForReservations() bool {
	target := o.Input.TargetCapacitySpecification
	if target == nil {
		return false
	}
	kind := target.DefaultTargetCapacityType
	return kind == types.DefaultTargetCapacityTypeCapacityBlock || kind == types.DefaultTargetCapacityTypeReservedCapacity
}

// seal makes a request ready to be sent for the members that it has.
func (o *fleetRequest) seal(batch string) {
	o.Input.ClientToken = aws.String(o.ClientToken)
	o.Input.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(int32(len(o.Members))) //nolint:gosec // at most batchMost
	for i := range o.Input.TagSpecifications {
		s := &o.Input.TagSpecifications[i]
		if s.ResourceType != types.ResourceTypeInstance {
			continue
		}
		s.Tags = append(s.Tags, types.Tag{Key: aws.String(launchTag), Value: aws.String(batch)})
		if len(o.Members) == 1 { // else each instance gets the tag of its claim when it runs
			s.Tags = append(s.Tags, nodeClaimTag(o.Members[0].Claim))
		}
	}
}

// outcome is EC2's definite answer to a request: the instances, and the failure for the members
// that get none.
type outcome struct {
	instances []ec2Instance
	failure   error
	// short are the offerings that had no capacity, and keep for how long to avoid them.
	short []catalog.Place
	keep  time.Duration
}

// launched returns the instances in the answer to a request, sorted by id: the order is the same
// if the same answer comes again.
func launched(o *fleetRequest, out *ec2.CreateFleetOutput) []ec2Instance {
	tags := map[string]string{}
	for _, s := range o.Input.TagSpecifications {
		if s.ResourceType == types.ResourceTypeInstance {
			tags = tagsOf(s.Tags)
		}
	}
	var all []ec2Instance
	for i := range out.Instances {
		got := &out.Instances[i]
		m := ec2Instance{
			Type: string(got.InstanceType), CapacityType: o.CapacityType, Tenancy: o.Tenancy, Partition: o.Partition, EFA: o.EFA, Tags: tags, Created: o.Begun,
			Zone: aws.ToString(got.AvailabilityZone), SubnetID: aws.ToString(got.SubnetId),
		}
		if from := got.LaunchTemplateAndOverrides; from != nil && from.Overrides != nil {
			m.ImageID = aws.ToString(from.Overrides.ImageId)
			m.SubnetID = cmp.Or(m.SubnetID, aws.ToString(from.Overrides.SubnetId))
			m.Zone = cmp.Or(m.Zone, aws.ToString(from.Overrides.AvailabilityZone))
		}
		m.Reservation = o.Reservations[m.Type+"/"+m.Zone]
		for _, id := range got.InstanceIds {
			m.ID = id
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b ec2Instance) int { return strings.Compare(a.ID, b.ID) })
	return all
}
