package awssim

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// tickMax bounds how long Run sleeps: new events may come in while it does.
	tickMax = 100 * time.Millisecond
	// unknownMax bounds how many calls to unknown operations are remembered by name.
	unknownMax = 100
)

// Sim is one account. Make it with New. It is composed of one part for each service or
// subject; all of them work under its lock.
type Sim struct {
	mu      sync.Mutex
	calls   map[string]int
	unknown []string
	buckets map[string]*bucket

	base         *base
	network      *network
	catalog      *catalog
	ssm          *ssm
	images       *images
	eks          *eks
	iam          *iam
	sqs          *sqs
	templates    *templates
	pools        *pools
	prices       *prices
	reservations *reservations
	placements   *placements
	instances    *instances
	tagging      *tagging
	fleets       *fleets
}

// New returns an account in its first second. The error is about the shipped catalog or
// about options that contradict each other.
func New(opts Options) (*Sim, error) {
	opts = opts.withDefaults()
	all, err := shippedTypes()
	if err != nil {
		return nil, err
	}
	types, err := all.of(opts.Families)
	if err != nil {
		return nil, err
	}
	s := &Sim{calls: map[string]int{}, buckets: map[string]*bucket{}}
	s.base = &base{
		opts: &opts, clock: opts.Clock, rng: rand.New(rand.NewPCG(opts.Seed, 0x61777373696d)), refused: map[string]int{}, types: types,
	}
	s.network = &network{base: s.base, subnets: map[string]*Subnet{}}
	s.catalog = &catalog{base: s.base, network: s.network}
	s.ssm = &ssm{base: s.base, values: map[string]string{}}
	s.images = &images{base: s.base, ssm: s.ssm, byID: map[string]*Image{}}
	s.eks = &eks{base: s.base, network: s.network}
	s.sqs = &sqs{base: s.base, byName: map[string]*queue{}}
	s.templates = &templates{base: s.base, byID: map[string]*template{}}
	s.pools = &pools{base: s.base, capacity: map[poolKey]int{}, quotas: defaultQuotas(), used: map[string]int{}}
	s.prices = &prices{base: s.base, network: s.network}
	s.instances = &instances{
		base: s.base, network: s.network, images: s.images,
		sqs: s.sqs, pools: s.pools, byID: map[string]*instance{},
	}
	s.tagging = &tagging{network: s.network, templates: s.templates, instances: s.instances}
	s.iam = &iam{base: s.base, prices: s.prices, byName: map[string]*profile{}, roles: map[string]bool{}}
	s.reservations = &reservations{network: s.network, instances: s.instances, byID: map[string]*Reservation{}}
	s.placements = &placements{base: s.base, instances: s.instances}
	s.fleets = &fleets{
		base: s.base, network: s.network, images: s.images, iam: s.iam, templates: s.templates, pools: s.pools,
		prices: s.prices, reservations: s.reservations, placements: s.placements, instances: s.instances, answered: map[string]*answered{},
	}
	return s, s.furnish()
}

// furnish puts into the account what the options and the defaults say.
func (s *Sim) furnish() error {
	s.network.zones = defaultZones()
	if s.base.opts.Region != "us-east-1" {
		for i := range s.network.zones {
			s.network.zones[i].Name = s.base.opts.Region + s.network.zones[i].Name[len("us-east-1"):]
		}
	}
	discovery := map[string]string{"karpenter.sh/discovery": s.base.opts.Cluster.Name}
	subnets := s.base.opts.Subnets
	if subnets == nil {
		subnets = s.network.defaultSubnets(discovery)
	}
	for _, sub := range subnets {
		if err := s.network.addSubnet(sub); err != nil {
			return err
		}
	}
	s.network.groups = []securityGroup{
		{"sg-0a11000000000000a", "eks-cluster-sg-" + s.base.opts.Cluster.Name, "EKS created security group", map[string]string{
			"kubernetes.io/cluster/" + s.base.opts.Cluster.Name: "owned", "karpenter.sh/discovery": s.base.opts.Cluster.Name,
		}},
		{"sg-0a11000000000000b", s.base.opts.Cluster.Name + "-node", "Nodes", map[string]string{"Name": s.base.opts.Cluster.Name + "-node", "karpenter.sh/discovery": s.base.opts.Cluster.Name}},
		{"sg-0a11000000000000c", "default", "default VPC security group", nil},
	}
	s.images.publishImages(s.base.clock.Now())
	for _, role := range append([]string{"KarpenterNodeRole-" + s.base.opts.Cluster.Name}, s.base.opts.Roles...) {
		s.iam.roles[role] = true
	}
	s.sqs.byName[s.base.opts.Queue] = &queue{name: s.base.opts.Queue}
	s.prices.spot = newSpotMarket(s.base.clock.Now())
	return nil
}

// Tick performs what is due, calls the registrar, and returns when the next thing is due;
// false: nothing is. One goroutine ticks.
func (s *Sim) Tick() (next time.Time, ok bool) {
	s.mu.Lock()
	s.base.catchUp()
	if len(s.base.events) > 0 {
		next, ok = s.base.events[0].at, true
	}
	calls := s.base.deferred
	s.base.deferred = nil
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
	return next, ok
}

// Run ticks until ctx ends.
func (s *Sim) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := tickMax
		if next, ok := s.Tick(); ok {
			wait = min(wait, max(time.Millisecond, next.Sub(s.base.clock.Now())))
		}
		s.base.clock.Sleep(ctx, wait)
	}
}

// Calls returns how often each operation was called ("ec2:CreateFleet").
func (s *Sim) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Refused returns how often each operation failed with each error code
// ("ec2:CreateFleet RequestLimitExceeded"), what fleets were refused in part and
// connections that a fault ended ("ec2:CreateFleet cut") included.
func (s *Sim) Refused() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.base.refused)
}

// Unknown returns the operations that were called and that awssim does not have.
func (s *Sim) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Options returns what the account was made from, defaults filled in.
func (s *Sim) Options() Options { return *s.base.opts }

// Believe changes what AWS does from now on.
func (s *Sim) Believe(b Beliefs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base.opts.Beliefs = b
}
