// Package groupreader reads the node groups of an EKS cluster from AWS, those that EKS manages and those that
// are Auto Scaling groups alone, with their launch templates, for package nodegroup, which translates them. It
// only describes: the account needs eks:DescribeCluster, eks:ListNodegroups, eks:DescribeNodegroup,
// autoscaling:DescribeAutoScalingGroups and ec2:DescribeLaunchTemplateVersions.
//
// Read reader.go (what EKS manages) and scaling.go (Auto Scaling groups), then template.go (launch templates);
// clients.go has what they read with.
package groupreader

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
)

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
