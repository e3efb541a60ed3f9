package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/class"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// tryAgain is the pause after an inconclusive dry run. It doubles with each one that follows,
	// up to tryAgainMost.
	tryAgain     = 5 * time.Second
	tryAgainMost = 5 * time.Minute
	// subnetsTried is in how many subnets one dry run asks for an instance.
	subnetsTried = 6
	// dryRunOK is the code of the error that says that a dry run would have worked.
	dryRunOK = "DryRunOperation"
)

// validator finds out whether nodes of a class can be launched.
type validator struct {
	opts    *Options
	clients *clients
	cluster *clusterInfo
	types   *instanceTypes
	fleets  *fleets
	tried   trials
}

// validate finds out whether nodes of a class can be launched: first from what is known, then by
// a dry run. An error means that it could not be found out.
func (v *validator) validate(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	facts, err := v.factsOf(ctx, c)
	if err != nil {
		return finding{}, err
	}
	if judged := class.Validate(c, facts); judged.Reason != "" {
		f := finding{reason: judged.Reason, message: judged.Message, unknown: judged.Unknown, again: validationAgain}
		if judged.Settled {
			f.again = 0
		}
		return f, nil
	}
	if v.opts.DisableDryRun {
		return finding{again: validationAgain}, nil
	}
	key, err := triedKey(c)
	if err != nil {
		return finding{}, err
	}
	return v.tryOut(ctx, c, key), nil
}

// factsOf returns what the validation of a class needs to know beside it.
func (v *validator) factsOf(ctx context.Context, c *awsv1.EC2NodeClass) (*class.Facts, error) {
	facts := &class.Facts{Expressions: v.opts.KubeletExpressions, NVIDIADevices: v.opts.NVIDIADevices}
	if family.Of(&c.Spec).Name == family.AL2023 {
		cluster, err := v.cluster.describe(ctx)
		if err != nil && isInconclusive(err) && !errors.Is(err, errNoServiceRange) {
			return nil, err
		}
		facts.CIDR, facts.CIDRError = cluster.cidr, err
	}
	if _, err := kubelet.Parse(c.Spec.Kubelet); err != nil {
		return facts, nil //nolint:nilerr // the verdict says what is wrong with it
	}
	m, err := v.types.market.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := v.types.config(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range m.infos {
		facts.InstanceTypes = append(facts.InstanceTypes, instance.ForKubelet(&m.infos[i], v.types.region(m), config))
	}
	return facts, nil
}

// tryOut returns the outcome of a dry run of a class. It repeats the last one while that is
// fresh. After an inconclusive dry run it returns what was known before.
func (v *validator) tryOut(ctx context.Context, c *awsv1.EC2NodeClass, key string) finding {
	t := v.tried.of(c.Name, key)
	now := v.opts.Now()
	if t.outcome != nil && now.Before(t.fresh) {
		return *t.outcome
	}
	if !now.Before(t.next) {
		f, err := v.try(ctx, c)
		if err == nil {
			*t = trial{key: key, outcome: &f, fresh: now.Add(keptOf(&f))}
			return f
		}
		pause := min(tryAgain<<min(t.failures, 10), tryAgainMost)
		t.failures, t.why, t.next = t.failures+1, err.Error(), v.opts.Now().Add(pause)
		v.opts.Log.Warn("a dry run of a node class was inconclusive, will try again", "class", c.Name, "in_a_row", t.failures, "again", pause, "error", err)
	}
	again := max(time.Second, t.next.Sub(v.opts.Now()))
	if t.outcome == nil {
		return finding{inconclusive: true, message: t.why, again: again}
	}
	f := *t.outcome
	f.again = again
	return f
}

// try makes the launch template of some node of the class and asks EC2 whether it would
// launch it. An error is an inconclusive outcome.
func (v *validator) try(ctx context.Context, c *awsv1.EC2NodeClass) (finding, error) {
	s, err := v.sample(ctx, c)
	if err != nil {
		return finding{}, err
	}
	d, err := v.fleets.draft(ctx, s)
	var failure *cloud.Failure
	switch {
	case errors.As(err, &failure) && failure.Reason == "Unauthorized":
		return finding{reason: reasonTemplateDenied, message: failure.Message, again: validationAgain}, nil
	case errors.As(err, &failure) && failure.Reason == reasonUserDataSize:
		return finding{reason: failure.Reason, message: failure.Message, again: validationAgain}, nil
	case err != nil:
		return finding{}, err
	}
	o := d.request()
	if code, message := v.tryFleet(ctx, &o); code != dryRunOK {
		return v.dryRunFailed(c, reasonFleetDenied, code, message)
	}
	if code, message := v.tryInstance(ctx, c, d); code != dryRunOK {
		return v.dryRunFailed(c, reasonInstancesDenied, code, message)
	}
	return finding{again: validationAgain}, nil
}

// dryRunFailed says what a code of a dry run means.
func (v *validator) dryRunFailed(c *awsv1.EC2NodeClass, unauthorized, code, message string) (finding, error) {
	profileMissing := strings.Contains(message, "Invalid IAM Instance Profile name")
	switch {
	case reasonOf(code, message) == "Unauthorized":
		return finding{reason: unauthorized, message: "not allowed, as a dry run says: " + message, again: validationAgain}, nil
	case profileMissing && c.Spec.InstanceProfile != nil:
		return finding{reason: reasonProfileMissing, message: fmt.Sprintf("instance profile %s does not exist: %s", *c.Spec.InstanceProfile, message), again: missingAgain}, nil
	case profileMissing: // it takes a while until EC2 sees what IAM has
		return finding{}, fmt.Errorf("EC2 does not know instance profile %s yet", c.Status.InstanceProfile)
	default:
		return finding{}, fmt.Errorf("dry run: %s: %s", code, message)
	}
}

// sample returns a request for the cheapest instance of a class, rather one without
// accelerators, whose images are large.
func (v *validator) sample(ctx context.Context, c *awsv1.EC2NodeClass) (*fleetSpec, error) {
	m, err := v.types.market.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := v.types.config(ctx, c)
	if err != nil {
		return nil, err
	}
	types := instance.Types(m.infos, v.types.region(m), config)
	types = slices.DeleteFunc(types, func(t *catalog.Type) bool { return imageOf(c, t) == "" })
	want := label.Requirements{label.CapacityType: label.In(label.OnDemand)}
	plain := want.With(awsv1.LabelInstanceGPUCount, label.DoesNotExist()).With(awsv1.LabelInstanceAcceleratorCount, label.DoesNotExist())
	choices := catalog.Choices(types, plain, nil)
	if len(choices) == 0 {
		choices = catalog.Choices(types, want, nil)
	}
	if len(choices) == 0 {
		return nil, errors.New("no type on demand is sold in a zone of the class's subnets, for which it has an image")
	}
	return newFleetSpec(c, &cloud.LaunchRequest{Choices: choices[:1]})
}

// dry marks a request to be tried out, once.
func dry(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

func (v *validator) tryFleet(ctx context.Context, o *fleetRequest) (code, message string) {
	o.Input.DryRun = aws.Bool(true)
	o.Input.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(1)
	_, err := v.clients.EC2.CreateFleet(ctx, o.Input, dry)
	return errorCode(err), fmt.Sprint(err)
}

// tryInstance makes a dry run for one instance in one subnet after the other, those of the
// offering's zone first, until one succeeds. If none does, it returns the error of the first.
func (v *validator) tryInstance(ctx context.Context, c *awsv1.EC2NodeClass, d *draft) (code, message string) {
	var specs []types.TagSpecification
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface} {
		specs = append(specs, types.TagSpecification{ResourceType: kind, Tags: tagList(d.tags)})
	}
	choice := d.choices[0]
	in := func(zone string) int {
		if zone == choice.Offering.Zone {
			return 0
		}
		return 1
	}
	subnets := slices.SortedStableFunc(slices.Values(c.Status.Subnets), func(a, b awsv1.Subnet) int { return in(a.Zone) - in(b.Zone) })
	for i, subnet := range subnets[:min(len(subnets), subnetsTried)] {
		_, err := v.clients.EC2.RunInstances(ctx, &ec2.RunInstancesInput{
			DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceType(choice.Type.Name),
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(choice.template), Version: aws.String("$Latest")},
			NetworkInterfaces: interfacesIn(c, subnet.ID), TagSpecifications: specs,
		}, dry)
		if i == 0 || errorCode(err) == dryRunOK {
			code, message = errorCode(err), fmt.Sprint(err)
		}
		if code == dryRunOK || isInconclusive(err) {
			break
		}
	}
	return code, message
}

// interfacesIn returns the network interfaces of a class, all of them in one subnet. So each has
// a subnet, whether EC2 merges them into those of the launch template or replaces those.
func interfacesIn(c *awsv1.EC2NodeClass, subnet string) []types.InstanceNetworkInterfaceSpecification {
	if len(c.Spec.NetworkInterfaces) == 0 {
		return []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: &subnet}}
	}
	var out []types.InstanceNetworkInterfaceSpecification
	for _, i := range c.Spec.NetworkInterfaces {
		out = append(out, types.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: aws.Int32(i.NetworkCardIndex), DeviceIndex: aws.Int32(i.DeviceIndex), InterfaceType: aws.String(i.InterfaceType), SubnetId: &subnet,
		})
	}
	return out
}
