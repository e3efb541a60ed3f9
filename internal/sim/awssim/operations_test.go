package awssim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// surface are the operations that an autoscaler may call: those of the specification,
// with SendMessage and GetCallerIdentity for tests and for doctor.
func surface() []string {
	return []string{
		"arc-zonal-shift:GetManagedResource",
		"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:DescribeCapacityReservations",
		"ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes",
		"ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups",
		"ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets", "ec2:RebootInstances", "ec2:RunInstances", "ec2:TerminateInstances",
		"eks:DescribeCluster",
		"iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile", "iam:GetRole",
		"iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile",
		"pricing:GetProducts",
		"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage", "sqs:SendMessage",
		"ssm:GetParameter",
		"sts:GetCallerIdentity",
	}
}

// reported is what an operation's answer is summed up as.
type reported = string

// TestOperations exercises every operation through the SDK. Steps build on each other.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	reservation, err := w.sim.AddReservation(awssim.Reservation{InstanceType: "m5.large", Zone: "us-east-1a", Total: 2, Tags: map[string]string{"team": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	w.sim.AddPlacementGroup(awssim.PlacementGroup{Name: "near", Strategy: "cluster"})
	steps := slices.Concat(w.typeSteps(), w.networkSteps(), w.launchSteps(reservation), w.profileSteps(), w.queueSteps(), w.otherSteps())
	for _, s := range steps {
		got, err := s.do(t.Context())
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if got != s.want {
			t.Errorf("%s returns %q, want %q", s.name, got, s.want)
		}
	}
	if unknown := w.sim.Unknown(); len(unknown) > 0 {
		t.Errorf("unknown operations: %v", unknown)
	}
	if got, want := slices.Sorted(maps.Keys(w.sim.Calls())), surface(); !slices.Equal(got, want) {
		t.Errorf("called %v\nwant %v", got, want)
	}
}

type step struct {
	name string
	do   func(ctx context.Context) (reported, error)
	want reported
}

func (w *world) typeSteps() []step {
	return []step{
		{"DescribeInstanceTypes in pages", func(ctx context.Context) (reported, error) {
			n, pages := 0, 0
			p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100), Filters: []ec2types.Filter{
				{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
				{Name: aws.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
			}})
			for p.HasMorePages() {
				out, err := p.NextPage(ctx)
				if err != nil {
					return "", err
				}
				n, pages = n+len(out.InstanceTypes), pages+1
			}
			return fmt.Sprintf("%v types in %d pages", n >= 880, pages), nil
		}, "true types in 9 pages"},
		{"DescribeInstanceTypes of one", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"p4d.24xlarge"}})
			if err != nil {
				return "", err
			}
			i := out.InstanceTypes[0]
			g := i.GpuInfo.Gpus[0]
			return fmt.Sprint(
				aws.ToInt32(i.VCpuInfo.DefaultVCpus), aws.ToInt64(i.MemoryInfo.SizeInMiB), i.Hypervisor, " ", i.ProcessorInfo.SupportedArchitectures, i.SupportedUsageClasses,
				len(i.NetworkInfo.NetworkCards), aws.ToInt32(i.NetworkInfo.EfaInfo.MaximumEfaInterfaces), " ", aws.ToString(g.Manufacturer), " ", aws.ToString(g.Name), aws.ToInt32(g.Count),
				aws.ToInt64(i.InstanceStorageInfo.TotalSizeInGB), i.PlacementGroupInfo.SupportedStrategies, aws.ToInt32(i.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps),
			), nil
		}, "96 1179648nitro [x86_64] [on-demand spot capacity-block] 4 4 NVIDIA A1008 8000 [cluster partition spread] 19000"},
		{"DescribeInstanceTypeOfferings", func(ctx context.Context) (reported, error) {
			n, zones := 0, map[string]bool{}
			p := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", MaxResults: aws.Int32(1000)})
			for p.HasMorePages() {
				out, err := p.NextPage(ctx)
				if err != nil {
					return "", err
				}
				for _, o := range out.InstanceTypeOfferings {
					n++
					zones[aws.ToString(o.Location)] = true
				}
			}
			return fmt.Sprint(n > 3000, len(zones)), nil
		}, "true 6"},
		{"DescribeSpotPriceHistory", func(ctx context.Context) (reported, error) {
			n := 0
			p := ec2.NewDescribeSpotPriceHistoryPaginator(w.ec2, &ec2.DescribeSpotPriceHistoryInput{
				ProductDescriptions: []string{"Linux/UNIX"}, MaxResults: aws.Int32(2000), StartTime: aws.Time(w.clock.Now()),
			})
			for p.HasMorePages() {
				out, err := p.NextPage(ctx)
				if err != nil {
					return "", err
				}
				n += len(out.SpotPriceHistory)
				for _, q := range out.SpotPriceHistory {
					if q.Timestamp == nil || strings.HasPrefix(aws.ToString(q.SpotPrice), "-") || aws.ToString(q.AvailabilityZoneId) == "" {
						return "", fmt.Errorf("quote %+v", q)
					}
				}
			}
			return fmt.Sprint(n > 3000), nil
		}, "true"},
		{"GetProducts", func(ctx context.Context) (reported, error) {
			shared, err := w.products(ctx, "Shared", "Compute Instance")
			if err != nil {
				return "", err
			}
			metal, err := w.products(ctx, "Dedicated", "Compute Instance (bare metal)")
			return fmt.Sprintf("%v shared, %v metal, m5.large %s", shared > 700, metal > 50, w.price), err
		}, "true shared, true metal, m5.large 0.0960000000"},
	}
}

// products counts what is sold, and keeps the price of m5.large.
func (w *world) products(ctx context.Context, tenancy, family string) (int, error) {
	n := 0
	filters := []pricingtypes.Filter{}
	for k, v := range map[string]string{
		"regionCode": "us-east-1", "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux", "capacitystatus": "Used",
		"marketoption": "OnDemand", "tenancy": tenancy, "productFamily": family,
	} {
		filters = append(filters, pricingtypes.Filter{Field: aws.String(k), Value: aws.String(v), Type: "TERM_MATCH"})
	}
	p := pricing.NewGetProductsPaginator(pricing.NewFromConfig(w.cfg), &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), Filters: filters, MaxResults: aws.Int32(100),
	})
	for p.HasMorePages() {
		out, err := p.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		n += len(out.PriceList)
		for _, text := range out.PriceList {
			var product struct {
				Product struct{ Attributes map[string]string }
				Terms   struct {
					OnDemand map[string]struct {
						PriceDimensions map[string]struct{ PricePerUnit map[string]string }
					}
				}
			}
			if err := json.Unmarshal([]byte(text), &product); err != nil {
				return 0, err
			}
			for _, term := range product.Terms.OnDemand {
				for _, d := range term.PriceDimensions {
					if product.Product.Attributes["instanceType"] == "m5.large" {
						w.price = d.PricePerUnit["USD"]
					}
				}
			}
		}
	}
	return n, nil
}

func filter(name string, values ...string) []ec2types.Filter {
	return []ec2types.Filter{{Name: aws.String(name), Values: values}}
}

func (w *world) networkSteps() []step {
	return []step{
		{"DescribeSubnets by tag", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filter("tag:karpenter.sh/discovery", "demo"), MaxResults: aws.Int32(500)})
			if err != nil {
				return "", err
			}
			n := out.Subnets[0]
			return fmt.Sprint(len(out.Subnets), " ", aws.ToString(n.AvailabilityZone), " ", aws.ToString(n.AvailabilityZoneId), aws.ToInt32(n.AvailableIpAddressCount)), nil
		}, "6 us-east-1a use1-az44091"},
		{"DescribeSecurityGroups by name", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filter("group-name", "demo-*")})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(out.SecurityGroups), " ", aws.ToString(out.SecurityGroups[0].GroupId)), nil
		}, "1 sg-0a11000000000000b"},
		{"GetParameter and DescribeImages", func(ctx context.Context) (reported, error) {
			p, err := ssm.NewFromConfig(w.cfg).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(al2023)})
			if err != nil {
				return "", err
			}
			out, err := w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{
				Filters: append(filter("image-id", aws.ToString(p.Parameter.Value)), filter("state", "available")...), IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(1000),
			})
			if err != nil {
				return "", err
			}
			im := out.Images[0]
			return fmt.Sprint(len(out.Images), " ", aws.ToString(im.Name), " ", im.Architecture, " ", im.CreationDate != nil && im.DeprecationTime != nil), nil
		}, "1 amazon-eks-node-al2023-x86_64-standard-1.35-v20261101 x86_64 true"},
		{"DescribeCapacityReservations", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{
				Filters: append(filter("state", "active"), filter("tag:team", "a")...), MaxResults: aws.Int32(1000),
			})
			if err != nil {
				return "", err
			}
			r := out.CapacityReservations[0]
			return fmt.Sprint(aws.ToString(r.InstanceType), " ", r.InstanceMatchCriteria, " ", aws.ToInt32(r.AvailableInstanceCount), " ", r.EndDate == nil), nil
		}, "m5.large targeted 2 true"},
		{"DescribePlacementGroups", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: []string{"near"}, Filters: filter("state", "available")})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(out.PlacementGroups), " ", out.PlacementGroups[0].Strategy), nil
		}, "1 cluster"},
	}
}

func (w *world) launchSteps(reservation string) []step {
	var id string
	return []step{
		{"CreateLaunchTemplate and DescribeLaunchTemplates", func(ctx context.Context) (reported, error) {
			if _, err := w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String("tpl"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
					ImageId: aws.String(w.sim.Parameter(al2023)),
					CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
						CapacityReservationPreference: "capacity-reservations-only",
						CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String(reservation)},
					},
				},
			}); err != nil {
				return "", err
			}
			out, err := w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"tpl"}})
			if err != nil {
				return "", err
			}
			return aws.ToString(out.LaunchTemplates[0].LaunchTemplateName), nil
		}, "tpl"},
		{"CreateFleet into a reservation", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.CreateFleet(ctx, fleet(3, "on-demand", override("m5.large", subnetA)))
			if err != nil {
				return "", err
			}
			id = ids(out)[0]
			return fmt.Sprint(len(ids(out)), " ", aws.ToString(out.Errors[0].ErrorCode)), nil
		}, "2 ReservationCapacityExceeded"},
		{"CreateTags and DescribeInstances by tags", func(ctx context.Context) (reported, error) {
			if _, err := w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("")}}}); err != nil {
				return "", err
			}
			out, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
				Filters: append(filter("tag-key", "Name"), filter("tag:karpenter.sh/nodepool", "default")...), MaxResults: aws.Int32(1000),
			})
			if err != nil {
				return "", err
			}
			in := out.Reservations[0].Instances[0]
			return fmt.Sprint(len(out.Reservations), aws.ToString(in.InstanceId) == id, aws.ToString(in.CapacityReservationId) == reservation, in.CapacityReservationSpecification.CapacityReservationPreference), nil
		}, "1 true truecapacity-reservations-only"},
		{"RunInstances as a dry run", func(ctx context.Context) (reported, error) {
			_, err := w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
				DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", SubnetId: aws.String(subnetA),
				LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("tpl")},
			})
			return code(err), nil
		}, "DryRunOperation"},
		{"DescribeInstanceStatus", func(ctx context.Context) (reported, error) {
			w.pass(time.Minute)
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultImpair, Target: id}); err != nil {
				return "", err
			}
			out, err := w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{Filters: filter("instance-status.status", "impaired")})
			if err != nil {
				return "", err
			}
			d := out.InstanceStatuses[0].InstanceStatus.Details[0]
			return fmt.Sprint(len(out.InstanceStatuses), " ", d.Status, " ", d.ImpairedSince != nil), nil
		}, "1 failed true"},
		{"RebootInstances", func(ctx context.Context) (reported, error) {
			_, err := w.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}, DryRun: aws.Bool(true)})
			out := []string{code(err)}
			_, err = w.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id, "i-0123"}})
			out = append(out, code(err), fmt.Sprint(w.sim.Instances()[0].Reboots))
			_, err = w.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}})
			in := w.sim.Instances()[0]
			return strings.Join(append(out, fmt.Sprint(in.Reboots), in.State), " "), err
		}, "DryRunOperation InvalidInstanceID.NotFound 0 1 running"},
		{"TerminateInstances", func(ctx context.Context) (reported, error) {
			out, err := w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			if err != nil {
				return "", err
			}
			c := out.TerminatingInstances[0]
			return fmt.Sprint(c.PreviousState.Name, " ", c.CurrentState.Name), nil
		}, "running shutting-down"},
		{"DeleteLaunchTemplate", func(ctx context.Context) (reported, error) {
			_, err := w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("tpl")})
			if err != nil {
				return "", err
			}
			_, err = w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"tpl"}})
			return code(err), nil
		}, "InvalidLaunchTemplateName.NotFoundException"},
	}
}

func (w *world) profileSteps() []step {
	client, name, role := iam.NewFromConfig(w.cfg), aws.String("nodes"), aws.String("KarpenterNodeRole-demo")
	return []step{
		{"an instance profile's life", func(ctx context.Context) (reported, error) {
			_, err := client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
			out := []string{code(err)}
			if _, err := client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name, Path: aws.String("/karpenter/us-east-1/demo/uid/")}); err != nil {
				return "", err
			}
			_, err = client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name})
			out = append(out, code(err))
			_, err = client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("none")})
			out = append(out, code(err))
			if _, err = client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: role}); err != nil {
				return "", err
			}
			if _, err = client.GetRole(ctx, &iam.GetRoleInput{RoleName: role}); err != nil {
				return "", err
			}
			_, err = client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
			return strings.Join(append(out, code(err)), " "), nil
		}, "NoSuchEntity EntityAlreadyExists NoSuchEntity DeleteConflict"},
		{"TagInstanceProfile and ListInstanceProfiles", func(ctx context.Context) (reported, error) {
			in := &iam.TagInstanceProfileInput{InstanceProfileName: name}
			in.Tags = append(in.Tags, iamTag("a", "1"))
			if _, err := client.TagInstanceProfile(ctx, in); err != nil {
				return "", err
			}
			out, err := client.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/us-east-1/demo/")})
			if err != nil {
				return "", err
			}
			p := out.InstanceProfiles[0]
			return fmt.Sprint(len(out.InstanceProfiles), " ", aws.ToString(p.Roles[0].RoleName), " ", aws.ToString(p.Path), " ", aws.ToString(p.Tags[0].Key)), nil
		}, "1 KarpenterNodeRole-demo /karpenter/us-east-1/demo/uid/ a"},
		{"its end", func(ctx context.Context) (reported, error) {
			if _, err := client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role}); err != nil {
				return "", err
			}
			_, err := client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
			return strings.Join(w.sim.Profiles(), " "), err
		}, ""},
	}
}

func (w *world) queueSteps() []step {
	client := sqs.NewFromConfig(w.cfg)
	return []step{
		{"a queue", func(ctx context.Context) (reported, error) {
			_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("none")})
			missing := code(err)
			url, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("demo")})
			if err != nil {
				return "", err
			}
			if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url.QueueUrl, MessageBody: aws.String("hello")}); err != nil {
				return "", err
			}
			receive := func() *sqs.ReceiveMessageOutput {
				var out *sqs.ReceiveMessageOutput
				out, err = client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 20, WaitTimeSeconds: 20})
				return out
			}
			first := receive()
			if err != nil {
				return "", err
			}
			last := first.Messages[len(first.Messages)-1]
			hidden := receive()
			w.pass(20 * time.Second)
			again := receive()
			if err != nil {
				return "", err
			}
			for _, m := range again.Messages {
				if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url.QueueUrl, ReceiptHandle: m.ReceiptHandle}); err != nil {
					return "", err
				}
			}
			return fmt.Sprint(strings.HasSuffix(missing, "QueueDoesNotExist"), aws.ToString(last.Body), len(hidden.Messages), len(again.Messages) >= len(first.Messages), w.sim.QueueLength()), nil
		}, "truehello0 true 0"},
	}
}

func (w *world) otherSteps() []step {
	return []step{
		{"DescribeCluster", func(ctx context.Context) (reported, error) {
			out, err := eks.NewFromConfig(w.cfg).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("demo")})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(aws.ToString(out.Cluster.Version), " ", aws.ToString(out.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr), " ", aws.ToString(out.Cluster.Arn)), nil
		}, "1.35 172.20.0.0/16 arn:aws:eks:us-east-1:111122223333:cluster/demo"},
		{"GetManagedResource", w.managedResource, "use1-az4 APPLIED"},
		{"GetCallerIdentity", func(ctx context.Context) (reported, error) {
			out, err := sts.NewFromConfig(w.cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			if err != nil {
				return "", err
			}
			return aws.ToString(out.Account), nil
		}, "111122223333"},
	}
}

// managedResource asks for the cluster's zonal shifts while there is one.
func (w *world) managedResource(ctx context.Context) (reported, error) {
	w.sim.Shift(awssim.ZonalShift{AwayFrom: "use1-az4", Expires: w.clock.Now().Add(time.Hour)})
	out, err := arczonalshift.NewFromConfig(w.cfg).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{
		ResourceIdentifier: aws.String("arn:aws:eks:us-east-1:111122223333:cluster/demo"),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(aws.ToString(out.ZonalShifts[0].AwayFrom), " ", out.ZonalShifts[0].AppliedStatus), nil
}

func iamTag(key, value string) iamtypes.Tag {
	return iamtypes.Tag{Key: aws.String(key), Value: aws.String(value)}
}

// TestUnknownOperation: what is outside of the list is refused and remembered.
func TestUnknownOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if _, err := w.ec2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}); code(err) != "InvalidAction" {
		t.Errorf("DescribeVpcs: %v, want InvalidAction", err)
	}
	if _, err := eks.NewFromConfig(w.cfg).ListClusters(t.Context(), &eks.ListClustersInput{}); code(err) != "InvalidAction" {
		t.Errorf("ListClusters: %v, want InvalidAction", err)
	}
	if got, want := w.sim.Unknown(), []string{"ec2:DescribeVpcs", "eks:GET /clusters"}; !slices.Equal(got, want) {
		t.Errorf("unknown: %v, want %v", got, want)
	}
}
