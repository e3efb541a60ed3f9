package groupreader

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
)

// templateRef is how a group refers to its launch template: by id or name, and version; nil: the default version.
type templateRef struct{ id, name, version *string }

func (r *reader) addTemplate(ctx context.Context, g *nodegroup.Group, ref templateRef) error {
	version := cmp.Or(aws.ToString(ref.version), "$Default")
	in := &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: ref.id, Versions: []string{version}}
	if ref.id == nil {
		in.LaunchTemplateName = ref.name
	}
	out, err := r.ec2.DescribeLaunchTemplateVersions(ctx, in)
	if err != nil {
		return fmt.Errorf("describe version %s of its launch template: %w", version, err)
	}
	if len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return fmt.Errorf("its launch template has no version %s", version)
	}
	v := &out.LaunchTemplateVersions[0]
	t, err := template(v.LaunchTemplateData)
	if err != nil {
		return fmt.Errorf("launch template %s: %w", aws.ToString(v.LaunchTemplateName), err)
	}
	t.Name, t.Version = aws.ToString(v.LaunchTemplateName), fmt.Sprint(aws.ToInt64(v.VersionNumber))
	data := v.LaunchTemplateData
	if len(g.Types) == 0 && g.Needs == nil && data.InstanceType != "" {
		g.Types = []string{string(data.InstanceType)}
	}
	if req := data.InstanceRequirements; req != nil && g.Needs == nil && len(g.Types) == 0 {
		g.Needs = needs(req)
	}
	if m := data.InstanceMarketOptions; m != nil && m.MarketType == ec2types.MarketTypeSpot {
		g.Spot = true
	}
	g.Template = t
	return nil
}

// template returns what launch template data say.
func template(d *ec2types.ResponseLaunchTemplateData) (*nodegroup.Template, error) {
	data, err := base64.StdEncoding.DecodeString(aws.ToString(d.UserData))
	if err != nil {
		return nil, fmt.Errorf("user data: %w", err)
	}
	t := &nodegroup.Template{
		ImageID: aws.ToString(d.ImageId), UserData: string(data), SecurityGroups: d.SecurityGroupIds, KeyName: aws.ToString(d.KeyName),
		Monitoring: d.Monitoring != nil && aws.ToBool(d.Monitoring.Enabled),
	}
	for i := range d.NetworkInterfaces {
		if n := &d.NetworkInterfaces[i]; i == 0 {
			t.SecurityGroups, t.PublicIP = append(t.SecurityGroups, n.Groups...), n.AssociatePublicIpAddress
		}
	}
	if p := d.IamInstanceProfile; p != nil {
		t.Profile = aws.ToString(p.Name)
		if t.Profile == "" {
			t.Profile = aws.ToString(p.Arn)
		}
	}
	if m := d.MetadataOptions; m != nil {
		t.Metadata = map[string]string{"httpTokens": string(m.HttpTokens), "httpEndpoint": string(m.HttpEndpoint), "httpProtocolIpv6": string(m.HttpProtocolIpv6)}
		if m.HttpPutResponseHopLimit != nil {
			t.Metadata["httpPutResponseHopLimit"] = fmt.Sprint(*m.HttpPutResponseHopLimit)
		}
	}
	for _, s := range d.TagSpecifications {
		for _, tag := range s.Tags {
			if s.ResourceType == ec2types.ResourceTypeInstance {
				if t.Tags == nil {
					t.Tags = map[string]string{}
				}
				t.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			}
		}
	}
	if p := d.Placement; p != nil {
		t.PlacementGroup, t.Tenancy = aws.ToString(p.GroupName), string(p.Tenancy)
	}
	if c := d.CapacityReservationSpecification; c != nil && c.CapacityReservationTarget != nil {
		t.Reservation, t.ReservationGroup = aws.ToString(c.CapacityReservationTarget.CapacityReservationId), aws.ToString(c.CapacityReservationTarget.CapacityReservationResourceGroupArn)
	}
	for _, m := range d.BlockDeviceMappings {
		if e := m.Ebs; e != nil {
			v := nodegroup.Volume{
				Device: aws.ToString(m.DeviceName), Type: string(e.VolumeType), Snapshot: aws.ToString(e.SnapshotId), Key: aws.ToString(e.KmsKeyId),
				SizeGiB: int64(aws.ToInt32(e.VolumeSize)), IOPS: int64(aws.ToInt32(e.Iops)), Throughput: int64(aws.ToInt32(e.Throughput)), Encrypted: e.Encrypted,
			}
			if e.DeleteOnTermination != nil {
				v.KeepsData = aws.Bool(!*e.DeleteOnTermination)
			}
			t.Volumes = append(t.Volumes, v)
		}
	}
	for name, set := range map[string]bool{
		"LicenseSpecifications": len(d.LicenseSpecifications) > 0, "CreditSpecification": d.CreditSpecification != nil, "HibernationOptions": d.HibernationOptions != nil,
		"CpuOptions": d.CpuOptions != nil, "EnclaveOptions": d.EnclaveOptions != nil, "PrivateDnsNameOptions": d.PrivateDnsNameOptions != nil,
	} {
		if set {
			t.Others = append(t.Others, name)
		}
	}
	slices.Sort(t.Others)
	return t, nil
}

// needs returns what instance requirements say.
func needs(r *ec2types.InstanceRequirements) *nodegroup.Needs {
	n := &nodegroup.Needs{Excluded: r.ExcludedInstanceTypes}
	if c := r.VCpuCount; c != nil {
		n.CPUMin, n.CPUMax = int(aws.ToInt32(c.Min)), int(aws.ToInt32(c.Max))
	}
	if m := r.MemoryMiB; m != nil {
		n.MemoryMinMiB, n.MemoryMaxMiB = int(aws.ToInt32(m.Min)), int(aws.ToInt32(m.Max))
	}
	for _, m := range r.CpuManufacturers {
		n.Manufacturers = append(n.Manufacturers, strings.ToLower(string(m)))
	}
	for _, g := range r.InstanceGenerations {
		n.Generations = append(n.Generations, string(g))
	}
	n.Others = rules(string(r.BareMetal), string(r.BurstablePerformance), string(r.LocalStorage))
	return n
}

// rules returns the rules that have no label here, as they are written.
func rules(bareMetal, burstable, localStorage string) (others []string) {
	for _, rule := range [][2]string{{"BareMetal", bareMetal}, {"BurstablePerformance", burstable}, {"LocalStorage", localStorage}} {
		if rule[1] != "" {
			others = append(others, rule[0]+"="+rule[1])
		}
	}
	return others
}
