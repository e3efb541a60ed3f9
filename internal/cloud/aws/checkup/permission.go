package checkup

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
)

// dryRunOK is the code by which EC2 says that it would have done it.
const dryRunOK = "DryRunOperation"

// sampleType is the type that a launch is tried with: every region has it.
const sampleType = "m5.large"

// attempts are calls without effect, by the action that they need. Those of the other checks
// are not among them.
func (l *probe) attempts() map[string]func(context.Context) error {
	dry := aws.Bool(true)
	return map[string]func(context.Context) error{
		"ec2:CreateLaunchTemplate": l.tryTemplate,
		"ec2:DescribeCapacityReservations": func(ctx context.Context) error {
			_, err := l.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{DryRun: dry})
			return err
		},
		"ec2:DescribeImages": func(ctx context.Context) error {
			_, err := l.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: dry})
			return err
		},
		"ec2:DescribeInstanceStatus": func(ctx context.Context) error {
			_, err := l.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{DryRun: dry})
			return err
		},
		"ec2:DescribeInstanceTypeOfferings": func(ctx context.Context) error {
			_, err := l.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: dry})
			return err
		},
		"ec2:DescribeInstanceTypes": func(ctx context.Context) error {
			_, err := l.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: dry})
			return err
		},
		"ec2:DescribeInstances": func(ctx context.Context) error {
			_, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: dry})
			return err
		},
		"ec2:DescribeLaunchTemplates": func(ctx context.Context) error {
			_, err := l.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: dry})
			return err
		},
		"ec2:DescribePlacementGroups": func(ctx context.Context) error {
			_, err := l.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{DryRun: dry})
			return err
		},
		"ec2:DescribeSpotPriceHistory": func(ctx context.Context) error {
			_, err := l.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: dry})
			return err
		},
		"iam:GetInstanceProfile": func(ctx context.Context) error {
			_, err := l.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("dovetail-doctor")})
			return err
		},
		"iam:ListInstanceProfiles": func(ctx context.Context) error {
			_, err := l.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/")})
			return err
		},
		"pricing:GetProducts": func(ctx context.Context) error {
			_, err := l.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(1)}, inPricingRegion)
			return err
		},
	}
}

// inPricingRegion: prices are served in few regions.
func inPricingRegion(o *pricing.Options) {
	switch {
	case strings.HasPrefix(o.Region, "cn-"):
		o.Region = "cn-northwest-1"
	default:
		o.Region = "us-east-1"
	}
}

func (l *probe) tryTemplate(ctx context.Context) error {
	_, err := l.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		DryRun: aws.Bool(true), LaunchTemplateName: aws.String(awsv1.Group + "/doctor"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: sampleType},
		TagSpecifications:  l.tags(types.ResourceTypeLaunchTemplate),
	})
	return err
}

// permissions tries what can be tried without effect.
func (l *probe) permissions(ctx context.Context) []Finding {
	attempts := l.attempts()
	var denied, unknown []string
	why := ""
	for action, try := range attempts {
		err := try(ctx)
		if err == nil {
			continue
		}
		code, text := explain(err)
		switch {
		case isDenied(code):
			denied = append(denied, action)
		case code != dryRunOK && code != "NoSuchEntity":
			unknown, why = append(unknown, action), text
		}
	}
	slices.Sort(denied)
	slices.Sort(unknown)
	const check = "permissions"
	switch {
	case len(denied) > 0:
		return []Finding{{
			Check: check, Status: Failed, Found: "not allowed: " + list(denied),
			Remedy: "give the caller the policies of deploy/aws (docs/reference/iam.md)",
		}}
	case len(unknown) > 0:
		return []Finding{{Check: check, Status: Failed, Found: list(unknown) + ": " + why, Remedy: "see whether the endpoints of these services can be reached from here"}}
	}
	all := len(policy.Actions(policy.Policies(policy.Params{})))
	return []Finding{ok(check, "%d of the %d actions of docs/reference/iam.md tried here, all allowed", len(attempts), all)}
}

// launch asks EC2 whether it would launch an instance in one of the subnets.
func (l *probe) launch(ctx context.Context) []Finding {
	const check = "launch (dry run)"
	if l.image == "" || l.subnet == "" {
		return []Finding{{Check: check, Status: Skipped, Found: "there is no image or no subnet to try it with"}}
	}
	_, err := l.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: sampleType, ImageId: &l.image, SubnetId: &l.subnet,
		TagSpecifications: l.tags(types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface),
	})
	if code, _ := explain(err); code != dryRunOK {
		return []Finding{because(check, err, map[string]string{
			"": "see what EC2 says; the controller would get the same answer",
		})}
	}
	return []Finding{ok(check, "EC2 would launch %s in %s", sampleType, l.subnet)}
}

// reboot asks EC2 whether it would restart one of the cluster's instances: the right to do so depends on
// their tags.
func (l *probe) reboot(ctx context.Context) []Finding {
	const check = "reboot (dry run)"
	if !l.o.Reboots {
		return nil
	}
	out, err := l.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + awsv1.TagClusterPrefix + l.o.Cluster), Values: []string{awsv1.TagClusterOwned}},
		{Name: aws.String("tag-key"), Values: []string{awsv1.TagNodePool}},
		{Name: aws.String("instance-state-name"), Values: []string{string(types.InstanceStateNameRunning)}},
	}})
	if err != nil {
		return []Finding{because(check, err, nil)}
	}
	if len(out.Reservations) == 0 || len(out.Reservations[0].Instances) == 0 {
		return []Finding{{Check: check, Status: Skipped, Found: "the cluster has no instance yet to try it with"}}
	}
	id := aws.ToString(out.Reservations[0].Instances[0].InstanceId)
	_, err = l.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{DryRun: aws.Bool(true), InstanceIds: []string{id}})
	if code, _ := explain(err); code != dryRunOK {
		return []Finding{because(check, err, map[string]string{"": "see what EC2 says; the controller would get the same answer"})}
	}
	return []Finding{ok(check, "EC2 would reboot %s", id)}
}

// tags are those that the controller gives to what it makes.
func (l *probe) tags(kinds ...types.ResourceType) []types.TagSpecification {
	var out []types.TagSpecification
	for _, kind := range kinds {
		out = append(out, types.TagSpecification{ResourceType: kind, Tags: []types.Tag{
			{Key: aws.String(awsv1.TagClusterPrefix + l.o.Cluster), Value: aws.String(awsv1.TagClusterOwned)},
			{Key: aws.String(awsv1.TagEKSClusterName), Value: &l.o.Cluster},
			{Key: aws.String(awsv1.TagNodePool), Value: aws.String("doctor")},
		}})
	}
	return out
}
