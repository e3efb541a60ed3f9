package e2e

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// TestMotoLacks asks moto for each thing that TestMoto leaves out because moto lacks it, and
// skips it by name. One that passes is one that newer versions of moto have: it belongs in
// TestMoto then.
func TestMotoLacks(t *testing.T) {
	t.Parallel()
	m := startMoto(t)
	m.template(t)
	for _, lack := range []struct {
		name, untested string
		has            func(*testing.T) bool
	}{
		{"CreateFleet with the client token of an earlier one", "a launch that is repeated: moto starts a second instance", m.hasTokens},
		{"CreateFleet that refuses what has no room", "shortages and quotas: moto has room for everything, and answers 500 when a subnet has no addresses", m.hasRefusals},
		{"CreateFleet by the whole of a launch template", "profile, interfaces, security groups and volumes of instances: moto's fleets take image and user data alone", m.hasProfiles},
		{"DescribeInstanceStatus with filters", "status checks and scheduled events: moto's instances are all well", m.hasStatus},
		{"DescribePlacementGroups", "placement groups", m.hasPlacementGroups},
		{"DescribeCapacityReservations", "capacity reservations and blocks", m.hasReservations},
		{"GetProducts", "the price list: prices on demand are those in the binary", m.hasPriceList},
		{"GetManagedResource", "zonal shifts", m.hasZonalShift},
		{"parameters of EKS' images", "aliases of images: the class of TestMoto names a parameter of its own", m.hasAliases},
		{"DescribeCluster with a signature that is checked", "rights on EKS: a second server plays EKS, which checks nobody", m.hasSignedEKS},
		{"conditions in policies", "how far a right reaches: TestMoto holds the controller to the actions of the published policies", m.hasConditions},
	} {
		t.Run(lack.name, func(t *testing.T) {
			if !lack.has(t) {
				t.Skipf("moto lacks it. Not tested on it: %s", lack.untested)
			}
		})
	}
}

// motoTemplate is a launch template with an instance profile.
const motoTemplate = "lacks"

func (m *moto) template(t *testing.T) {
	t.Helper()
	profile, image := "lacks", m.publishImage("node-2")
	must(m.iam.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &profile}))(t)
	must(m.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(motoTemplate), LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: &image, IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &profile},
		},
	}))(t)
}

// fleet launches instances in a subnet and returns their ids.
func (m *moto) fleet(t *testing.T, token, subnet string, count int32) (ids []string, err error) {
	t.Helper()
	override := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceTypeC5Large, SubnetId: &subnet}
	out, err := m.ec2.CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: &token, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &count},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(motoTemplate), Version: aws.String("$Latest")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{override},
		}},
	}, once)
	if err != nil {
		return nil, err
	}
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	return ids, nil
}

// one launches an instance and returns its id.
func (m *moto) one(t *testing.T, token string) string {
	t.Helper()
	subnets := must(m.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t)
	ids := must(m.fleet(t, token, aws.ToString(subnets.Subnets[0].SubnetId), 1))(t)
	if len(ids) != 1 {
		t.Fatalf("%d instances were launched, want 1", len(ids))
	}
	return ids[0]
}

// once has a request sent once: moto answers 500 to what it does not know.
func once(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

func (m *moto) hasTokens(t *testing.T) bool {
	first := m.one(t, "token")
	return m.one(t, "token") == first
}

// hasRefusals asks for more instances than a subnet has addresses.
func (m *moto) hasRefusals(t *testing.T) bool {
	all := must(m.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t)
	small := must(m.ec2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: all.Subnets[0].VpcId, CidrBlock: aws.String("172.31.240.0/28")}))(t)
	ids, err := m.fleet(t, "token of too many", aws.ToString(small.Subnet.SubnetId), 20)
	return err == nil && len(ids) < 20
}

func (m *moto) hasProfiles(t *testing.T) bool {
	id := m.one(t, "token of one with a profile")
	seen := must(m.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}))(t)
	return seen.Reservations[0].Instances[0].IamInstanceProfile != nil
}

func (m *moto) hasStatus(t *testing.T) bool {
	m.one(t, "token of one that is well")
	impaired := must(m.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{
		Filters: []types.Filter{{Name: aws.String("instance-status.status"), Values: []string{"impaired"}}},
	}))(t)
	return len(impaired.InstanceStatuses) == 0
}

func (m *moto) hasPlacementGroups(t *testing.T) bool {
	_, err := m.ec2.DescribePlacementGroups(t.Context(), &ec2.DescribePlacementGroupsInput{}, once)
	return err == nil
}

func (m *moto) hasReservations(t *testing.T) bool {
	_, err := m.ec2.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{}, once)
	return err == nil
}

func (m *moto) hasPriceList(t *testing.T) bool {
	c := pricing.New(pricing.Options{Region: motoRegion, BaseEndpoint: &m.url, Credentials: m.ec2.Options().Credentials, Retryer: aws.NopRetryer{}})
	out, err := c.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2")})
	return err == nil && len(out.PriceList) > 0
}

func (m *moto) hasZonalShift(t *testing.T) bool {
	c := arczonalshift.New(arczonalshift.Options{Region: motoRegion, BaseEndpoint: &m.url, Credentials: m.ec2.Options().Credentials, Retryer: aws.NopRetryer{}})
	_, err := c.GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{
		ResourceIdentifier: aws.String("arn:aws:eks:" + motoRegion + ":" + motoAccount + ":cluster/demo"),
	})
	return err == nil
}

func (m *moto) hasAliases(t *testing.T) bool {
	_, err := m.ssm.GetParameter(t.Context(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"),
	})
	return err == nil
}

func (m *moto) hasSignedEKS(t *testing.T) bool {
	c := eks.New(eks.Options{Region: motoRegion, BaseEndpoint: &m.url, Credentials: m.ec2.Options().Credentials, Retryer: aws.NopRetryer{}})
	_, err := c.ListClusters(t.Context(), &eks.ListClustersInput{})
	return err == nil
}

// hasConditions allows the controller's user something under a condition that does not hold.
func (m *moto) hasConditions(t *testing.T) bool {
	text := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ec2:DescribeVpcs"],"Resource":"*",` +
		`"Condition":{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}}]}`
	must(m.iam.PutUserPolicy(t.Context(), &iam.PutUserPolicyInput{UserName: aws.String(motoUser), PolicyName: aws.String("conditional"), PolicyDocument: &text}))(t)
	c := ec2.New(ec2.Options{
		Region: motoRegion, BaseEndpoint: &m.url, Credentials: credentials.NewStaticCredentialsProvider(m.keys.AccessKeyID, m.keys.SecretAccessKey, ""),
	})
	_, err := c.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}, once)
	return err != nil
}
