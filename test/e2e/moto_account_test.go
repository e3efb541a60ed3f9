package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim/boot"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim/kubelets"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	// motoMissing is what a test says, and make test-moto ends with, where there is no moto.
	motoMissing = "moto_server is not installed, the emulator of AWS that this test is about: pip install 'moto[server]'"
	motoRegion  = "us-east-1"
	motoAccount = "123456789012"
	motoRole    = "KarpenterNodeRole-demo"
	motoUser    = "dovetail"
	motoAdmin   = "admin"
	// motoImage is the SSM parameter that holds the image of nodes. moto has none of EKS'
	// own, and lets nobody make them.
	motoImage = "/demo/image"
	// joinEvery is how often moto is asked for instances that have no Node yet.
	joinEvery = time.Second
)

// moto is an AWS account that a moto_server of our own plays. Its clients are the
// administrator's; keys are those of the controller, which may do what package policy says.
type moto struct {
	t   *testing.T
	url string
	// clusters is the url of a second server that plays EKS and checks nobody: moto takes
	// signed requests to EKS for forged.
	clusters string
	queue    string
	ec2      *ec2.Client
	iam      *iam.Client
	sqs      *sqs.Client
	ssm      *ssm.Client
	keys     aws.Credentials
	types    map[string]types.InstanceTypeInfo // by name; the joiner's
}

// startMoto starts a moto_server, in which there is an EKS cluster called demo and what its
// nodes need. The test is skipped where moto is not installed.
func startMoto(t *testing.T) *moto {
	t.Helper()
	m := &moto{t: t, types: map[string]types.InstanceTypeInfo{}}
	m.url, m.clusters = serveMoto(t), serveMoto(t)
	m.connect(aws.Credentials{AccessKeyID: "setup", SecretAccessKey: "setup"})
	m.furnish()
	m.protect()
	return m
}

// serveMoto starts a moto_server and returns its url.
func serveMoto(t *testing.T) (url string) {
	t.Helper()
	if os.Getenv("TEST_MOTO") == "" {
		t.Skip("it takes minutes, and is run by make test-moto")
	}
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip(motoMissing)
	}
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION=true", "MOTO_ENABLE_AMI_VALIDATION=true")
	server := follow(t, cmd)
	running := regexp.MustCompile(`Running on (http://\S+)`)
	testkit.Eventually(t, patience, func() error {
		found := running.FindStringSubmatch(strings.Join(server.errorLines(), "\n"))
		if found == nil {
			return fmt.Errorf("moto_server does not run yet: %s", server)
		}
		url = found[1]
		return nil
	})
	t.Cleanup(func() {
		for _, line := range server.errorLines() {
			if t.Failed() && strings.Contains(line, " 500 -") {
				t.Log("moto_server: " + line)
			}
		}
	})
	return url
}

// connect makes the clients.
func (m *moto) connect(keys aws.Credentials) {
	config := aws.Config{
		Region: motoRegion, BaseEndpoint: &m.url, Credentials: credentials.NewStaticCredentialsProvider(keys.AccessKeyID, keys.SecretAccessKey, ""),
	}
	m.ec2, m.iam, m.sqs, m.ssm = ec2.NewFromConfig(config), iam.NewFromConfig(config), sqs.NewFromConfig(config), ssm.NewFromConfig(config)
}

// must returns what AWS answers, and ends the test where that is an error.
func must[T any](answer T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// furnish makes what the controller finds and does not make: subnets and a security group
// with the tag of discovery, a role, an image, a queue and the EKS cluster.
func (m *moto) furnish() {
	t, ctx := m.t, m.t.Context()
	t.Helper()
	defaults := must(m.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{}))(t)
	groups := must(m.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(t)
	discovered := []string{aws.ToString(groups.SecurityGroups[0].GroupId)}
	for _, s := range defaults.Subnets[:3] {
		discovered = append(discovered, aws.ToString(s.SubnetId))
	}
	must(m.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: discovered, Tags: motoTags(map[string]string{"karpenter.sh/discovery": "demo"})}))(t)
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	role := must(m.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(motoRole), AssumeRolePolicyDocument: &trust}))(t)
	m.publishImage("node-1")
	queue := must(m.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("demo")}))(t)
	m.queue = aws.ToString(queue.QueueUrl)
	clusters := eks.New(eks.Options{Region: motoRegion, BaseEndpoint: &m.clusters, Credentials: credentials.NewStaticCredentialsProvider("setup", "setup", "")})
	must(clusters.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: aws.String("demo"), RoleArn: role.Role.Arn, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: discovered[1:]},
	}))(t)
}

// publishImage makes a new image the one that nodes are to have, and returns its id. It is a
// copy of one of moto's: those that are registered have no architecture.
func (m *moto) publishImage(name string) string {
	t, ctx := m.t, m.t.Context()
	t.Helper()
	found := must(m.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []types.Filter{{Name: aws.String("architecture"), Values: []string{"x86_64"}}}}))(t)
	image := must(m.ec2.CopyImage(ctx, &ec2.CopyImageInput{Name: &name, SourceImageId: found.Images[0].ImageId, SourceRegion: aws.String(motoRegion)}))(t)
	must(m.ssm.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(motoImage), Value: image.ImageId, Type: ssmtypes.ParameterTypeString, Overwrite: aws.Bool(true),
	}))(t)
	return aws.ToString(image.ImageId)
}

// protect makes two users, of whom one may do everything and the other what the policies that
// we publish name, and has every later request signed and allowed. moto knows no resources
// in policies: the actions alone are held to.
func (m *moto) protect() {
	t, ctx := m.t, m.t.Context()
	t.Helper()
	keysOf := func(name string, actions []string) aws.Credentials {
		must(m.iam.CreateUser(ctx, &iam.CreateUserInput{UserName: &name}))(t)
		m.allow(name, "allowed", "Allow", actions) //nolint:contextcheck // it has the test's
		made := must(m.iam.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: &name}))(t)
		return aws.Credentials{AccessKeyID: aws.ToString(made.AccessKey.AccessKeyId), SecretAccessKey: aws.ToString(made.AccessKey.SecretAccessKey)}
	}
	published := policy.Policies(policy.Params{Partition: "aws", Region: motoRegion, Account: motoAccount, Cluster: "demo", NodeRole: motoRole, Queue: "demo"})
	administrator := keysOf(motoAdmin, []string{"*"})
	m.keys = keysOf(motoUser, policy.Actions(published))
	request := must(http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/moto-api/reset-auth", strings.NewReader("0")))(t)
	answer := must(http.DefaultClient.Do(request))(t) //nolint:bodyclose // it is closed below
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("moto does not check who may do what: %s", answer.Status)
	}
	m.connect(administrator)
}

// allow gives a user a policy of one statement.
func (m *moto) allow(user, name, effect string, actions []string) {
	m.t.Helper()
	text, err := json.Marshal(map[string]any{
		"Version": "2012-10-17", "Statement": []map[string]any{{"Effect": effect, "Action": actions, "Resource": "*"}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	must(m.iam.PutUserPolicy(m.t.Context(), &iam.PutUserPolicyInput{UserName: &user, PolicyName: &name, PolicyDocument: aws.String(string(text))}))(m.t)
}

// environment is how the controller reaches the account.
func (m *moto) environment() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + m.url, "AWS_ENDPOINT_URL_EKS=" + m.clusters, "AWS_REGION=" + motoRegion, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=" + m.keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + m.keys.SecretAccessKey,
	}
}

func motoTags(tags map[string]string) (out []types.Tag) {
	for key, value := range tags {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	return out
}

func motoTag(i *types.Instance, key string) string {
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// instances returns those of the cluster that run, by id.
func (m *moto) instances(ctx context.Context) (map[string]types.Instance, error) {
	out := map[string]types.Instance{}
	pages := ec2.NewDescribeInstancesPaginator(m.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + awsv1.TagEKSClusterName), Values: []string{"demo"}}, {Name: aws.String("instance-state-name"), Values: []string{"running"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out[aws.ToString(i.InstanceId)] = i
			}
		}
	}
	return out, nil
}

// join brings a Node into the cluster for each instance that runs, and takes it away when
// the instance is gone, until ctx ends: moto's instances run nothing.
func (m *moto) join(ctx context.Context, c client.Client) {
	nodes := kubelets.New(c, slog.New(slog.DiscardHandler))
	go nodes.Run(ctx)
	joined := map[string]string{} // names of Nodes by instance
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		running, err := m.instances(ctx)
		if err != nil && ctx.Err() == nil {
			m.t.Errorf("list instances: %v", err)
		}
		for id, i := range running {
			if _, known := joined[id]; known {
				continue
			}
			joined[id] = ""
			if err := m.boot(ctx, nodes, &i); err != nil && ctx.Err() == nil {
				m.t.Errorf("instance %s does not boot: %v", id, err)
				continue
			}
			joined[id] = aws.ToString(i.PrivateDnsName)
		}
		for id, name := range joined {
			if _, runs := running[id]; runs || err != nil {
				continue
			}
			if name != "" {
				nodes.Leave(name)
			}
			delete(joined, id)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// boot does what the instance would do with its user data, as EC2 hands it out.
func (m *moto) boot(ctx context.Context, nodes *kubelets.Nodes, i *types.Instance) error {
	asked, err := m.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: i.InstanceId, Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return err
	}
	if asked.UserData == nil || aws.ToString(asked.UserData.Value) == "" {
		m.t.Logf("instance %s has no user data and joins nothing", aws.ToString(i.InstanceId))
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(aws.ToString(asked.UserData.Value))
	if err != nil {
		return fmt.Errorf("user data: %w", err)
	}
	info, err := m.typeOf(ctx, i.InstanceType)
	if err != nil {
		return err
	}
	zone := aws.ToString(i.Placement.AvailabilityZone)
	node, err := boot.Node(boot.AL2023, data, boot.Instance{
		InstanceID: aws.ToString(i.InstanceId), InstanceType: string(i.InstanceType), Arch: "x86_64", Zone: zone, ZoneID: zone, Region: motoRegion,
		NodeName: aws.ToString(i.PrivateDnsName), Local: aws.ToString(i.PrivateIpAddress), Cluster: "demo", KubeletVersion: "v1.34.2",
		VCPUs: int(aws.ToInt32(info.VCpuInfo.DefaultVCpus)), MemoryBytes: aws.ToInt64(info.MemoryInfo.SizeInMiB) << 20 * 95 / 100,
		ENIs: int(aws.ToInt32(info.NetworkInfo.MaximumNetworkInterfaces)), Addresses: int(aws.ToInt32(info.NetworkInfo.Ipv4AddressesPerInterface)),
		Volumes: map[string]int64{"/dev/xvda": 20 << 30},
	})
	if err != nil {
		return err
	}
	nodes.Join(node)
	return nil
}

func (m *moto) typeOf(ctx context.Context, name types.InstanceType) (types.InstanceTypeInfo, error) {
	if info, ok := m.types[string(name)]; ok {
		return info, nil
	}
	out, err := m.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{name}})
	if err != nil {
		return types.InstanceTypeInfo{}, err
	}
	if len(out.InstanceTypes) != 1 {
		return types.InstanceTypeInfo{}, fmt.Errorf("there are %d instance types %s", len(out.InstanceTypes), name)
	}
	m.types[string(name)] = out.InstanceTypes[0]
	return out.InstanceTypes[0], nil
}
