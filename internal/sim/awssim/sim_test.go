package awssim_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// world is an account with clients that reach it without a socket.
type world struct {
	sim   *awssim.Sim
	clock *awssim.Manual
	cfg   aws.Config
	ec2   *ec2.Client
	price string // of m5.large, as reported
}

func newWorld(t *testing.T, change func(*awssim.Options)) *world {
	t.Helper()
	clock := awssim.NewManual(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC))
	opts := awssim.Options{Seed: 1, Clock: clock}
	if change != nil {
		change(&opts)
	}
	sim, err := awssim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(sim, sim.Options().Credentials)
	return &world{sim: sim, clock: clock, cfg: cfg, ec2: ec2.NewFromConfig(cfg)}
}

// config is the SDK's configuration: one endpoint for all services, no retries.
func config(sim *awssim.Sim, c awssim.Credentials) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim.local"), HTTPClient: &http.Client{Transport: sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// pass lets time go by and performs what is due.
func (w *world) pass(d time.Duration) {
	w.clock.Advance(d)
	w.sim.Tick()
}

// code returns an error's API code.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// profile makes the instance profile "nodes" with the cluster's role.
func (w *world) profile(ctx context.Context, t *testing.T) {
	t.Helper()
	client := iam.NewFromConfig(w.cfg)
	if _, err := client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("nodes")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{
		InstanceProfileName: aws.String("nodes"), RoleName: aws.String("KarpenterNodeRole-demo"),
	}); err != nil {
		t.Fatal(err)
	}
}

const al2023 = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"

// template makes the launch template "tpl" with user data.
func (w *world) template(ctx context.Context, t *testing.T, userData string, change func(*ec2types.RequestLaunchTemplateData)) {
	t.Helper()
	data := &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String(w.sim.Parameter(al2023)), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
			DeviceIndex: aws.Int32(0), Groups: []string{"sg-0a11000000000000b"},
		}},
	}
	if change != nil {
		change(data)
	}
	_, err := w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("tpl"), LaunchTemplateData: data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: []ec2types.Tag{{Key: aws.String("owner"), Value: aws.String("test")}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// subnetA and subnetB are the private subnets of the first two zones.
const (
	subnetA = "subnet-0b000000000000000"
	subnetB = "subnet-0b000000000000001"
)

func override(instanceType ec2types.InstanceType, subnet string) ec2types.FleetLaunchTemplateOverridesRequest {
	return ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: instanceType, SubnetId: aws.String(subnet)}
}

// fleet is a request for n instances from the template "tpl".
func fleet(n int32, capacity ec2types.DefaultTargetCapacityType, overrides ...ec2types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("tpl"), Version: aws.String("$Latest")},
			Overrides:                   overrides,
		}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(n), DefaultTargetCapacityType: capacity},
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")}},
		}},
	}
}

func ids(out *ec2.CreateFleetOutput) []string {
	var got []string
	for _, in := range out.Instances {
		got = append(got, in.InstanceIds...)
	}
	return got
}

func TestAnAccountMaySellSomeFamilies(t *testing.T) {
	t.Parallel()
	sim, err := awssim.New(awssim.Options{Families: []string{"m5", "g5g"}})
	if err != nil {
		t.Fatal(err)
	}
	sold := map[string]int{}
	for _, name := range sim.InstanceTypes() {
		family, _, _ := strings.Cut(name, ".")
		sold[family]++
	}
	if len(sold) != 2 || sold["m5"] < 5 || sold["g5g"] < 5 {
		t.Errorf("it sells %v", sold)
	}
	if _, err := awssim.New(awssim.Options{Families: []string{"m5", "none"}}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a family that does not exist: %v", err)
	}
}
