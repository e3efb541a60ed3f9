package awssim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// terminatedVisible is how long a terminated instance is still described.
	terminatedVisible = time.Hour
	// tickMax bounds how long Run sleeps: new events may come in while it does.
	tickMax = 100 * time.Millisecond
	// unknownMax bounds how many calls to unknown operations are remembered by name.
	unknownMax = 100
)

// Registrar is the API server's side of the machines: it hears of their Nodes, one call
// after the other, from Tick.
type Registrar interface {
	// Join is called when a machine's kubelet registers its Node, which is ready.
	Join(node *corev1.Node)
	// Leave is called when a machine whose Node joined is gone.
	Leave(nodeName string)
}

// Credentials is what requests must be signed with. SessionToken may be empty.
type Credentials struct {
	AccessKey, SecretKey, SessionToken string
}

// Cluster is the EKS cluster that the account has.
type Cluster struct {
	Name, Version, Endpoint string
	// CertificateAuthority is base64.
	CertificateAuthority string
	ServiceCIDR          string
}

// Options says what the account is like. Zero values give a working one.
type Options struct {
	Seed  uint64
	Clock Clock
	// Registrar may be nil: no Node joins then.
	Registrar   Registrar
	Region      string
	AccountID   string
	Cluster     Cluster
	Credentials Credentials
	// Subnets is what the account has; nil: one private and one public subnet in each zone.
	Subnets []Subnet
	// Roles are the IAM roles that exist besides KarpenterNodeRole-<cluster>.
	Roles []string
	// Queue is the name of the interruption queue; empty: the cluster's name.
	Queue string
	// BootTime is how long it takes from launch to the Node, MinBoot..MaxBoot evenly.
	// Zero: 20 to 40 seconds.
	MinBoot, MaxBoot time.Duration
	// MinEnd..MaxEnd is how long an instance that is told to end is shutting down. Zero: 10 to
	// 40 seconds.
	MinEnd, MaxEnd time.Duration
	// Latency is the median time of an answer; the distribution has a long tail (the 99th
	// hundredth is five times the median). Zero: none.
	Latency time.Duration
	// Consistency is how long a new thing stays unseen by Describe and its like, at most.
	Consistency time.Duration
	// Unlimited lifts the token buckets.
	Unlimited bool
	// Capacity tells how many machines each pool has; nil: enough.
	Capacity func(capacityType, instanceType, zone string) int
	// Beliefs are what AWS does where nobody has confirmed it.
	Beliefs Beliefs
}

// Sim is one account. Make it with New.
type Sim struct {
	opts  Options
	clock Clock

	mu      sync.Mutex
	rng     *rand.Rand
	events  []event
	planned int // events ever
	calls   map[string]int
	// refused counts answers by operation and error code.
	refused  map[string]int
	unknown  []string
	buckets  map[string]*bucket
	faults   []*Fault
	deferred []func() // calls to the registrar, made by Tick when the lock is free

	types       types
	zones       []Zone
	subnets     map[string]*Subnet
	groups      []securityGroup
	images      map[string]*Image
	parameters  map[string]string
	templates   map[string]*template // by id
	instances   map[string]*instance
	fleets      map[string]*answered // by client token
	reservation map[string]*Reservation
	placements  []placementGroup
	profiles    map[string]*profile
	roles       map[string]bool
	queues      map[string]*queue
	capacity    map[poolKey]int
	quotas      map[string]int
	vcpus       map[string]int // in use, by quota
	spot        spotMarket
	shifts      []ZonalShift
	spent       float64 // dollars, on instances that are over
}

// event is something that happens at a time.
type event struct {
	at    time.Time
	order int
	do    func(now time.Time)
}

// New returns an account in its first second. The error is about the shipped catalogue or
// about options that contradict each other.
func New(opts Options) (*Sim, error) {
	opts = opts.withDefaults()
	s := &Sim{
		opts: opts, clock: opts.Clock, rng: rand.New(rand.NewPCG(opts.Seed, 0x61777373696d)),
		calls: map[string]int{}, refused: map[string]int{}, buckets: map[string]*bucket{},
		subnets: map[string]*Subnet{}, images: map[string]*Image{}, parameters: map[string]string{},
		templates: map[string]*template{}, instances: map[string]*instance{}, fleets: map[string]*answered{},
		reservation: map[string]*Reservation{}, profiles: map[string]*profile{}, roles: map[string]bool{},
		queues: map[string]*queue{}, capacity: map[poolKey]int{}, quotas: defaultQuotas(), vcpus: map[string]int{},
	}
	var err error
	if s.types, err = shippedTypes(); err != nil {
		return nil, err
	}
	return s, s.furnish()
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = machineClock{}
	}
	o.Region = cmp.Or(o.Region, "us-east-1")
	o.AccountID = cmp.Or(o.AccountID, "111122223333")
	o.Cluster.Name = cmp.Or(o.Cluster.Name, "demo")
	o.Cluster.Version = cmp.Or(o.Cluster.Version, "1.35")
	o.Cluster.Endpoint = cmp.Or(o.Cluster.Endpoint, "https://demo.eks.local")
	o.Cluster.CertificateAuthority = cmp.Or(o.Cluster.CertificateAuthority, "Y2VydGlmaWNhdGU=")
	o.Cluster.ServiceCIDR = cmp.Or(o.Cluster.ServiceCIDR, "172.20.0.0/16")
	o.Queue = cmp.Or(o.Queue, o.Cluster.Name)
	if o.Credentials == (Credentials{}) {
		o.Credentials = Credentials{AccessKey: "AKIDAWSSIM0000000001", SecretKey: "awssim-secret-of-the-only-user-00000001"}
	}
	if o.MinBoot == 0 && o.MaxBoot == 0 {
		o.MinBoot, o.MaxBoot = 20*time.Second, 40*time.Second
	}
	o.MaxBoot = max(o.MaxBoot, o.MinBoot)
	if o.MinEnd == 0 && o.MaxEnd == 0 {
		o.MinEnd, o.MaxEnd = 10*time.Second, 40*time.Second
	}
	o.MaxEnd = max(o.MaxEnd, o.MinEnd)
	return o
}

// Tick performs what is due, tells the registrar, and returns when the next thing is due;
// false: nothing is. One goroutine ticks.
func (s *Sim) Tick() (next time.Time, ok bool) {
	s.mu.Lock()
	s.catchUp()
	if len(s.events) > 0 {
		next, ok = s.events[0].at, true
	}
	calls := s.deferred
	s.deferred = nil
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
			wait = min(wait, max(time.Millisecond, next.Sub(s.clock.Now())))
		}
		s.clock.Sleep(ctx, wait)
	}
}

// at plans something. Called under the lock.
func (s *Sim) at(when time.Time, do func(now time.Time)) {
	s.planned++
	e := event{when, s.planned, do}
	i, _ := slices.BinarySearchFunc(s.events, e, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order))
	})
	s.events = slices.Insert(s.events, i, e)
}

// catchUp performs what is due, in order.
func (s *Sim) catchUp() {
	now := s.clock.Now()
	for len(s.events) > 0 && !s.events[0].at.After(now) {
		e := s.events[0]
		s.events = s.events[1:]
		e.do(e.at)
	}
}

// id makes a new id: prefix and 17 hexadecimal digits.
func (s *Sim) id(prefix string) string {
	return fmt.Sprintf("%s-%08x%09x", prefix, s.rng.Uint32(), s.rng.Uint64N(1<<36))
}

// between draws a duration evenly.
func (s *Sim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// visible returns from when on a thing that is made now is seen.
func (s *Sim) visible(now time.Time) time.Time {
	delay := s.opts.Consistency
	for _, f := range s.faultsOf(FaultInconsistent, now) {
		delay = max(delay, f.Delay.Duration)
	}
	if delay == 0 {
		return now
	}
	return now.Add(s.between(delay/2, delay))
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
	return maps.Clone(s.refused)
}

// Unknown returns the operations that were called and that awssim does not have.
func (s *Sim) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Options returns what the account was made from, defaults filled in.
func (s *Sim) Options() Options { return s.opts }
