package groupreader_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/groupreader"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

func tag(key, value string) any { return map[string]any{"Key": key, "Value": value} }

// TestReadScalingGroups: what EC2 Auto Scaling says of a group with a mixed instances policy arrives, and so do its
// launch template, and the tags of the group that EKS made for a managed one. Groups of other clusters do not.
func TestReadScalingGroups(t *testing.T) {
	t.Parallel()
	mix := map[string]any{
		"LaunchTemplate": map[string]any{
			"LaunchTemplateSpecification": map[string]any{"LaunchTemplateName": "workers", "Version": "$Latest"},
			"Overrides":                   []any{map[string]any{"InstanceType": "m5.large", "WeightedCapacity": "1"}, map[string]any{"InstanceType": "m6i.large"}},
		},
		"InstancesDistribution": map[string]any{"OnDemandBaseCapacity": 1, "OnDemandPercentageAboveBaseCapacity": 20, "SpotAllocationStrategy": "capacity-optimized", "SpotMaxPrice": "0.05"},
	}
	config := accountOf(t, awssim.Options{NodeGroups: []awssim.NodeGroup{{Name: "web", Fields: map[string]any{"labels": map[string]any{"team": "web"}}}}, ScalingGroups: []awssim.ScalingGroup{
		{Name: "eks-web-1", Fields: map[string]any{
			"Tags":      []any{tag("eks:nodegroup-name", "web"), tag("k8s.io/cluster-autoscaler/demo", "owned"), tag("k8s.io/cluster-autoscaler/node-template/label/disk", "ssd")},
			"Instances": []any{map[string]any{"InstanceId": "i-9"}}, "SuspendedProcesses": []any{map[string]any{"ProcessName": "AZRebalance"}},
		}},
		{Name: "other", Fields: map[string]any{"Tags": []any{tag("k8s.io/cluster-autoscaler/prod", "owned")}}},
		{Name: "eksctl-demo-nodegroup-workers-NodeGroup-1", Fields: map[string]any{
			"MinSize": 1, "MaxSize": 20, "DesiredCapacity": 2, "VPCZoneIdentifier": "subnet-b,subnet-a", "MixedInstancesPolicy": mix,
			"Instances": []any{map[string]any{"InstanceId": "i-2"}, map[string]any{"InstanceId": "i-1"}},
			"Tags": []any{
				tag("alpha.eksctl.io/nodegroup-name", "workers"), tag("kubernetes.io/cluster/demo", "owned"), tag("cost", "core"), tag("Name", "worker"),
				tag("k8s.io/cluster-autoscaler/node-template/taint/gpu", "yes:NoExecute"), tag("k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime", "5m"),
			},
		}},
		{Name: "old", Fields: map[string]any{"LaunchConfigurationName": "old-7", "MaxSize": 3, "Tags": []any{tag("kubernetes.io/cluster/demo", "owned")}}},
	}})
	if _, err := ec2.NewFromConfig(config).CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("workers"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-1"), InstanceType: "m4.large", IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
		},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := groupreader.Read(t.Context(), config, "demo")
	if err != nil || len(got) != 3 {
		t.Fatalf("%d groups, %v, want 3", len(got), err)
	}
	got[0].SecurityGroups = nil // the cluster's own
	want := []nodegroup.Group{
		{
			Name: "web", Source: "managed node group", Labels: map[string]string{"team": "web", "disk": "ssd"},
			ScalingGroup: "eks-web-1", Suspended: []string{"AZRebalance"}, Instances: []string{"i-9"},
		},
		{
			Name: "old", Source: "Auto Scaling group", ScalingGroup: "old", Max: 3,
			Unread: []string{"it has a launch configuration (old-7), which is not read: give it a launch template, or fill in image, role, security groups and user data"},
		},
		{
			Name: "workers", Source: "Auto Scaling group", ScalingGroup: "eksctl-demo-nodegroup-workers-NodeGroup-1", Types: []string{"m5.large", "m6i.large"}, Weighted: true,
			Share: &nodegroup.Share{OnDemandBase: 1, OnDemandPercent: 20, SpotStrategy: "capacity-optimized"}, SpotPriceMax: "0.05",
			Min: 1, Max: 20, Desired: 2, Subnets: []string{"subnet-a", "subnet-b"}, Instances: []string{"i-1", "i-2"}, Tags: map[string]string{"cost": "core"},
			Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: "NoExecute"}}, Autoscaling: map[string]string{"scaledownunneededtime": "5m"},
			Template: &nodegroup.Template{Name: "workers", Version: "1", ImageID: "ami-1", Profile: "nodes"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCapacityTypesOfMixes: a mix that is all of one capacity type is no mix.
func TestCapacityTypesOfMixes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		distribution map[string]any
		spot         bool
		share        *nodegroup.Share
	}{
		"no distribution":      {},
		"all on demand":        {distribution: map[string]any{"OnDemandPercentageAboveBaseCapacity": 100, "SpotAllocationStrategy": "lowest-price"}},
		"EC2's default is 100": {distribution: map[string]any{"OnDemandBaseCapacity": 2}},
		"all spot":             {distribution: map[string]any{"OnDemandPercentageAboveBaseCapacity": 0}, spot: true},
		"a base on demand":     {distribution: map[string]any{"OnDemandPercentageAboveBaseCapacity": 0, "OnDemandBaseCapacity": 2}, share: &nodegroup.Share{OnDemandBase: 2}},
	} {
		mix := map[string]any{"LaunchTemplate": map[string]any{"Overrides": []any{map[string]any{"InstanceRequirements": map[string]any{
			"VCpuCount": map[string]any{"Min": 2, "Max": 8}, "MemoryMiB": map[string]any{"Min": 4096}, "CpuManufacturers": []any{"intel"}, "InstanceGenerations": []any{"current"}, "BareMetal": "excluded",
		}}}}}
		if c.distribution != nil {
			mix["InstancesDistribution"] = c.distribution
		}
		got, err := groupreader.Read(t.Context(), accountOf(t, awssim.Options{ScalingGroups: []awssim.ScalingGroup{{Name: "a", Fields: map[string]any{
			"MixedInstancesPolicy": mix, "Tags": []any{tag("k8s.io/cluster-autoscaler/demo", "")},
		}}}}), "demo")
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %d groups, %v", name, len(got), err)
		}
		if got[0].Spot != c.spot || !cmp.Equal(got[0].Share, c.share) {
			t.Errorf("%s: spot %t, share %+v, want %t, %+v", name, got[0].Spot, got[0].Share, c.spot, c.share)
		}
		want := &nodegroup.Needs{CPUMin: 2, CPUMax: 8, MemoryMinMiB: 4096, Manufacturers: []string{"intel"}, Generations: []string{"current"}, Others: []string{"BareMetal=excluded"}}
		if diff := cmp.Diff(want, got[0].Needs); diff != "" {
			t.Errorf("%s: needs (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadScalingFailures(t *testing.T) {
	t.Parallel()
	gone := awssim.ScalingGroup{Name: "a", Fields: map[string]any{"LaunchTemplate": map[string]any{"LaunchTemplateId": "lt-0123456789abcdef0", "Version": "7"}, "Tags": []any{tag("k8s.io/cluster-autoscaler/demo", "")}}}
	if _, err := groupreader.Read(t.Context(), accountOf(t, awssim.Options{ScalingGroups: []awssim.ScalingGroup{gone}}), "demo"); err == nil || !strings.HasPrefix(err.Error(), "read Auto Scaling group a: describe version 7 of its launch template: ") {
		t.Errorf("no launch template: %v", err)
	}
}
