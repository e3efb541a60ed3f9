package groupreader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
)

const (
	// managedTag is on the Auto Scaling groups that EKS made for a managed node group, with its name.
	managedTag = "eks:nodegroup-name"
	// eksctlTag and kopsTag are on those that these tools made, with the name that Nodes have as a label.
	eksctlTag, kopsTag = "alpha.eksctl.io/nodegroup-name", "kops.k8s.io/instancegroup"
)

// readScaling adds what EC2 Auto Scaling says of the groups that EKS manages, and returns the groups that it
// does not, in the order of their names. A group is of the cluster if it has one of the tags that make
// Cluster Autoscaler find it, or its instances join the cluster.
func (r *reader) readScaling(ctx context.Context, managed []nodegroup.Group) ([]nodegroup.Group, error) {
	in := &autoscaling.DescribeAutoScalingGroupsInput{Filters: []scalingtypes.Filter{{
		Name: aws.String("tag-key"), Values: []string{"k8s.io/cluster-autoscaler/" + r.cluster, "kubernetes.io/cluster/" + r.cluster},
	}}}
	names := map[string]bool{}
	for i := range managed {
		names[managed[i].Name] = true
	}
	var groups []nodegroup.Group
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.scaling, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe Auto Scaling groups of %s: %w", r.cluster, err)
		}
		for i := range page.AutoScalingGroups {
			found := &page.AutoScalingGroups[i]
			if of := tagOf(found, managedTag); of != "" {
				addToManaged(managed, of, found)
				continue
			}
			g, err := r.scalingGroup(ctx, found)
			if err != nil {
				return nil, fmt.Errorf("read Auto Scaling group %s: %w", aws.ToString(found.AutoScalingGroupName), err)
			}
			if names[g.Name] {
				g.Name = g.ScalingGroup
			}
			names[g.Name] = true
			if groups = append(groups, g); len(groups) > groupsMax {
				return nil, fmt.Errorf("describe Auto Scaling groups of %s: there are more than %d", r.cluster, groupsMax)
			}
		}
	}
	slices.SortFunc(groups, func(a, b nodegroup.Group) int { return cmp.Compare(a.Name, b.Name) })
	return groups, nil
}

// addToManaged adds what EKS does not say: tags for Cluster Autoscaler, suspended processes and instances.
func addToManaged(managed []nodegroup.Group, name string, found *scalingtypes.AutoScalingGroup) {
	if i := slices.IndexFunc(managed, func(g nodegroup.Group) bool { return g.Name == name }); i >= 0 {
		addScaling(&managed[i], found)
	}
}

func addScaling(g *nodegroup.Group, found *scalingtypes.AutoScalingGroup) {
	g.ScalingGroup = aws.ToString(found.AutoScalingGroupName)
	tags := map[string]string{}
	for _, t := range found.Tags {
		switch key := aws.ToString(t.Key); key {
		case eksctlTag, kopsTag, "alpha.eksctl.io/nodegroup-type", "alpha.eksctl.io/eksctl-version", "alpha.eksctl.io/cluster-name", "KubernetesCluster":
		default:
			tags[key] = aws.ToString(t.Value)
		}
	}
	g.AddTags(tags)
	for _, p := range found.SuspendedProcesses {
		g.Suspended = append(g.Suspended, aws.ToString(p.ProcessName))
	}
	slices.Sort(g.Suspended)
	for _, instance := range found.Instances {
		g.Instances = append(g.Instances, aws.ToString(instance.InstanceId))
	}
	slices.Sort(g.Instances)
}

func tagOf(found *scalingtypes.AutoScalingGroup, key string) string {
	for _, t := range found.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// scalingGroup returns a group that EKS does not manage.
func (r *reader) scalingGroup(ctx context.Context, found *scalingtypes.AutoScalingGroup) (nodegroup.Group, error) {
	g := nodegroup.Group{
		Name: cmp.Or(tagOf(found, eksctlTag), tagOf(found, kopsTag), aws.ToString(found.AutoScalingGroupName)), Source: "Auto Scaling group",
		Min: int(aws.ToInt32(found.MinSize)), Max: int(aws.ToInt32(found.MaxSize)), Desired: int(aws.ToInt32(found.DesiredCapacity)),
		WarmPool: found.WarmPoolConfiguration != nil,
	}
	if ids := aws.ToString(found.VPCZoneIdentifier); ids != "" {
		for id := range strings.SplitSeq(ids, ",") {
			g.Subnets = append(g.Subnets, strings.TrimSpace(id))
		}
		slices.Sort(g.Subnets)
	}
	addScaling(&g, found)
	template := found.LaunchTemplate
	if mix := found.MixedInstancesPolicy; mix != nil {
		if mix.LaunchTemplate != nil {
			template = mix.LaunchTemplate.LaunchTemplateSpecification
			addOverrides(&g, mix.LaunchTemplate.Overrides)
		}
		addDistribution(&g, mix.InstancesDistribution)
	}
	if template == nil {
		g.Unread = append(g.Unread, "it has a launch configuration ("+aws.ToString(found.LaunchConfigurationName)+"), which is not read: give it a launch template, or fill in image, role, security groups and user data")
		return g, nil
	}
	return g, r.addTemplate(ctx, &g, templateRef{id: template.LaunchTemplateId, name: template.LaunchTemplateName, version: template.Version})
}

// addOverrides adds the instance types of a mix.
func addOverrides(g *nodegroup.Group, overrides []scalingtypes.LaunchTemplateOverrides) {
	for i := range overrides {
		o := &overrides[i]
		if name := aws.ToString(o.InstanceType); name != "" {
			g.Types = append(g.Types, name)
		}
		g.Weighted = g.Weighted || o.WeightedCapacity != nil
		if o.InstanceRequirements != nil && g.Needs == nil {
			g.Needs = scalingNeeds(o.InstanceRequirements)
		} else if o.InstanceRequirements != nil {
			g.Needs.Others = append(g.Needs.Others, "of a second override")
		}
		if o.LaunchTemplateSpecification != nil {
			g.Unread = append(g.Unread, "override "+aws.ToString(o.InstanceType)+" has a launch template of its own, which is not read")
		}
	}
}

// addDistribution adds the mix of capacity types. Without one all instances are on demand, which is EC2's default.
func addDistribution(g *nodegroup.Group, d *scalingtypes.InstancesDistribution) {
	if d == nil {
		return
	}
	percent := 100
	if d.OnDemandPercentageAboveBaseCapacity != nil {
		percent = int(*d.OnDemandPercentageAboveBaseCapacity)
	}
	base := int(aws.ToInt32(d.OnDemandBaseCapacity))
	switch {
	case percent >= 100:
		return
	case percent == 0 && base == 0:
		g.Spot = true
	default:
		g.Share = &nodegroup.Share{OnDemandBase: base, OnDemandPercent: percent, SpotStrategy: aws.ToString(d.SpotAllocationStrategy)}
	}
	g.SpotPriceMax = aws.ToString(d.SpotMaxPrice)
}

// scalingNeeds is needs, in the words of EC2 Auto Scaling.
func scalingNeeds(r *scalingtypes.InstanceRequirements) *nodegroup.Needs {
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
