package aws

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// ec2Instance is what we keep of an instance.
type ec2Instance struct {
	ID, Type, Zone, CapacityType, Tenancy string
	ImageID, SubnetID                     string
	Profile                               string // name of the instance profile; empty: not known
	Reservation, PlacementGroup           string // that it takes up, and is in; empty: none
	Partition                             string // of the placement group; empty: none
	SecurityGroups                        []string
	// Claim and Token it was launched for; empty if unknown.
	Claim, Token string
	Tags         map[string]string
	DNSName      string
	Created      time.Time
	// EFA: it has the interfaces that pods may ask for.
	EFA bool
	// Going: on its way out. Ended: gone, or all but.
	Going, Ended bool
}

// ProviderID is that of its Node.
func (m *ec2Instance) ProviderID() string { return "aws:///" + m.Zone + "/" + m.ID }

var providerID = regexp.MustCompile(`^aws:///[^/]+/(i-[0-9a-f]+)$`)

// instanceID returns the EC2 id in a providerID.
func instanceID(id string) (string, bool) {
	found := providerID.FindStringSubmatch(id)
	if found == nil {
		return "", false
	}
	return found[1], true
}

// Owns reports whether an instance ID has the form of EC2's.
func (*Provider) Owns(id string) bool {
	_, valid := instanceID(id)
	return valid
}

// described returns the instance that EC2 describes.
func described(i *types.Instance) ec2Instance {
	m := ec2Instance{
		ID: aws.ToString(i.InstanceId), Type: string(i.InstanceType), CapacityType: label.OnDemand,
		ImageID: aws.ToString(i.ImageId), SubnetID: aws.ToString(i.SubnetId), DNSName: aws.ToString(i.PrivateDnsName),
		Tags: tagsOf(i.Tags), Created: aws.ToTime(i.LaunchTime),
	}
	m.Claim = m.Tags[awsv1.TagNodeClaim]
	if i.IamInstanceProfile != nil {
		arn := aws.ToString(i.IamInstanceProfile.Arn)
		m.Profile = arn[strings.LastIndex(arn, "/")+1:]
	}
	if i.Placement != nil {
		m.PlacementGroup = aws.ToString(i.Placement.GroupId)
		if n := aws.ToInt32(i.Placement.PartitionNumber); n > 0 {
			m.Partition = strconv.Itoa(int(n))
		}
		m.Zone, m.Tenancy = aws.ToString(i.Placement.AvailabilityZone), string(i.Placement.Tenancy)
	}
	reserved := i.CapacityReservationSpecification != nil &&
		i.CapacityReservationSpecification.CapacityReservationPreference == types.CapacityReservationPreferenceCapacityReservationsOnly
	switch {
	case i.CapacityReservationId != nil && reserved:
		m.CapacityType, m.Reservation = label.Reserved, *i.CapacityReservationId
	case i.InstanceLifecycle == types.InstanceLifecycleTypeSpot:
		m.CapacityType = label.Spot
	}
	for _, group := range i.SecurityGroups {
		m.SecurityGroups = append(m.SecurityGroups, aws.ToString(group.GroupId))
	}
	slices.Sort(m.SecurityGroups)
	m.EFA = slices.ContainsFunc(i.NetworkInterfaces, func(n types.InstanceNetworkInterface) bool {
		return strings.HasPrefix(aws.ToString(n.InterfaceType), "efa")
	})
	if i.State != nil {
		m.Ended = i.State.Name == types.InstanceStateNameTerminated
		m.Going = m.Ended || i.State.Name == types.InstanceStateNameShuttingDown
	}
	return m
}

// instanceOf returns an instance as the core sees it. Capacity comes from its type among the
// class's types; if the type is not there, only what EC2 says is known.
func instanceOf(m *ec2Instance, of []*catalog.Type) cloud.Instance {
	out := cloud.Instance{
		ID: m.ProviderID(), Token: m.Token, Claim: m.Claim, ImageID: m.ImageID, Created: m.Created, Terminating: m.Going,
		Labels: map[string]string{
			label.InstanceType: m.Type, label.Zone: m.Zone, label.CapacityType: m.CapacityType,
			awsv1.LabelInstanceTenancy: cmp.Or(m.Tenancy, awsv1.TenancyDefault),
		},
		Annotations: map[string]string{},
	}
	if pool := m.Tags[awsv1.TagNodePool]; pool != "" {
		out.Labels[label.NodePool] = pool
	}
	if hash := m.Tags[awsv1.AnnotationHash]; hash != "" {
		out.Annotations[awsv1.AnnotationHash], out.Annotations[awsv1.AnnotationHashVersion] = hash, m.Tags[awsv1.AnnotationHashVersion]
	}
	at := slices.IndexFunc(of, func(t *catalog.Type) bool { return t.Name == m.Type })
	if at < 0 {
		return out
	}
	t := of[at]
	out.Capacity, out.Allocatable = t.Capacity, t.Allocatable()
	if _, could := t.Capacity[awsv1.ResourceEFA]; could && !m.EFA {
		out.Capacity = maps.Clone(t.Capacity)
		delete(out.Capacity, awsv1.ResourceEFA)
		delete(out.Allocatable, awsv1.ResourceEFA)
	}
	decided := func(key string) bool {
		return slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.Decides(key) })
	}
	for key, requirement := range t.Requirements {
		if value, ok := requirement.Only(); ok && out.Labels[key] == "" && !decided(key) {
			out.Labels[key] = value
		}
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		in := o.Labels[awsv1.LabelPlacementGroupPartition] == m.Partition
		if o.Zone == m.Zone && o.CapacityType == m.CapacityType && o.Reservation == m.Reservation && in {
			maps.Copy(out.Labels, o.Labels)
		}
	}
	return out
}
