package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// data returns the content of a launch template.
func (t *templates) data(ctx context.Context, s *fleetSpec, c *instance.Class, v *variant, tags map[string]string) (*types.RequestLaunchTemplateData, error) {
	text, err := t.userData.make(ctx, s, v.image, &v.settings)
	if err != nil {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("node class %s: user data: %v", s.class.Name, err)}
	}
	t.opts.Meter.UserData(s.class.Name, len(text))
	if len(text) > userDataMost {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "UserDataSizeLimitExceeded", Message: fmt.Sprintf("node class %s: user data has %d bytes; EC2 takes %d", s.class.Name, len(text), userDataMost)}
	}
	spec := &s.class.Spec
	data := &types.RequestLaunchTemplateData{
		ImageId: aws.String(v.image), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(text))),
		IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(s.class.Status.InstanceProfile)},
		Monitoring:          &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(aws.ToBool(spec.DetailedMonitoring))},
		BlockDeviceMappings: volumes(spec), MetadataOptions: metadata(spec.MetadataOptions), NetworkInterfaces: interfaces(s, v.efas),
		Placement:         &types.LaunchTemplatePlacementRequest{Tenancy: types.Tenancy(s.tenancy)},
		EnclaveOptions:    &types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(spec.EnclaveOptions != nil && spec.EnclaveOptions.Enabled)},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: tagList(tags)}},
	}
	if s.capacityType == label.Spot {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: tagList(tags)})
	}
	if spec.CPUOptions != nil {
		data.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(aws.ToString(spec.CPUOptions.NestedVirtualization))}
	}
	if c.Group != nil {
		data.Placement.GroupId = aws.String(c.Group.ID)
		var partition int32
		if _, err := fmt.Sscan(s.partition, &partition); err == nil {
			data.Placement.PartitionNumber = aws.Int32(partition)
		}
	}
	if t.opts.Reservations {
		reserve(data, s, v.reservation)
	}
	return data, nil
}

// reserve says which capacity reservation instances use: the one of their offering, or none, so
// that other instances do not use up open reservations.
func reserve(data *types.RequestLaunchTemplateData, s *fleetSpec, reservation string) {
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	if reservation == "" {
		return
	}
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: aws.String(reservation)},
	}
	switch s.targetType() {
	case types.DefaultTargetCapacityTypeCapacityBlock:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
	case types.DefaultTargetCapacityTypeReservedCapacity:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeInterruptibleCapacityReservation}
	case types.DefaultTargetCapacityTypeOnDemand, types.DefaultTargetCapacityTypeSpot:
	}
}

// volumes returns the volumes of a class, or those of its family.
func volumes(spec *awsv1.EC2NodeClassSpec) []types.LaunchTemplateBlockDeviceMappingRequest {
	list := spec.BlockDeviceMappings
	if len(list) == 0 {
		list = family.Of(spec).Volumes
	}
	var out []types.LaunchTemplateBlockDeviceMappingRequest
	for i := range list {
		v := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: list[i].DeviceName}
		if e := list[i].EBS; e != nil {
			v.Ebs = &types.LaunchTemplateEbsBlockDeviceRequest{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, KmsKeyId: e.KMSKeyID, SnapshotId: e.SnapshotID,
				Iops: positive(e.IOPS), Throughput: positive(e.Throughput), VolumeInitializationRate: e.VolumeInitializationRate,
				VolumeType: types.VolumeType(aws.ToString(e.VolumeType)),
			}
			if e.VolumeSize != nil {
				const gibibyte = 1 << 30
				v.Ebs.VolumeSize = aws.Int32(int32(min(math.MaxInt32, math.Ceil(float64(translate.Amount(corev1.ResourceEphemeralStorage, *e.VolumeSize))/gibibyte))))
			}
		}
		out = append(out, v)
	}
	return out
}

// positive returns the number as EC2 takes it; nil: there is none.
func positive(n *int64) *int32 {
	if n == nil || *n <= 0 {
		return nil
	}
	return aws.Int32(int32(min(*n, math.MaxInt32)))
}

// metadata returns how the instance metadata service answers; where a class does not say,
// it takes tokens alone, and pods without the host's network get none.
func metadata(m *awsv1.MetadataOptions) *types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint: types.LaunchTemplateInstanceMetadataEndpointStateEnabled, HttpTokens: types.LaunchTemplateHttpTokensStateRequired,
		HttpPutResponseHopLimit: aws.Int32(1), InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if m == nil {
		return out
	}
	if m.HTTPEndpoint != nil {
		out.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointState(*m.HTTPEndpoint)
	}
	if m.HTTPTokens != nil {
		out.HttpTokens = types.LaunchTemplateHttpTokensState(*m.HTTPTokens)
	}
	if m.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = positive(m.HTTPPutResponseHopLimit)
	}
	if ipv6 := aws.ToString(m.HTTPProtocolIPv6); ipv6 == "enabled" { // regions without it refuse the word
		out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6Enabled
	}
	return out
}

// interfaces returns the network interfaces: those of the class, one for each EFA that
// the type has if pods ask for them, or one.
func interfaces(s *fleetSpec, efas int) []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, i := range s.class.Spec.NetworkInterfaces {
		out = append(out, networkInterface(s, i.NetworkCardIndex, i.DeviceIndex, i.InterfaceType))
	}
	if len(out) > 0 {
		return out
	}
	for card := range int32(efas) { //nolint:gosec // an instance has few
		out = append(out, networkInterface(s, card, min(card, 1), "efa"))
	}
	if len(out) == 0 {
		out = append(out, networkInterface(s, 0, 0, ""))
	}
	return out
}

func networkInterface(s *fleetSpec, card, device int32, kind string) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	spec := &s.class.Spec
	out := types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: aws.Int32(device)}
	if kind != "" {
		out.NetworkCardIndex, out.InterfaceType = aws.Int32(card), aws.String(kind)
	}
	for _, g := range s.class.Status.SecurityGroups {
		out.Groups = append(out.Groups, g.ID)
	}
	if kind == awsv1.InterfaceTypeEFAOnly { // it has no address
		return out
	}
	out.AssociatePublicIpAddress = spec.AssociatePublicIPAddress
	if s.isIPv6() {
		out.PrimaryIpv6, out.Ipv6AddressCount, out.Ipv6PrefixCount = aws.Bool(true), aws.Int32(1), spec.IPPrefixCount
	} else {
		out.Ipv4PrefixCount = spec.IPPrefixCount
	}
	if t := spec.ConnectionTracking; t != nil {
		out.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{
			TcpEstablishedTimeout: t.TCPEstablishedTimeout, UdpStreamTimeout: t.UDPStreamTimeout, UdpTimeout: t.UDPTimeout,
		}
	}
	return out
}
