package aws

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const providerName = "aws"

// Provider is EC2. It is composed of one part for each subject, in the order in which they
// build on each other; each part has its own state and lock.
type Provider struct {
	client  client.Client
	opts    *Options
	clients *clients
	limits  *limiter

	market       *marketSource
	memory       *nodeMemory
	profiles     *profiles
	types        *instanceTypes
	templates    *templates
	ledger       *ledger
	instances    *instances
	launcher     *launcher
	classes      *classReconciler
	memoryReader *memoryReader
}

// New returns a provider for the cluster that c talks to. Nothing is asked of AWS yet.
func New(c client.Client, options Options) (*Provider, error) {
	options, err := options.withDefaults(c)
	if err != nil {
		return nil, err
	}
	opts := &options
	p := &Provider{client: c, opts: opts, clients: &clients{}, limits: newLimiter(opts.Now, opts.Called)}
	p.connect()
	region, info, a := &zones{}, newClusterInfo(opts, p.clients), &addresses{now: opts.Now}
	away := &shifts{opts: opts, clients: p.clients, cluster: info, zones: region}
	reserved := &reservations{opts: opts, clients: p.clients}
	groups := &placementGroups{clients: p.clients, found: cache[*types.PlacementGroup]{now: opts.Now, ttl: placementGroupKept}}
	p.market = newMarketSource(opts, p.clients)
	p.memory = &nodeMemory{client: c, opts: opts}
	p.profiles = &profiles{opts: opts, clients: p.clients, made: cache[string]{now: opts.Now, ttl: profileKept}}
	p.types = &instanceTypes{
		client: c, opts: opts, market: p.market, memory: p.memory, reservations: reserved, placementGroups: groups, shifts: away,
		lists: cache[[]*catalog.Type]{now: opts.Now, ttl: typesKept, most: listsMost},
	}
	p.templates = &templates{opts: opts, clients: p.clients, limits: p.limits, types: p.types, userData: userDataMaker{opts, info}, used: map[string]time.Time{}}
	f := &fleets{
		opts: opts, clients: p.clients, cluster: info, templates: p.templates, addresses: a, reservations: reserved, shifts: away, zones: region,
	}
	p.ledger = newLedger()
	p.instances = newInstances(opts, p.clients, p.ledger, p.types, region)
	p.wireLedger(f)
	p.launcher = &launcher{client: c, fleets: f, ledger: p.ledger, types: p.types}
	p.classes = &classReconciler{
		client: c, opts: opts, images: newImages(opts, p.clients, info), network: newNetwork(opts, p.clients, region, a),
		reservations: reserved, placementGroups: groups, profiles: p.profiles, templates: p.templates,
		validator: &validator{opts: opts, clients: p.clients, cluster: info, types: p.types, fleets: f},
	}
	if opts.ReadOnly {
		p.types.resolveCopy = p.classes.resolveCopy
	}
	p.memoryReader = &memoryReader{client: c, opts: opts, memory: p.memory, types: p.types, instances: p.instances}
	return p, nil
}

// wireLedger gives the ledger its ways to EC2 and to the NodeClaims.
func (p *Provider) wireLedger(f *fleets) {
	marked := claims{p.client, p.opts.Marks, p.opts.Reader}
	l := p.ledger
	l.note, l.marks, l.isWanted = marked.note, marked.marks, marked.isWanted
	l.now, l.log, l.send = p.opts.Now, p.opts.Log, f.send
	l.gathered = func(waited time.Duration, size int) { p.opts.Meter.Gathered("create_fleet", waited, size) }
	l.find = p.instances.ofLaunch
	l.throttle = func(ctx context.Context) error { return p.limits.prepay(ctx, "CreateFleet") }
}

// connect makes the clients anew.
func (p *Provider) connect() {
	config := p.opts.Config
	if p.opts.ReadOnly {
		config = readOnly(config)
	}
	*p.clients = connect(config, p.limits)
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

// Register adds the loop that keeps the status of classes to a manager.
func (p *Provider) Register(mgr ctrl.Manager) error { return p.classes.register(mgr) }

// Types returns every type that the class can launch.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	return p.types.of(ctx, ref)
}

// Devices returns the devices of the drivers whose feature gates are on, as far as they are known of
// the type and the types of the class have been asked for.
func (p *Provider) Devices(ref cloud.ClassRef, instanceType string) []resourceapi.ResourceSliceSpec {
	return p.types.devices.of(ref.Name, instanceType)
}

// DriversOnRequest returns the driver of EFAs: an instance has them if it is launched with them.
func (p *Provider) DriversOnRequest() []string {
	if p.opts.EFADevices {
		return []string{instance.DriverEFA}
	}
	return nil
}

// Launch starts instances for the requests, those that want the same together. It waits for
// EC2's answer, not for boots.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	return p.launcher.launch(ctx, requests)
}

// Get returns one instance.
func (p *Provider) Get(ctx context.Context, id string) (cloud.Instance, error) {
	return p.instances.get(ctx, id)
}

// List returns every instance of this cluster. Those of a batch whose outcome is not known
// are left out: nobody can say yet whose they are.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) { return p.instances.list(ctx) }

// Terminate ends an instance.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	return p.instances.terminate(ctx, id)
}

// Watch reads the interruption queue, if there is one, EC2's status checks, and whatever else
// is said of instances, blocks and zones.
func (p *Provider) Watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	notify := p.notifier(report)
	var loops sync.WaitGroup
	if p.opts.InterruptionQueue != "" {
		loops.Go(func() { (&queueReader{opts: p.opts, clients: p.clients, notify: notify}).watch(ctx) })
	}
	loops.Go(func() { (&statusReader{opts: p.opts, clients: p.clients, notify: notify}).watch(ctx) })
	if p.opts.Reservations {
		loops.Go(func() {
			(&blockReader{client: p.client, opts: p.opts, instances: p.instances, report: report}).watch(ctx)
		})
	}
	if p.opts.ZonalShift {
		loops.Go(func() { p.types.shifts.watch(ctx, report) })
	}
	loops.Wait()
}

// notifier reports the notices that are about instances of this cluster.
func (p *Provider) notifier(report reporter) *notifier {
	return &notifier{instances: p.instances, report: report}
}
