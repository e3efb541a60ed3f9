package awssim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

func TestLifeOfAnInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "", nil)
	out, err := w.ec2.CreateFleet(t.Context(), fleet(2, "on-demand", override("m5.large", subnetA), override("c5.large", subnetA)))
	if err != nil {
		t.Fatal(err)
	}
	if len(ids(out)) != 2 || out.Instances[0].InstanceType != "c5.large" || len(out.Errors) != 0 {
		t.Fatalf("fleet of 2 gave %v with errors %v, want two c5.large: they are cheaper", out.Instances, out.Errors)
	}
	o := out.Instances[0].LaunchTemplateAndOverrides.Overrides
	if aws.ToString(o.SubnetId) != subnetA || aws.ToString(o.AvailabilityZone) != "us-east-1a" || aws.ToString(o.ImageId) == "" {
		t.Errorf("override of the answer: %+v", o)
	}
	state := func() ec2types.InstanceStateName {
		d, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids(out)[:1]})
		if err != nil {
			t.Fatal(err)
		}
		in := d.Reservations[0].Instances[0]
		if len(in.SecurityGroups) != 1 || in.PrivateIpAddress == nil || in.Placement == nil || len(in.NetworkInterfaces) != 1 {
			t.Errorf("instance lacks something: %+v", in)
		}
		return in.State.Name
	}
	var seen []ec2types.InstanceStateName
	seen = append(seen, state())
	w.pass(20 * time.Second)
	seen = append(seen, state())
	if _, err := w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids(out)[:1]}); err != nil {
		t.Fatal(err)
	}
	seen = append(seen, state())
	w.pass(time.Minute)
	seen = append(seen, state())
	if want := []ec2types.InstanceStateName{"pending", "running", "shutting-down", "terminated"}; !slices.Equal(seen, want) {
		t.Errorf("states %v, want %v", seen, want)
	}
	w.pass(61 * time.Minute)
	_, err = w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids(out)[:1]})
	if code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("an hour after its end the instance is described with %v", err)
	}
}

func TestFleetErrors(t *testing.T) {
	t.Parallel()
	spot := func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.DefaultTargetCapacityType = "spot" }
	cases := map[string]struct {
		prepare func(*awssim.Sim)
		change  func(*ec2.CreateFleetInput)
		code    string
	}{
		"the pool is empty":      {prepare: func(s *awssim.Sim) { s.SetCapacity("on-demand", "m5.large", "us-east-1a", 0) }, code: "InsufficientInstanceCapacity"},
		"the spot pool is empty": {prepare: func(s *awssim.Sim) { s.SetCapacity("spot", "m5.large", "us-east-1a", 0) }, change: spot, code: "InsufficientInstanceCapacity"},
		"the quota is used up":   {prepare: func(s *awssim.Sim) { s.SetQuota("on-demand/standard", 1) }, code: "VcpuLimitExceeded"},
		"the spot quota is":      {prepare: func(s *awssim.Sim) { s.SetQuota("spot/standard", 1) }, change: spot, code: "MaxSpotInstanceCountExceeded"},
		"no address is left":     {prepare: func(s *awssim.Sim) { _ = s.Inject(awssim.Fault{Kind: awssim.FaultAddresses, Target: subnetA}) }, code: "InsufficientFreeAddressesInSubnet"},
		"the zone does not have the type": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].Overrides[0] = override("m5.large", "subnet-0b000000000000004")
			}, code: "Unsupported",
		},
		"the image is for another architecture": {
			change: func(in *ec2.CreateFleetInput) { in.LaunchTemplateConfigs[0].Overrides[0].InstanceType = "m6g.large" }, code: "InvalidParameterValue",
		},
		"there is no such image": {
			change: func(in *ec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].Overrides[0].ImageId = aws.String("ami-0")
			}, code: "InvalidAMIID.NotFound",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.template(t.Context(), t, "", nil)
			if tc.prepare != nil {
				tc.prepare(w.sim)
			}
			in := fleet(1, "on-demand", override("m5.large", subnetA))
			if tc.change != nil {
				tc.change(in)
			}
			out, err := w.ec2.CreateFleet(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Instances) != 0 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].ErrorCode) != tc.code {
				t.Fatalf("instances %v, errors %+v, want none and %s", out.Instances, out.Errors, tc.code)
			}
			if o := out.Errors[0].LaunchTemplateAndOverrides.Overrides; o.InstanceType == "" || o.SubnetId == nil || o.AvailabilityZone == nil {
				t.Errorf("the error does not say which override it is about: %+v", o)
			}
		})
	}
}

// TestPartialFulfilment launches what there is and says of the rest why not; what ends comes
// back to its pool.
func TestPartialFulfilment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "", nil)
	w.sim.SetCapacity("on-demand", "m5.large", "us-east-1a", 2)
	w.sim.SetCapacity("on-demand", "m5.large", "us-east-1b", 1)
	in := fleet(5, "on-demand", override("m5.large", subnetA), override("m5.large", subnetB))
	out, err := w.ec2.CreateFleet(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(ids(out)) != 3 || len(out.Errors) != 2 {
		t.Fatalf("%d instances and %d errors, want 3 and 2", len(ids(out)), len(out.Errors))
	}
	if _, err := w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids(out)}); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if out, err = w.ec2.CreateFleet(t.Context(), in); err != nil || len(ids(out)) != 3 {
		t.Errorf("after the end of all: %d instances, %v, want 3 again", len(ids(out)), err)
	}
}

func TestFleetIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "", nil)
	in := fleet(3, "on-demand", override("m5.large", subnetA))
	in.ClientToken = aws.String("token-1")
	first, err := w.ec2.CreateFleet(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.ec2.CreateFleet(t.Context(), in)
	if err != nil || !slices.Equal(ids(first), ids(again)) || aws.ToString(first.FleetId) != aws.ToString(again.FleetId) {
		t.Errorf("the same request gave %v, then %v, %v", ids(first), ids(again), err)
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(4)
	if _, err = w.ec2.CreateFleet(t.Context(), in); code(err) != "IdempotentParameterMismatch" {
		t.Errorf("another request with the token: %v", err)
	}
	if n := len(w.sim.Instances()); n != 3 {
		t.Errorf("%d instances run, want 3", n)
	}
}

// TestCut: a request whose answer is lost has been carried out, and its repeat finds it.
func TestCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "", nil)
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1}); err != nil {
		t.Fatal(err)
	}
	in := fleet(1, "spot", override("m5.large", subnetA))
	in.ClientToken = aws.String("token-1")
	if _, err := w.ec2.CreateFleet(t.Context(), in); err == nil || code(err) != "" {
		t.Fatalf("a cut connection gave %v", err)
	}
	out, err := w.ec2.CreateFleet(t.Context(), in)
	if err != nil || len(w.sim.Instances()) != 1 || w.sim.Instances()[0].ID != ids(out)[0] {
		t.Errorf("the repeat gave %v, %v; the account has %v", out, err, w.sim.Instances())
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	overrides := []ec2types.FleetLaunchTemplateOverridesRequest{override("m5.large", subnetA), override("c5.large", subnetA), override("r5.large", subnetA)}
	for i, p := range []float64{2, 3, 1} {
		overrides[i].Priority = aws.Float64(p)
	}
	cases := map[string]struct {
		capacity ec2types.DefaultTargetCapacityType
		strategy string
		want     ec2types.InstanceType
	}{
		"on demand, by price":         {"on-demand", "lowest-price", "c5.large"},
		"on demand, by priority":      {"on-demand", "prioritized", "r5.large"},
		"spot, room before price":     {"spot", "price-capacity-optimized", "m5.large"},
		"spot, room, then priority":   {"spot", "capacity-optimized-prioritized", "m5.large"},
		"spot, by price, on demand's": {"spot", "lowest-price", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.template(t.Context(), t, "", nil)
			w.sim.SetCapacity("spot", "c5.large", "us-east-1a", 1)
			w.sim.SetCapacity("spot", "r5.large", "us-east-1a", 1)
			in := fleet(2, tc.capacity, overrides...)
			in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategy(tc.strategy)}
			in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategy(tc.strategy)}
			if tc.capacity == "on-demand" {
				in.SpotOptions = nil
			} else {
				in.OnDemandOptions = nil
			}
			out, err := w.ec2.CreateFleet(t.Context(), in)
			if err != nil || len(ids(out)) != 2 {
				t.Fatalf("%v, %v", out, err)
			}
			if tc.want != "" && out.Instances[0].InstanceType != tc.want {
				t.Errorf("first is %s, want %s", out.Instances[0].InstanceType, tc.want)
			}
		})
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *awssim.Options) { o.Consistency = 4 * time.Second })
	ctx := t.Context()
	w.template(ctx, t, "", func(d *ec2types.RequestLaunchTemplateData) {
		d.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")}
	})
	w.profile(ctx, t)
	in := fleet(1, "on-demand", override("m5.large", subnetA))
	in.DryRun = aws.Bool(true)
	run := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large",
		LaunchTemplate:    &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("tpl"), Version: aws.String("$Latest")},
		NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnetA)}},
	}
	if _, err := w.ec2.CreateFleet(ctx, in); code(err) != "InvalidLaunchTemplateName.NotFoundException" {
		t.Errorf("the template is seen at once: %v", err)
	}
	// The profile was made after the template and is seen after it, or with it.
	var last string
	for range 5 {
		w.pass(time.Second)
		if _, err := w.ec2.RunInstances(ctx, run); err != nil {
			last = code(err)
		}
	}
	if last != "DryRunOperation" {
		t.Errorf("RunInstances ends with %s", last)
	}
	if _, err := w.ec2.CreateFleet(ctx, in); code(err) != "DryRunOperation" {
		t.Errorf("CreateFleet: %v", err)
	}
	if n := len(w.sim.Instances()); n != 0 {
		t.Errorf("dry runs launched %d", n)
	}
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:CreateFleet"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.ec2.CreateFleet(ctx, in)
	if code(err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), "RequestID: ") {
		t.Errorf("denied: %v", err)
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *awssim.Options) { o.Consistency = 30 * time.Second })
	w.template(t.Context(), t, "", nil)
	w.pass(30 * time.Second)
	out, err := w.ec2.CreateFleet(t.Context(), fleet(1, "on-demand", override("m5.large", subnetA)))
	if err != nil {
		t.Fatal(err)
	}
	describe := func() error {
		_, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids(out)})
		return err
	}
	if err := describe(); code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("at once: %v", err)
	}
	w.pass(30 * time.Second)
	if err := describe(); err != nil {
		t.Errorf("after 30 s: %v", err)
	}
}

// TestTokenBuckets: EC2's limits hold for each class of operations by itself.
func TestTokenBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.template(t.Context(), t, "", nil) // one of fifty
	in := fleet(1, "on-demand", override("m5.large", subnetA))
	refused := 0
	for range 60 {
		if _, err := w.ec2.CreateFleet(t.Context(), in); code(err) == "RequestLimitExceeded" {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 11 {
		t.Errorf("%d of 60 were refused after one, want 11", refused)
	}
	if _, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Errorf("describes have a bucket of their own: %v", err)
	}
	w.pass(time.Second)
	for i := range 6 {
		_, err := w.ec2.CreateFleet(t.Context(), in)
		if want := i == 5; (code(err) == "RequestLimitExceeded") != want {
			t.Errorf("request %d a second later: %v", i, err)
		}
	}
	if got := w.sim.Refused()["ec2:CreateFleet RequestLimitExceeded"]; got != 12 {
		t.Errorf("%d refusals are counted, want 12", got)
	}
}
