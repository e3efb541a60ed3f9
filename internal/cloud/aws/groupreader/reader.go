// Package groupreader reads the node groups of an EKS cluster from AWS, those that EKS manages and those that
// are Auto Scaling groups alone, with their launch templates, for package nodegroup, which translates them. It
// only describes: the account needs eks:DescribeCluster, eks:ListNodegroups, eks:DescribeNodegroup,
// autoscaling:DescribeAutoScalingGroups and ec2:DescribeLaunchTemplateVersions.
//
// Read reader.go (what EKS manages, launch templates), then scaling.go (Auto Scaling groups).
package groupreader

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
)

// groupsMax bounds how many groups are read; EKS allows 100 for a cluster unless it is asked for more.
const groupsMax = 1000

// Read returns the node groups of a cluster: those that EKS manages, then the other Auto Scaling groups, both in
// the order of their names.
func Read(ctx context.Context, config aws.Config, cluster string) ([]nodegroup.Group, error) {
	r := reader{eks: eks.NewFromConfig(config), ec2: ec2.NewFromConfig(config), scaling: autoscaling.NewFromConfig(config), cluster: cluster}
	managed, err := r.readManaged(ctx)
	if err != nil {
		return nil, err
	}
	others, err := r.readScaling(ctx, managed)
	if err != nil {
		return nil, err
	}
	return append(managed, others...), nil
}

// readManaged returns the groups that EKS manages.
func (r *reader) readManaged(ctx context.Context) ([]nodegroup.Group, error) {
	cluster := r.cluster
	shown, err := r.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &cluster})
	if err != nil {
		return nil, fmt.Errorf("describe EKS cluster %s: %w", cluster, err)
	}
	if vpc := shown.Cluster.ResourcesVpcConfig; vpc != nil {
		r.securityGroup = aws.ToString(vpc.ClusterSecurityGroupId)
	}
	var names []string
	pages := eks.NewListNodegroupsPaginator(r.eks, &eks.ListNodegroupsInput{ClusterName: &cluster})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list node groups of %s: %w", cluster, err)
		}
		if names = append(names, page.Nodegroups...); len(names) > groupsMax {
			return nil, fmt.Errorf("list node groups of %s: there are more than %d", cluster, groupsMax)
		}
	}
	slices.Sort(names)
	var groups []nodegroup.Group
	for _, name := range names {
		g, err := r.group(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("node group %s: %w", name, err)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

type reader struct {
	eks           *eks.Client
	ec2           *ec2.Client
	scaling       *autoscaling.Client
	cluster       string
	securityGroup string // the cluster's own
}

func (r *reader) group(ctx context.Context, name string) (nodegroup.Group, error) {
	out, err := r.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &r.cluster, NodegroupName: &name})
	if err != nil {
		return nodegroup.Group{}, fmt.Errorf("describe it: %w", err)
	}
	ng := out.Nodegroup
	g := nodegroup.Group{
		Name: name, Source: "managed node group", Types: ng.InstanceTypes, Labels: ng.Labels, Subnets: ng.Subnets, Role: aws.ToString(ng.NodeRole),
		Spot: ng.CapacityType == ekstypes.CapacityTypesSpot, Block: ng.CapacityType == ekstypes.CapacityTypesCapacityBlock,
		AMIType: string(ng.AmiType), Release: aws.ToString(ng.ReleaseVersion), DiskGiB: int(aws.ToInt32(ng.DiskSize)),
		WarmPool: ng.WarmPoolConfig != nil, Repair: ng.NodeRepairConfig != nil && aws.ToBool(ng.NodeRepairConfig.Enabled),
	}
	if r.securityGroup != "" {
		g.SecurityGroups = []string{r.securityGroup}
	}
	if s := ng.ScalingConfig; s != nil {
		g.Min, g.Max, g.Desired = int(aws.ToInt32(s.MinSize)), int(aws.ToInt32(s.MaxSize)), int(aws.ToInt32(s.DesiredSize))
	}
	if u := ng.UpdateConfig; u != nil && u.MaxUnavailable != nil {
		g.MaxUnavailable = fmt.Sprint(*u.MaxUnavailable)
	} else if u != nil && u.MaxUnavailablePercentage != nil {
		g.MaxUnavailable = fmt.Sprintf("%d%%", *u.MaxUnavailablePercentage)
	}
	for _, t := range ng.Taints {
		g.Taints = append(g.Taints, corev1.Taint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: effect(t.Effect)})
	}
	if ng.Health != nil {
		for _, issue := range ng.Health.Issues {
			g.Health = append(g.Health, string(issue.Code)+": "+aws.ToString(issue.Message))
		}
	}
	g.AddTags(ng.Tags)
	if lt := ng.LaunchTemplate; lt != nil {
		if err := r.addTemplate(ctx, &g, templateRef{id: lt.Id, name: lt.Name, version: lt.Version}); err != nil {
			return g, err
		}
	}
	return g, nil
}

// effect returns Kubernetes' name of an effect: NoSchedule for NO_SCHEDULE.
func effect(e ekstypes.TaintEffect) corev1.TaintEffect {
	switch e {
	case ekstypes.TaintEffectNoExecute:
		return corev1.TaintEffectNoExecute
	case ekstypes.TaintEffectPreferNoSchedule:
		return corev1.TaintEffectPreferNoSchedule
	default:
		return corev1.TaintEffectNoSchedule
	}
}

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
