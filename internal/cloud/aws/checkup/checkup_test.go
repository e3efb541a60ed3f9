package checkup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// account is a simulated account that lacks nothing, and the options to check it with.
func account(t *testing.T, change func(*awssim.Options)) (*awssim.Sim, checkup.Options) {
	t.Helper()
	o := awssim.Options{Seed: 1, Unlimited: true, Roles: []string{"AWSServiceRoleForEC2Spot"}}
	if change != nil {
		change(&o)
	}
	sim, err := awssim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	url, err := sim.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	keys := sim.Options().Credentials
	return sim, checkup.Options{
		Config: aws.Config{
			Region: "us-east-1", BaseEndpoint: &url, HTTPClient: &http.Client{},
			Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
			Credentials: credentials.NewStaticCredentialsProvider(keys.AccessKey, keys.SecretKey, keys.SessionToken),
		},
		Cluster: "demo", Queue: "demo", NodeRole: "KarpenterNodeRole-demo", Now: time.Now,
	}
}

// reported returns the findings that are not ok, as "check status: found -> remedy".
func reported(found []checkup.Finding) []string {
	var out []string
	for _, f := range found {
		if f.Status != checkup.OK {
			out = append(out, fmt.Sprintf("%s %s: %s -> %s", f.Check, f.Status, f.Found, f.Remedy))
		}
	}
	return out
}

func TestAnAccountThatLacksNothing(t *testing.T) {
	t.Parallel()
	sim, o := account(t, nil)
	found := checkup.Check(t.Context(), o)
	if got := reported(found); len(got) > 0 || len(found) != 11 {
		t.Errorf("%d findings, of which not ok: %s", len(found), strings.Join(got, "\n"))
	}
	for _, f := range found {
		t.Logf("%-20s %s", f.Check, f.Found)
	}
	if unknown := sim.Unknown(); len(unknown) > 0 {
		t.Errorf("operations that the account does not have: %v", unknown)
	}
	if left := append(sim.Templates(), sim.Profiles()...); len(left)+len(sim.Instances()) > 0 {
		t.Errorf("the look has made %v and %d instances", left, len(sim.Instances()))
	}
}

// TestWhatIsMissingIsReportedWithItsRemedy breaks one thing after the other.
func TestWhatIsMissingIsReportedWithItsRemedy(t *testing.T) {
	t.Parallel()
	const give = "give the caller the policies of deploy/aws (docs/reference/iam.md)"
	subnets := func(subs ...awssim.Subnet) func(*awssim.Options) {
		return func(o *awssim.Options) { o.Subnets = subs }
	}
	tagged := map[string]string{"karpenter.sh/discovery": "demo"}
	for name, tc := range map[string]struct {
		account func(*awssim.Options)
		fault   awssim.Fault
		asks    func(*checkup.Options)
		want    []string
	}{
		"no subnet has the tag": {
			account: subnets(awssim.Subnet{ID: "subnet-1", Zone: "us-east-1a", CIDR: "10.0.0.0/24"}),
			want: []string{
				"subnets failed: no subnets found: none carries tag karpenter.sh/discovery=demo -> tag those that instances may use: " +
					"aws ec2 create-tags --resources subnet-… --tags Key=karpenter.sh/discovery,Value=demo",
				"launch (dry run) skipped: there is no image or no subnet to try it with -> ",
			},
		},
		"one zone alone": {
			account: subnets(awssim.Subnet{ID: "subnet-1", Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: tagged}),
			want:    []string{"subnets warning: 1 subnet in 1 zone, 251 free addresses -> add subnets of other zones: when this zone has no capacity, no instance can be launched"},
		},
		"another cluster": {
			asks: func(o *checkup.Options) { o.Cluster = "other" },
			want: []string{
				"EKS cluster failed: ResourceNotFoundException: No cluster found for name: other. -> give the name that the cluster has in us-east-1: aws eks list-clusters",
				"subnets failed: no subnets found: none carries tag karpenter.sh/discovery=other -> tag those that instances may use: " +
					"aws ec2 create-tags --resources subnet-… --tags Key=karpenter.sh/discovery,Value=other",
				"security groups failed: no security groups found: none carries tag karpenter.sh/discovery=other -> tag those that instances may use: " +
					"aws ec2 create-tags --resources sg-… --tags Key=karpenter.sh/discovery,Value=other",
				"images skipped: which are right depends on the cluster's version -> ",
				"launch (dry run) skipped: there is no image or no subnet to try it with -> ",
			},
		},
		"no queue of the name": {
			asks: func(o *checkup.Options) { o.Queue = "elsewhere" },
			want: []string{
				"interruption queue failed: QueueDoesNotExist: The specified queue does not exist. -> " +
					"there is no queue elsewhere in this region: make it as deploy/aws does, or give the name that it has",
			},
		},
		"no queue is given": {
			asks: func(o *checkup.Options) { o.Queue = "" },
			want: []string{
				"interruption queue warning: none is given: interruptions of spot instances are not noticed -> make one as deploy/aws does, and give --interruption-queue",
			},
		},
		"no role for instances, none for spot": {
			account: func(o *awssim.Options) { o.Roles = nil },
			asks:    func(o *checkup.Options) { o.NodeRole = "nodes" },
			want: []string{
				"role of instances failed: there is no role nodes -> make it as deploy/aws does, or say by --node-role how it is called",
				"role for spot warning: there is no role AWSServiceRoleForEC2Spot -> " +
					"if spot instances are wanted and there never was one: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
			},
		},
		"the clock is ten minutes fast": {
			asks: func(o *checkup.Options) {
				o.Now = func() time.Time { return time.Now().Add(10*time.Minute + 300*time.Millisecond) }
			},
			want: []string{"clock failed: 10m<any> from AWS' -> set the clock; AWS refuses requests that are five minutes off"},
		},
		"two actions are not allowed": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:Describe*e*Groups"},
			want: []string{
				"security groups failed: UnauthorizedOperation: <any> -> " + give,
				"permissions failed: not allowed: ec2:DescribePlacementGroups -> " + give,
			},
		},
		"roles may not be seen": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "iam:GetRole"},
			want: []string{
				"role of instances skipped: the caller may not see whether there is KarpenterNodeRole-demo -> ",
				"role for spot skipped: the caller may not see whether there is AWSServiceRoleForEC2Spot -> ",
			},
		},
		"launches are not allowed": {
			fault: awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:RunInstances"},
			want:  []string{"launch (dry run) failed: UnauthorizedOperation: <any> -> " + give},
		},
		"a service does not work": {
			fault: awssim.Fault{Kind: awssim.FaultError, Operation: "pricing:*"},
			want: []string{
				"permissions failed: pricing:GetProducts: InternalError: An internal error has occurred -> see whether the endpoints of these services can be reached from here",
			},
		},
		"the credentials are somebody else's": {
			asks: func(o *checkup.Options) {
				o.Config.Credentials = credentials.NewStaticCredentialsProvider("AKIDSTRANGER", "guess", "")
			},
			want: []string{
				"credentials failed: AuthFailure: <any> -> set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION, to those of the account",
				"account skipped: not looked at without credentials -> ",
			},
		},
		"nobody answers": {
			asks: func(o *checkup.Options) { o.Config.BaseEndpoint = aws.String("http://127.0.0.1:1") },
			want: []string{
				"credentials failed: no connection: <any> -> set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION, to those of the account",
				"account skipped: not looked at without credentials -> ",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, o := account(t, tc.account)
			if tc.asks != nil {
				tc.asks(&o)
			}
			if tc.fault.Kind != "" {
				if err := sim.Inject(tc.fault); err != nil {
					t.Fatal(err)
				}
			}
			got := reported(checkup.Check(t.Context(), o))
			if len(got) != len(tc.want) {
				t.Fatalf("not ok are %d:\n%s\nwant\n%s", len(got), strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			for i := range got {
				begin, end, open := strings.Cut(tc.want[i], "<any>")
				if got[i] != tc.want[i] && !(open && strings.HasPrefix(got[i], begin) && strings.HasSuffix(got[i], end)) {
					t.Errorf("finding is\n%s\nwant\n%s", got[i], tc.want[i])
				}
			}
		})
	}
}

// TestReboots: whether instances may be rebooted is tried where it is needed, on one of the cluster.
func TestReboots(t *testing.T) {
	t.Parallel()
	sim, o := account(t, func(o *awssim.Options) { o.MinBoot, o.MaxBoot = time.Millisecond, time.Millisecond })
	last := func() string {
		t.Helper()
		found := checkup.Check(t.Context(), o)
		f := found[len(found)-1]
		return fmt.Sprintf("%s %s: %s -> %s", f.Check, f.Status, f.Found, f.Remedy)
	}
	if got := last(); !strings.HasPrefix(got, "launch (dry run) ok") {
		t.Errorf("without the gate: %s", got)
	}
	o.Reboots = true
	if got, want := last(), "reboot (dry run) skipped: the cluster has no instance yet to try it with -> "; got != want {
		t.Errorf("without an instance: %s, want %s", got, want)
	}
	id := launch(t, sim, o.Config)
	if got, want := last(), "reboot (dry run) ok: EC2 would reboot "+id+" -> "; got != want {
		t.Errorf("with the right: %s, want %s", got, want)
	}
	if err := sim.Inject(awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:RebootInstances"}); err != nil {
		t.Fatal(err)
	}
	got := last()
	if !strings.HasPrefix(got, "reboot (dry run) failed: UnauthorizedOperation: ") || !strings.HasSuffix(got, "-> give the caller the policies of deploy/aws (docs/reference/iam.md)") {
		t.Errorf("without the right: %s", got)
	}
	if n := sim.Instances()[0].Reboots; n != 0 {
		t.Errorf("the instance was rebooted %d times", n)
	}
}

// launch launches an instance of the cluster, waits until it runs, and returns its id.
func launch(t *testing.T, sim *awssim.Sim, config aws.Config) string {
	t.Helper()
	c, name := ec2.NewFromConfig(config), aws.String("tpl")
	_, err := c.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: name, LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: aws.String(sim.Parameter("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	tag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	subnets, err := c.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: name, Version: aws.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: subnets.Subnets[0].SubnetId}},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "on-demand"},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{
			tag("kubernetes.io/cluster/demo", "owned"), tag("karpenter.sh/nodepool", "default"),
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if all := sim.Instances(); len(all) != 1 || all[0].State != "running" {
			return fmt.Errorf("instances: %+v", all)
		}
		return nil
	})
	return sim.Instances()[0].ID
}
