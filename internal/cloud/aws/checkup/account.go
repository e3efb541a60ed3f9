package checkup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// discoveryTag is on the subnets and security groups that instances may use, with the name of
// the cluster.
const discoveryTag = "karpenter.sh/discovery"

// skewMost is how wrong the clock may be: AWS refuses what was signed more than five minutes off.
const skewMost, skewWarn = 4 * time.Minute, 30 * time.Second

// spotRole is the role that EC2 itself takes on to launch spot instances.
const spotRole = "AWSServiceRoleForEC2Spot"

// credentials asks AWS who is asking, and what time it is there.
func (l *probe) credentials(ctx context.Context) []Finding {
	out, err := l.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return []Finding{because("credentials", err, map[string]string{
			"RequestExpired": "set the clock of this computer", "SignatureDoesNotMatch": "set AWS_SECRET_ACCESS_KEY as it belongs to AWS_ACCESS_KEY_ID",
			"": "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION, to those of the account",
		})}
	}
	found := []Finding{ok("credentials", "account %s, region %s, as %s", aws.ToString(out.Account), l.o.Config.Region, aws.ToString(out.Arn))}
	there, reported := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !reported {
		return append(found, Finding{Check: "clock", Status: Skipped, Found: "AWS' answer has no time"})
	}
	skew := l.o.Now().Sub(there).Round(time.Second)
	f := ok("clock", "%s from AWS'", skew.Abs())
	switch {
	case skew.Abs() > skewMost:
		f.Status, f.Remedy = Failed, "set the clock; AWS refuses requests that are five minutes off"
	case skew.Abs() > skewWarn:
		f.Status, f.Remedy = Warning, "set the clock"
	}
	return append(found, f)
}

func (l *probe) cluster(ctx context.Context) []Finding {
	const check = "EKS cluster"
	out, err := l.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &l.o.Cluster})
	if err != nil {
		return []Finding{because(check, err, map[string]string{
			"ResourceNotFoundException": fmt.Sprintf("give the name that the cluster has in %s: aws eks list-clusters", l.o.Config.Region),
		})}
	}
	l.version = aws.ToString(out.Cluster.Version)
	f := ok(check, "%s, Kubernetes %s, %s", l.o.Cluster, l.version, out.Cluster.Status)
	if out.Cluster.Status != "ACTIVE" {
		f.Status, f.Remedy = Warning, "wait until it is ACTIVE"
	}
	return []Finding{f}
}

func (l *probe) subnets(ctx context.Context) []Finding {
	const check = "subnets"
	var zones []string
	free, found := 0, 0
	pages := ec2.NewDescribeSubnetsPaginator(l.ec2, &ec2.DescribeSubnetsInput{Filters: l.discovered()})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return []Finding{because(check, err, nil)}
		}
		for i := range page.Subnets {
			s := &page.Subnets[i]
			if has := int(aws.ToInt32(s.AvailableIpAddressCount)); has > 0 {
				l.subnet, free = aws.ToString(s.SubnetId), free+has
			}
			found++
			zones = append(zones, aws.ToString(s.AvailabilityZone))
		}
	}
	slices.Sort(zones)
	zones = slices.Compact(zones)
	f := ok(check, "%s in %s, %d free addresses", count(found, "subnet"), count(len(zones), "zone"), free)
	switch {
	case found == 0:
		f = l.untagged(check, "subnet-…")
	case free == 0:
		f.Status, f.Remedy = Failed, "add subnets, or addresses to them"
	case len(zones) == 1:
		f.Status, f.Remedy = Warning, "add subnets of other zones: when this zone has no capacity, no instance can be launched"
	}
	return []Finding{f}
}

// untagged says that nothing is found by the tag.
func (l *probe) untagged(what, example string) Finding {
	return Finding{
		Check: what, Status: Failed, Found: fmt.Sprintf("no %s found: none carries tag %s=%s", what, discoveryTag, l.o.Cluster),
		Remedy: fmt.Sprintf("tag those that instances may use: aws ec2 create-tags --resources %s --tags Key=%s,Value=%s", example, discoveryTag, l.o.Cluster),
	}
}

func (l *probe) discovered() []types.Filter {
	return []types.Filter{{Name: aws.String("tag:" + discoveryTag), Values: []string{l.o.Cluster}}}
}

func (l *probe) groups(ctx context.Context) []Finding {
	const check = "security groups"
	out, err := l.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: l.discovered()})
	if err != nil {
		return []Finding{because(check, err, nil)}
	}
	if len(out.SecurityGroups) == 0 {
		return []Finding{l.untagged(check, "sg-…")}
	}
	var names []string
	for i := range out.SecurityGroups {
		names = append(names, aws.ToString(out.SecurityGroups[i].GroupName))
	}
	slices.Sort(names)
	return []Finding{ok(check, "%s", list(names))}
}

// images looks for the image that instances of the cluster's version start from.
func (l *probe) images(ctx context.Context) []Finding {
	const check = "images"
	if l.version == "" {
		return []Finding{{Check: check, Status: Skipped, Found: "which are right depends on the cluster's version"}}
	}
	name := "/aws/service/eks/optimized-ami/" + l.version + "/amazon-linux-2023/x86_64/standard/recommended/image_id"
	out, err := l.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if err != nil {
		return []Finding{because(check, err, map[string]string{
			"ParameterNotFound": fmt.Sprintf("there is no Amazon Linux 2023 for Kubernetes %s in this region: name images of your own in amiSelectorTerms", l.version),
		})}
	}
	l.image = aws.ToString(out.Parameter.Value)
	return []Finding{ok(check, "al2023@latest for Kubernetes %s is %s", l.version, l.image)}
}

func (l *probe) nodeRole(ctx context.Context) []Finding {
	return []Finding{l.role(ctx, "role of instances", l.o.NodeRole, Failed, "make it as deploy/aws does, or say by --node-role how it is called")}
}

func (l *probe) spotRole(ctx context.Context) []Finding {
	return []Finding{l.role(ctx, "role for spot", spotRole, Warning,
		"if spot instances are wanted and there never was one: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com")}
}

// role looks for a role, which the controller itself need not be allowed to see.
func (l *probe) role(ctx context.Context, check, name string, missing Status, remedy string) Finding {
	_, err := l.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	code, text := "", ""
	if err != nil {
		code, text = explain(err)
	}
	switch {
	case err == nil:
		return ok(check, "%s", name)
	case isDenied(code):
		return Finding{Check: check, Status: Skipped, Found: "the caller may not see whether there is " + name}
	case code == "NoSuchEntity":
		return Finding{Check: check, Status: missing, Found: "there is no role " + name, Remedy: remedy}
	default:
		return Finding{Check: check, Status: Skipped, Found: text}
	}
}

func (l *probe) queue(ctx context.Context) []Finding {
	const check = "interruption queue"
	if l.o.Queue == "" {
		return []Finding{{
			Check: check, Status: Warning, Found: "none is given: interruptions of spot instances are not noticed",
			Remedy: "make one as deploy/aws does, and give --interruption-queue",
		}}
	}
	out, err := l.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &l.o.Queue})
	if err == nil {
		// With no visibility timeout the messages stay in the queue.
		_, err = l.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: out.QueueUrl, MaxNumberOfMessages: 1, VisibilityTimeout: 0})
	}
	if err != nil {
		missing := fmt.Sprintf("there is no queue %s in this region: make it as deploy/aws does, or give the name that it has", l.o.Queue)
		return []Finding{because(check, err, map[string]string{"QueueDoesNotExist": missing, "AWS.SimpleQueueService.NonExistentQueue": missing})}
	}
	return []Finding{ok(check, "%s", aws.ToString(out.QueueUrl))}
}
