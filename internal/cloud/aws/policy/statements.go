package policy

import (
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Operators of conditions.
const (
	equals    = "StringEquals"
	like      = "StringLike"
	onlyThese = "ForAllValues:StringEquals"
)

// anything stands for every value of a tag that must be there.
const anything = "*"

// Policies returns the managed policies that the controller's role needs.
func Policies(p Params) []Policy {
	return []Policy{
		{"Nodes", document(p.launchFrom(), p.launchByOwn(), p.makeOwn(), p.tagNew(), p.tagOwn(), p.endOwn(), p.rebootOwn())},
		{"Profiles", document(p.passRole(), p.makeProfiles(), p.changeProfiles(), p.readProfiles())},
		{"Interruption", document(p.readQueue())},
		{"Discovery", document(p.describe(), p.readParameters(), p.readPrices(), p.readCluster(), p.readShifts())},
	}
}

// Implied returns the actions that no operation is named after. AWS checks them with another
// operation, which is the value.
func Implied() map[string]string {
	return map[string]string{
		"iam:PassRole":           "CreateFleet and AddRoleToInstanceProfile give instances a role",
		"iam:TagInstanceProfile": "CreateInstanceProfile tags what it makes",
	}
}

func document(statements ...Statement) Document { return Document{"2012-10-17", statements} }

func allow(sid string, actions, resources []string, condition map[string]map[string][]string) Statement {
	return Statement{sid, "Allow", actions, resources, condition}
}

// launchFrom allows launches to use images, subnets and other resources that others made.
func (p *Params) launchFrom() Statement {
	return allow("LaunchFromWhatThereIs", []string{"ec2:CreateFleet", "ec2:RunInstances"}, []string{
		p.ec2("", "image"), p.ec2("", "snapshot"),
		p.ec2("*", "capacity-reservation"), p.ec2("*", "placement-group"), p.ec2("*", "security-group"), p.ec2("*", "subnet"),
	}, nil)
}

func (p *Params) launchByOwn() Statement {
	return allow("LaunchByOwnTemplates", []string{"ec2:CreateFleet", "ec2:RunInstances"}, []string{p.ec2("*", "launch-template")}, p.own())
}

func (p *Params) makeOwn() Statement {
	return allow("MakeWhatIsTaggedAsOwn", []string{"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"}, p.made(), p.tagged())
}

func (p *Params) tagNew() Statement {
	condition := p.tagged()
	condition[equals]["ec2:CreateAction"] = []string{"CreateFleet", "CreateLaunchTemplate", "RunInstances"}
	return allow("TagWhatIsMade", []string{"ec2:CreateTags"}, p.made(), condition)
}

func (p *Params) tagOwn() Statement {
	condition := p.own()
	condition[onlyThese] = map[string][]string{"aws:TagKeys": {awsv1.TagNodeClaim, awsv1.TagName}}
	return allow("TagOwnInstances", []string{"ec2:CreateTags"}, []string{p.ec2("*", "instance")}, condition)
}

func (p *Params) endOwn() Statement {
	return allow("EndOwn", []string{"ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"}, []string{p.ec2("*", "instance"), p.ec2("*", "launch-template")}, p.own())
}

// rebootOwn is needed where nodes are rebooted for repair.
func (p *Params) rebootOwn() Statement {
	return allow("RebootOwn", []string{"ec2:RebootInstances"}, []string{p.ec2("*", "instance")}, p.own())
}

func (p *Params) passRole() Statement {
	return allow("GiveInstancesTheirRole", []string{"iam:PassRole"}, []string{p.iam("role/" + p.NodeRole)}, map[string]map[string][]string{
		equals: {"iam:PassedToService": {"ec2.amazonaws.com", "ec2.amazonaws.com.cn"}},
	})
}

func (p *Params) makeProfiles() Statement {
	return allow("MakeOwnProfiles", []string{"iam:CreateInstanceProfile", "iam:TagInstanceProfile"}, []string{p.profiles()}, p.profileTags("aws:RequestTag/"))
}

func (p *Params) changeProfiles() Statement {
	return allow("ChangeOwnProfiles", []string{"iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"},
		[]string{p.profiles()}, p.profileTags("aws:ResourceTag/"))
}

// readProfiles allows all profiles: one that does not exist has no path by which to allow it.
func (p *Params) readProfiles() Statement {
	return allow("ReadProfiles", []string{"iam:GetInstanceProfile", "iam:ListInstanceProfiles"}, []string{p.iam("instance-profile/*")}, nil)
}

func (p *Params) readQueue() Statement {
	return allow("ReadQueue", []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
		[]string{p.arn("sqs", p.Region, p.Account, p.Queue)}, nil)
}

// describe: EC2 lists everything or nothing.
func (p *Params) describe() Statement {
	return allow("Describe", []string{
		"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings",
		"ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
		"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
	}, []string{"*"}, map[string]map[string][]string{equals: {"aws:RequestedRegion": {p.Region}}})
}

func (p *Params) readParameters() Statement {
	return allow("ReadImagesOfAliases", []string{"ssm:GetParameter"}, []string{p.arn("ssm", p.Region, "", "parameter/aws/service/*")}, nil)
}

func (p *Params) readPrices() Statement {
	return allow("ReadPrices", []string{"pricing:GetProducts"}, []string{"*"}, nil)
}

func (p *Params) readCluster() Statement {
	return allow("ReadCluster", []string{"eks:DescribeCluster"}, []string{p.arn("eks", p.Region, p.Account, "cluster/"+p.Cluster)}, nil)
}

func (p *Params) readShifts() Statement {
	return allow("ReadZonalShifts", []string{"arc-zonal-shift:GetManagedResource"}, []string{p.arn("eks", p.Region, p.Account, "cluster/"+p.Cluster)}, nil)
}

// made returns the kinds of resources that a launch creates and tags.
func (p *Params) made() []string {
	var out []string
	for _, kind := range []string{"fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume"} {
		out = append(out, p.ec2("*", kind))
	}
	return out
}

// tagged is the condition that a request gives the cluster's tags to what it creates.
func (p *Params) tagged() map[string]map[string][]string {
	const tag = "aws:RequestTag/"
	return map[string]map[string][]string{
		equals: {
			tag + awsv1.TagClusterPrefix + p.Cluster: {awsv1.TagClusterOwned},
			tag + awsv1.TagEKSClusterName:            {p.Cluster},
		},
		like: {tag + awsv1.TagNodePool: {anything}},
	}
}

// own is the condition that a resource has the cluster's tags.
func (p *Params) own() map[string]map[string][]string {
	const tag = "aws:ResourceTag/"
	return map[string]map[string][]string{
		equals: {tag + awsv1.TagClusterPrefix + p.Cluster: {awsv1.TagClusterOwned}},
		like:   {tag + awsv1.TagNodePool: {anything}},
	}
}

func (p *Params) profileTags(tag string) map[string]map[string][]string {
	return map[string]map[string][]string{
		equals: {
			tag + awsv1.TagClusterPrefix + p.Cluster: {awsv1.TagClusterOwned},
			tag + awsv1.TagEKSClusterName:            {p.Cluster},
			tag + corev1.LabelTopologyRegion:         {p.Region},
		},
		like: {tag + awsv1.TagNodeClass: {anything}},
	}
}

// profiles are the instance profiles of the cluster, by their path.
func (p *Params) profiles() string {
	return p.iam("instance-profile/karpenter/" + p.Region + "/" + p.Cluster + "/*")
}

func (p *Params) iam(resource string) string { return p.arn("iam", "", p.Account, resource) }

func (p *Params) ec2(account, kind string) string {
	return p.arn("ec2", p.Region, account, kind+"/*")
}

func (p *Params) arn(service, region, account, resource string) string {
	return "arn:" + p.Partition + ":" + service + ":" + region + ":" + account + ":" + resource
}
