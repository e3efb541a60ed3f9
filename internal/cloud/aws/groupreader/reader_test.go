package groupreader_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/groupreader"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodegroup"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

func account(t *testing.T, groups ...awssim.NodeGroup) aws.Config {
	t.Helper()
	return accountOf(t, awssim.Options{NodeGroups: groups})
}

// accountOf returns the configuration for an account.
func accountOf(t *testing.T, opts awssim.Options) aws.Config {
	t.Helper()
	opts.Unlimited = true
	sim, err := awssim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	c := sim.Options().Credentials
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim.local"), HTTPClient: &http.Client{Transport: sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken), RetryMaxAttempts: 1,
	}
}

// TestReadEverything: whatever EKS says of a group and EC2 of its launch template arrives.
func TestReadEverything(t *testing.T) {
	t.Parallel()
	fields := map[string]any{
		"instanceTypes": []any{"m5.large"}, "capacityType": "SPOT", "scalingConfig": map[string]any{"minSize": 1, "maxSize": 5, "desiredSize": 2},
		"labels": map[string]any{"team": "web"}, "taints": []any{map[string]any{"key": "a", "value": "b", "effect": "NO_EXECUTE"}, map[string]any{"key": "c", "effect": "PREFER_NO_SCHEDULE"}},
		"subnets": []any{"subnet-1"}, "nodeRole": "arn:aws:iam::111122223333:role/nodes", "amiType": "AL2023_x86_64_STANDARD", "releaseVersion": "1.35.0-20260110",
		"updateConfig": map[string]any{"maxUnavailablePercentage": 33}, "nodeRepairConfig": map[string]any{"enabled": true},
		"health": map[string]any{"issues": []any{map[string]any{"code": "AccessDenied", "message": "no"}}},
		"tags":   map[string]any{"cost": "web", "eks:own": "x"},
	}
	config := account(t, awssim.NodeGroup{Name: "web", Fields: fields})
	created, err := ec2.NewFromConfig(config).CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("web"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-1"), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\n"))), KeyName: aws.String("ops"),
			NetworkInterfaces:   []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), Groups: []string{"sg-1", "sg-2"}, AssociatePublicIpAddress: aws.Bool(false)}},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(80), VolumeType: ec2types.VolumeTypeGp3, DeleteOnTermination: aws.Bool(true), Encrypted: aws.Bool(true)}}},
			MetadataOptions:     &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2)},
			TagSpecifications:   []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("owner"), Value: aws.String("core")}}}},
			IamInstanceProfile:  &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
			Monitoring:          &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	fields["launchTemplate"] = map[string]any{"id": *created.LaunchTemplate.LaunchTemplateId, "version": "1"}
	got, err := groupreader.Read(t.Context(), config, "demo")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || len(got[0].SecurityGroups) != 1 {
		t.Fatalf("%+v", got)
	}
	want := nodegroup.Group{
		Name: "web", Source: "managed node group", Types: []string{"m5.large"}, Spot: true, Min: 1, Max: 5, Desired: 2, Labels: map[string]string{"team": "web"},
		Taints:  []corev1.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}, {Key: "c", Effect: "PreferNoSchedule"}},
		Subnets: []string{"subnet-1"}, Role: "arn:aws:iam::111122223333:role/nodes", AMIType: "AL2023_x86_64_STANDARD", Release: "1.35.0-20260110",
		SecurityGroups: got[0].SecurityGroups, MaxUnavailable: "33%", Repair: true, Health: []string{"AccessDenied: no"}, Tags: map[string]string{"cost": "web"},
		Template: &nodegroup.Template{
			Name: "web", Version: "1", ImageID: "ami-1", UserData: "#!/bin/bash\n", SecurityGroups: []string{"sg-1", "sg-2"}, PublicIP: aws.Bool(false), Profile: "nodes", KeyName: "ops",
			Volumes:  []nodegroup.Volume{{Device: "/dev/xvda", Type: "gp3", SizeGiB: 80, Encrypted: aws.Bool(true), KeepsData: aws.Bool(false)}},
			Metadata: map[string]string{"httpTokens": "required", "httpPutResponseHopLimit": "2", "httpEndpoint": "", "httpProtocolIpv6": ""},
			Tags:     map[string]string{"owner": "core"}, Monitoring: true,
		},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadManyGroups: names come in pages.
func TestReadManyGroups(t *testing.T) {
	t.Parallel()
	var all []awssim.NodeGroup
	for i := range 130 {
		all = append(all, awssim.NodeGroup{Name: fmt.Sprintf("g-%03d", i)})
	}
	got, err := groupreader.Read(t.Context(), account(t, all...), "demo")
	if err != nil || len(got) != 130 || got[129].Name != "g-129" {
		t.Errorf("%d groups, %v", len(got), err)
	}
}

// TestReadFailures name what could not be read.
func TestReadFailures(t *testing.T) {
	t.Parallel()
	if _, err := groupreader.Read(t.Context(), account(t), "other"); err == nil || !strings.HasPrefix(err.Error(), "describe EKS cluster other: ") {
		t.Errorf("another cluster: %v", err)
	}
	gone := awssim.NodeGroup{Name: "web", Fields: map[string]any{"launchTemplate": map[string]any{"id": "lt-0123456789abcdef0", "version": "7"}}}
	if _, err := groupreader.Read(t.Context(), account(t, gone), "demo"); err == nil || !strings.HasPrefix(err.Error(), "node group web: describe version 7 of its launch template: ") {
		t.Errorf("no launch template: %v", err)
	}
}
