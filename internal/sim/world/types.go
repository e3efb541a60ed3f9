package world

import (
	"context"
	"hash"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller/interruption"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// start is when every world begins.
var start = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// Options say what happens in a world beside its seed.
type Options struct {
	// Stormy is how long faults and users rage, Calm how long the world then has to come to
	// rest.
	Stormy, Calm time.Duration
	// Nodes is about how many nodes the load needs; zero: the seed decides.
	Nodes int
	// Ordinary has every fault strike, as seldom as on a bad day of a real cluster, and the load
	// follow the hour.
	Ordinary bool
	// Without are faults that do not happen, by name.
	Without []Fault
	// With are things that there are for sure which the seed draws in some worlds, by name: StaticPools. Faults that are
	// named strike often.
	With []Fault
	// Arrivals has pods arrive as one pattern says, in a world without faults, and measures what they
	// wait for and cost; nil: the load is drawn.
	Arrivals *Arrivals
	// Mutant changes what the product sees or does; nil: nothing.
	Mutant *Mutant
	// Seam returns the provider that a life of the product has in place of the world's cloud, which is behind it: Seam
	// is called once for each life. Nil: the product has the cloud itself.
	Seam func(Seam) cloud.Provider
	// Journal gets a line for each thing that happens; nil: nobody does.
	Journal io.Writer
	// Decisions is a directory for the product's own journal; empty: none is kept.
	Decisions string
}

// Seam is what a provider that stands before the world's cloud gets. All of it may only be used while the product waits for
// an answer of that provider, and by one goroutine at a time.
type Seam struct {
	// Cloud is the world's cloud, for one life of the product. Types are all that it ever has.
	Cloud cloud.Provider
	Types []*catalog.Type
	// Now is the product's clock, Time the world's.
	Now, Time func() time.Time
	// May returns an error if nothing that this life of the product does has an effect any more.
	May func() error
	// IsStormy reports whether faults rage. Count counts one that struck, in Result.Stats.
	IsStormy func() bool
	Count    func(what string)
}

// World is one run.
type World struct {
	opts Options
	rand *rand.Rand
	// at is the time, seq numbers the events.
	at     time.Time
	events events
	seq    uint64
	done   uint64

	cluster   *cluster.Cluster
	api       *cluster.API       // the cluster's
	workloads *cluster.Workloads // the cluster's
	cloud     *cloudSim
	chaos     *chaos
	checks    *checks
	tenant    *tenant
	statics   *statics
	buffers   *buffers
	gangs     *gangs
	reboots   *reboots
	arrivals  *arrivals // nil: the load is drawn
	late      *lateLaunches
	// process leads. former was the leader before, and does not know yet that another leads; nil: nobody.
	process, former *process
	// decisions is the product's own journal; nil: none is kept.
	decisions *journal.Journal

	// said is the first violation.
	said string
	sum  hash.Hash64
	line []byte
	// Stats counts what happened, work what the product looked at, by name.
	Stats, work map[string]int
}

// Result is what came of a run.
type Result struct {
	// Hash is that of the journal.
	Hash uint64
	// Events is how many there were, Lasted how much time they took in the world.
	Events uint64
	Lasted time.Duration
	// NodeHours is the time that nodes were there, summed.
	NodeHours float64
	// Stats is how often what happened, Work how often each loop and each controller looked.
	Stats, Work map[string]int
	// Hourly is what ran cost at the end, LateWaits how long the product took to launch after each launch that failed late,
	// or after the cloud got instance types.
	Hourly    float64
	LateWaits []time.Duration
	// Violation says what must not happen and did; empty: nothing.
	Violation string
	// Arrived is what came of Options.Arrivals.
	Arrived Arrived
}

// event is something that happens at a time: to a process, unless it has died by then; nil: to
// the world. A report reaches the process also while the process waits for an answer, too.
type event struct {
	at     time.Time
	seq    uint64
	to     *process
	report bool
	what   func()
}

type events []event

// state is how far an instance is.
type state int

const (
	booting state = iota
	joined
	stopping
	gone
)

// instance is one node.
type instance struct {
	cloud.Instance
	place    catalog.Place
	price    float64
	launched time.Time
	image    int
	node     string
	state    state
	// silentSince is when its kubelet last reported, while it is silent; frozen is until
	// when it is. orphanSince is since when nothing in the API server accounts for it.
	silentSince, frozen, orphanSince time.Time
	ordered                          cloud.LaunchRequest
	// final is the provider ID of an instance that has a provisional one. isStuck: it never gets it. failedAt is when its
	// launch failed, ignoredSince since when the product does nothing about that.
	final   string
	isStuck bool
	// isDoomed: it was accepted though it was not in stock, and its launch fails.
	isDoomed               bool
	failedAt, ignoredSince time.Time
	// boots: it is being rebooted. booted is how often it was, bootedAt when the last time. A reboot mends what
	// it has if mends.
	boots    bool
	booted   int
	bootedAt time.Time
	mends    bool
}

// cloudSim is a cloud with stock, prices and failures.
type cloudSim struct {
	w       *World
	words   *kwok.Provider // for its vocabulary
	types   []*catalog.Type
	stock   map[catalog.Place]int
	all     []*instance // in the order of launches
	byID    map[string]*instance
	byToken map[string]*instance
	byNode  map[string]*instance
	image   int // that the class launches now
	made    int
}

// provider is the cloud as one process sees it: a provider on the production seam.
type provider struct {
	p     *process
	cloud *cloudSim
}

// chaos is what the seed decides: the cluster and its load at first, then faults and users.
type chaos struct {
	w      *World
	stormy bool
	odds   map[Fault]float64
	skew   time.Duration
	slow   time.Duration // how slow the cloud is
	pools  []*karpenterv1.NodePool
}

// checks judges what the product does. It reads the server and the cloud, and shares no
// code with the product.
type checks struct {
	w         *World
	byProduct bool
	nodeHours float64

	writes, idle, reconciles map[string]int // in this minute
	minute                   time.Time
	poolEdited               map[string]time.Time
	most                     map[string]int // nodes of a pool, in the last quarter of an hour
	mostSince                time.Time
	lost                     map[string]bool // steps that lost a replacement
	boundAt                  map[cluster.Key]time.Time
	lastLaunch               time.Time
	lastEviction             time.Time
	why                      string // of them
	lastExpired              time.Time
	// lastHeld is when a drain last waited for its deadline, after the storm, or a node that has
	// drifted for its turn: what budgets allow one by one waits for it; or when a node was last
	// removed for money: what is bought for it is young for an hour, and spared.
	lastHeld time.Time
}

// tenant is hostile. He has a random source of his own, so that what happens in a world without him is
// not another for him.
type tenant struct {
	w    *World
	rand *rand.Rand
	made int
	// mean has how often he does what; newest is when he last made heavy pods.
	mean   map[Fault]time.Duration
	newest time.Time
	// gaveUp is what was known of decisions that a life of the product gave up.
	gaveUp gaveUps
}

// statics are the static NodePools, and what users do with them.
type statics struct {
	beside
	pools []*staticPool
}

// staticPool is a static NodePool as it is wanted.
type staticPool struct {
	np *karpenterv1.NodePool
	// asks is what it asked for, the latest last.
	asks []asked
	// lost is when claims that were to stay were taken away, but for its own scaling; scaledDown is the last of that.
	// kept is when claims that were to go stayed after all.
	lost, kept []time.Time
	scaledDown string
	// shortSince is since when it has too few claims, unreadySince too few nodes.
	shortSince, unreadySince time.Time
}

// buffers are the CapacityBuffers, and what users do with them.
type buffers struct {
	beside
	all []*buffer
	// shortSince is since when they lack room, lastLoad when the load last changed after the storm.
	shortSince, lastLoad time.Time
}

// buffer is a CapacityBuffer: by a pod template, or by the ReplicaSet of burst. The pods of burst take its room.
type buffer struct {
	name     string
	template string // empty: there is none
	burst    *cluster.Workload
}

// gangs are workloads whose pods run together or not at all, with a NodePool of their own.
type gangs struct {
	beside
	pool *karpenterv1.NodePool // as it is wanted
	all  []*gangLoad
	// changed is when a gang last began or ended or lost a pod, limitAt when the limit of the pool last changed.
	changed, limitAt time.Time
}

// gangLoad is a gang. It has size pods while it runs, and none else.
type gangLoad struct {
	*cluster.Workload
	size int
	// lateSince is since when it waits though it can run.
	lateSince time.Time
}

// reboots are what ails nodes that a reboot may mend, the cloud that reboots them, and what was seen of it.
type reboots struct {
	beside
	policies []cloud.RepairPolicy
	// accepted are the requests that the cloud has carried out, by token.
	accepted map[string]bool
	// underway are the reboots that have begun, by NodeClaim; begun is when each life of the product began some.
	underway map[string]*reboot
	begun    map[begunBy][]time.Time
	// waited are pods that had no node until a moment ago, gone those that had one, which does not reboot, and are no more.
	waited, gone []waited
}

// reboot is one of a NodeClaim that has begun.
type reboot struct {
	i  *instance
	at time.Time
	// from is when the drain has ended at the latest; hasBound: it has a bound, else it is put off.
	from     time.Time
	hasBound bool
	// askedAt is when the cloud was first asked, issuedAt when it is said to have accepted. refused: it never will.
	askedAt, issuedAt time.Time
	refused           bool
	// drains: pods were evicted, so the product has seen that it has begun.
	drains bool
	// booted is how often the instance was rebooted before, crashes how often the product had crashed.
	booted, crashes int
}

// begunBy is a life of the product, and a NodeClaim by its UID.
type begunBy struct {
	p     *process
	claim types.UID
}

// waited is a pod that had no node, or one, until a time.
type waited struct {
	pod   *corev1.Pod
	until time.Time
}

// gaveUps are the decisions about heavy pods that one life of the product gave up, by its own clock.
type gaveUps struct {
	p    *process
	seen float64
	// last is when the last was, at by the world's clock, and wait how long it must be until the next
	// about the same pods.
	last, at time.Time
	wait     time.Duration
}

// process is one life of the product, between two crashes: all of its memory.
type process struct {
	w         *World
	ctx       context.Context
	cancel    context.CancelFunc
	scheme    *runtime.Scheme
	informers *informers
	client    *cluster.Client
	parts     *operator.Parts
	warm      []interface{ Warmup(context.Context) error }
	// typesChanged notifies it that the instance types of a class have changed. interruption acts on notices.
	typesChanged func(cloud.ClassRef)
	interruption *interruption.Loop
	loops        []*looper
	// running: everything was listed. dead: it has crashed, and what it still does has no effect.
	running, dead bool
	// stopped is until when it stands still.
	stopped time.Time
	// fence is production's: it lets nothing out when the lease was not renewed.
	fence *operator.Fence
}

// looper is a loop of the product that runs again and again.
type looper struct {
	loop.Reconciler
	name     string
	triggers <-chan struct{}
	due      time.Time // of the next run; zero: none
}

// informers is what one process has seen of the API server: a cache.Cache that is fed by
// events of the world. It lags, and may repeat itself.
type informers struct {
	cluster.Reader
	p      *process
	of     map[string]*informer
	sorted []*informer // in the order in which they were asked for
	mu     sync.Mutex  // over of and sorted, and handlers of each
}

// informer is one kind's watch.
type informer struct {
	cache.Informer // of which nothing else is used
	p              *process
	kind           string
	lock           *sync.Mutex // over handlers
	seen           *cluster.Shelf
	handlers       []toolscache.ResourceEventHandler
	coming         []change
	// held is until when nothing is delivered.
	held time.Time
	// listed: the first list has come.
	listed bool
}

// change is a write that the informer has yet to deliver.
type change struct {
	due     time.Time
	was, is client.Object
}
