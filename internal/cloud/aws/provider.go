package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go/middleware"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const (
	providerName = "aws"
	classKind    = "EC2NodeClass"

	// requestPatience is how long one attempt of a request may take.
	requestPatience = time.Minute

	profileKept        = 15 * time.Minute
	placementGroupKept = time.Minute
	versionKept        = 5 * time.Minute
	clusterKept        = 5 * time.Minute
)

// Options are what a provider is made of.
type Options struct {
	// ClusterName is that of the EKS cluster; what is made in AWS is tagged with it.
	ClusterName string
	// ClusterEndpoint is the URL of the API server that nodes join at; empty: EKS is asked.
	ClusterEndpoint string
	// ClusterCABundle is the certificate of that API server, PEM in base64.
	ClusterCABundle string
	// VMMemoryOverheadPercent is the part of a machine's memory that its hypervisor keeps, of 1.
	VMMemoryOverheadPercent float64
	// ReservedENIs are interfaces of every machine that pods do not get addresses from.
	ReservedENIs int64
	// KubernetesVersion returns major.minor of the cluster; nil: EKS is asked.
	KubernetesVersion func(context.Context) (string, error)
	// IsolatedVPC: the services that have no endpoint in a VPC are left alone, IAM and Pricing.
	IsolatedVPC bool
	// InterruptionQueue is the name of the SQS queue with EC2's notices; empty: there is none.
	InterruptionQueue string
	// DisableDryRun: node classes are not tried out before they are Ready.
	DisableDryRun bool
	// KubeletExpressions: spec.kubelet may have expressions.
	KubeletExpressions bool
	// AMIRefresh, SubnetRefresh and GroupRefresh are for how long the images, subnets and
	// security groups that were found for a class hold; 0: five minutes, one, and five.
	AMIRefresh, SubnetRefresh, GroupRefresh time.Duration
	// Reservations: capacity reservations are used.
	Reservations bool
	// ZonalShift: zones that are shifted away from are left alone.
	ZonalShift bool
	// Config is how AWS is reached.
	Config aws.Config
	// Reader reads from the API server itself; nil: the client.
	Reader client.Reader
	Now    func() time.Time
	Log    *slog.Logger
	// Called is told of every request to AWS and of each of its attempts; may be nil.
	Called func(Call)
	// Heard is told of every message of the queue that was handled: its kind and how long it
	// was under way; may be nil.
	Heard func(kind string, underWay time.Duration)
	// Meter is told what else is counted; nil: nobody.
	Meter Meter
}

// Meter counts what becomes of machines.
type Meter interface {
	// LaunchFailed is told of each no in EC2's answer to a launch.
	LaunchFailed(zone, zoneID, capacityType, reason string)
	// TerminationFailed is told of each machine that EC2 did not end when it was asked to.
	TerminationFailed(zone, zoneID string)
	// Gathered is told of each request that is for several: what it asks, for how long it
	// was gathered, and for how many it is.
	Gathered(what string, waited time.Duration, size int)
	// UserData is told the size of what machines of a class run at their start, before it is
	// encoded; 0: the class is gone.
	UserData(class string, bytes int)
	// Unhealthy is told of each machine of which EC2 says something bad that it did not say
	// before: instance_status, system_status, event_status.
	Unhealthy(category string)
	// PricesRead is told, whenever prices of a capacity type were read or could not be, when
	// those in use were read.
	PricesRead(capacityType string, at time.Time)
}

// deaf is the meter of those who do not count.
type deaf struct{}

func (deaf) LaunchFailed(_, _, _, _ string)      {}
func (deaf) TerminationFailed(_, _ string)       {}
func (deaf) Gathered(string, time.Duration, int) {}
func (deaf) UserData(string, int)                {}
func (deaf) Unhealthy(string)                    {}
func (deaf) PricesRead(string, time.Time)        {}

// clients are those of the services of AWS.
type clients struct {
	EC2     *ec2.Client
	SSM     *ssm.Client
	IAM     *iam.Client
	EKS     *eks.Client
	Pricing *pricing.Client
	SQS     *sqs.Client
	// ZonalShift is Amazon Application Recovery Controller.
	ZonalShift *arczonalshift.Client
}

// Provider is EC2.
type Provider struct {
	client    client.Client
	opts      Options
	clients   clients
	budget    *budget
	ledger    *ledger
	addresses *addresses
	reserved  reserved
	shifts    shifts
	templates *templates
	stall     *stall
	memory    memory
	profiles  cache[string] // made sure of
	// aliases and parameters are values of SSM parameters; empty: there is none.
	aliases, parameters cache[string]
	versions, resolvers cache[string]
	clusters            cache[eksCluster]
	types               cache[[]*catalog.Type]
	tried               trials
	images              cache[[]awsv1.AMI]
	groups              cache[[]awsv1.SecurityGroup]
	subnets             cache[[]awsv1.Subnet]
	// placementGroups has nil for those that do not exist.
	placementGroups cache[*ec2types.PlacementGroup]
	looks           gatherer[machine]
	ends            gatherer[ending]
	finds           gatherer[[]machine]

	mu     sync.Mutex
	zones  map[string]string    // their ids, by name, as far as a class has a subnet there
	known  map[string]known     // by instance id; what EC2 said last
	ended  map[string]time.Time // by instance id
	tagged map[string]bool      // by instance id
	listed time.Time            // when known had all instances that EC2 showed

	// idleProfiles is since when instance profiles are needed by nothing, by name. One chore
	// uses it.
	idleProfiles map[string]time.Time
}

type known struct {
	machine machine
	at      time.Time
}

// New returns a provider for the cluster that c talks to. Nothing is asked of AWS yet.
func New(c client.Client, opts Options) (*Provider, error) {
	if opts.ClusterName == "" {
		return nil, errors.New("aws provider: no cluster name; set --cluster-name or CLUSTER_NAME")
	}
	if opts.Now == nil {
		return nil, errors.New("aws provider: no clock")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Reader == nil {
		opts.Reader = c
	}
	if opts.Meter == nil {
		opts.Meter = deaf{}
	}
	opts.AMIRefresh, opts.SubnetRefresh = cmp.Or(opts.AMIRefresh, imagesAgain), cmp.Or(opts.SubnetRefresh, subnetsAgain)
	opts.GroupRefresh = cmp.Or(opts.GroupRefresh, groupsAgain)
	p := &Provider{
		client: c, opts: opts, budget: newBudget(opts.Now, opts.Called), addresses: &addresses{now: opts.Now}, shifts: shifts{now: opts.Now},
		aliases:         cache[string]{now: opts.Now, ttl: latestKept},
		parameters:      cache[string]{now: opts.Now, ttl: ownKept},
		clusters:        cache[eksCluster]{now: opts.Now, ttl: clusterKept},
		resolvers:       cache[string]{now: opts.Now, ttl: versionKept},
		versions:        cache[string]{now: opts.Now, ttl: versionKept},
		types:           cache[[]*catalog.Type]{now: opts.Now, ttl: typesKept, most: listsMost},
		images:          cache[[]awsv1.AMI]{now: opts.Now, ttl: opts.AMIRefresh - sooner},
		groups:          cache[[]awsv1.SecurityGroup]{now: opts.Now, ttl: opts.GroupRefresh - sooner},
		subnets:         cache[[]awsv1.Subnet]{now: opts.Now, ttl: opts.SubnetRefresh - sooner},
		profiles:        cache[string]{now: opts.Now, ttl: profileKept},
		placementGroups: cache[*ec2types.PlacementGroup]{now: opts.Now, ttl: placementGroupKept},
		ledger:          newLedger(), zones: map[string]string{}, known: map[string]known{}, ended: map[string]time.Time{}, tagged: map[string]bool{},
	}
	p.connect()
	if opts.KubernetesVersion == nil {
		p.opts.KubernetesVersion = func(ctx context.Context) (string, error) {
			facts, err := p.cluster(ctx)
			return facts.version, err
		}
	}
	p.looks.ask, p.ends.ask, p.finds.ask = p.look, p.end, p.find
	gathered := func(what string) func(time.Duration, int) {
		return func(waited time.Duration, size int) { p.opts.Meter.Gathered(what, waited, size) }
	}
	p.looks.now, p.ends.now, p.finds.now = opts.Now, opts.Now, opts.Now
	p.looks.gathered, p.ends.gathered, p.ledger.gathered = gathered("describe_instances"), gathered("terminate_instances"), gathered("create_fleet")
	p.finds.gathered = p.looks.gathered
	marked := claims{c, opts.Reader}
	p.ledger.note, p.ledger.marks, p.ledger.waits = marked.note, marked.marks, marked.waits
	p.ledger.now, p.ledger.log, p.ledger.send = opts.Now, opts.Log, p.send
	p.ledger.find = func(ctx context.Context, launch string) ([]machine, error) {
		found, _, err := p.finds.get(ctx, launch)
		return found, err
	}
	p.ledger.turn = func(ctx context.Context) error { return p.budget.turn(ctx, "CreateFleet") }
	p.stall = newStall(p)
	p.templates = newTemplates(p)
	return p, nil
}

// connect makes the clients, all of which keep to the budget.
func (p *Provider) connect() {
	reach := p.opts.Config.Copy()
	reach.APIOptions = append(slices.Clone(reach.APIOptions), func(s *middleware.Stack) error { return p.budget.install(s) })
	reach.Retryer = steady
	p.clients = clients{
		EC2: ec2.NewFromConfig(reach), SSM: ssm.NewFromConfig(reach), IAM: iam.NewFromConfig(reach),
		EKS: eks.NewFromConfig(reach), Pricing: pricing.NewFromConfig(reach, priceList), SQS: sqs.NewFromConfig(reach),
		ZonalShift: arczonalshift.NewFromConfig(reach),
	}
}

// Name returns "aws".
func (p *Provider) Name() string { return providerName }

// ClassKinds returns EC2NodeClass.
func (p *Provider) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{awsv1.GroupVersion.WithKind(classKind)}
}

// Vocabulary returns the labels of EC2's instance types.
func (p *Provider) Vocabulary() cloud.Vocabulary {
	return cloud.Vocabulary{
		WellKnown: instance.WellKnown(), RestrictedDomains: []string{awsv1.Group}, ReservationKey: awsv1.LabelCapacityReservationID,
		ReservationKeys: []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible},
	}
}

// class returns a node class; cloud.ErrNotFound: there is none.
func (p *Provider) class(ctx context.Context, ref cloud.ClassRef) (*awsv1.EC2NodeClass, error) {
	if ref.Group != awsv1.Group || ref.Kind != classKind {
		return nil, fmt.Errorf("get node class %s of group %s: %w", ref, ref.Group, cloud.ErrNotFound)
	}
	class := &awsv1.EC2NodeClass{}
	err := p.client.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s: %w", ref, err)
	}
	return class, nil
}

// typesFor returns the types of a machine's class; none if they are not known.
func (p *Provider) typesFor(ctx context.Context, m *machine) []*catalog.Type {
	types, err := p.Types(ctx, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: m.Tags[awsv1.TagNodeClass]})
	if err != nil {
		p.opts.Log.Debug("the type of an instance is not known", "instance", m.ID, "error", err)
		return nil
	}
	return types
}

// RepairPolicies says how long a node may have a condition that means a broken machine. Those
// beyond Ready are set by EKS' node monitoring agent.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	const usual, accelerator = 30 * time.Minute, 10 * time.Minute
	of := func(condition string, status corev1.ConditionStatus, toleration time.Duration) cloud.RepairPolicy {
		return cloud.RepairPolicy{ConditionType: condition, ConditionStatus: string(status), Toleration: toleration}
	}
	return []cloud.RepairPolicy{
		of(string(corev1.NodeReady), corev1.ConditionFalse, usual), of(string(corev1.NodeReady), corev1.ConditionUnknown, usual),
		of("AcceleratedHardwareReady", corev1.ConditionFalse, accelerator), of("StorageReady", corev1.ConditionFalse, usual),
		of("NetworkingReady", corev1.ConditionFalse, usual), of("KernelReady", corev1.ConditionFalse, usual),
		of("ContainerRuntimeReady", corev1.ConditionFalse, usual),
	}
}

// LoadConfig returns how AWS is reached, as the environment says: AWS_REGION or, failing
// that, the metadata of the machine; credentials by any of the SDK's ways.
func LoadConfig(ctx context.Context) (aws.Config, error) {
	loaded, err := config.LoadDefaultConfig(ctx, config.WithEC2IMDSRegion(), config.WithHTTPClient(
		awshttp.NewBuildableClient().WithTimeout(requestPatience)))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if loaded.Region == "" {
		return aws.Config{}, errors.New("read AWS configuration: no region; set AWS_REGION")
	}
	return loaded, nil
}
