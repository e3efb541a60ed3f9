package mirror

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Options are what a Store needs to know of its surroundings.
type Options struct {
	Vocabulary translate.Vocabulary
	// Manages reports whether node classes of this group and kind are our provider's.
	Manages func(group, kind string) bool
	Now     func() time.Time
	// BatchMax is the longest batch window. A node is reserved for twice as long for pods that
	// are planned for it and have yet to be evicted.
	BatchMax time.Duration
	// Owners: the controllers of pods are watched for how many pods they have yet to create, and pods ask
	// for a node when kube-scheduler found none for a pod like them of the same owner.
	Owners bool
	// ReservationKey is the label key that names a capacity reservation; empty: there are none.
	ReservationKey string
	// Started is when this process started. Evictions from before are not known: a pod that is
	// older may be the replacement of an evicted one. Zero: none is.
	Started time.Time
	// StaticCapacity: the nodes of pools with replicas expire; else they are kept, for nothing
	// would replace them.
	StaticCapacity bool
	// DeletionCosts: the annotation pod-deletion-cost is written by us, so it says nothing of its pod.
	DeletionCosts bool
	// Autoscaler says how what is meant for Cluster Autoscaler is read.
	Autoscaler translate.AutoscalerRules
	// Unread is called with pods that have an annotation that cannot be read, and why, when they are
	// first seen so; may be nil. It must not call the Store.
	Unread func(pod *corev1.Pod, why string)
	// Paused says why disruption is paused as long as the process runs; empty: it is not.
	Paused string
	// Unchecked: NodePools count as ready although nobody has checked them since they changed.
	Unchecked bool
	// Repair returns which conditions make a Node unhealthy; nil, or a nil answer: none does.
	Repair func(node *corev1.Node) *cloud.RepairRules
	// DefaultConstraints is the spread of pods that declare none.
	DefaultConstraints []corev1.TopologySpreadConstraint
	// Devices returns the devices that the provider says an instance type has, as drivers will publish
	// them; nil: it knows none.
	Devices func(class cloud.ClassRef, instanceType string) []resourceapi.ResourceSliceSpec
	// DriversOnRequest are the drivers whose devices a node has only if it is launched for pods that
	// claim some.
	DriversOnRequest []string
}

// Store is the mirror. Its methods may be called from any goroutine.
//
// One lock, mu, protects all parts of the Store. It is taken in two places only: at the
// beginning of every exported method, and around every handler of a watch (see kindOf in
// feed.go). The parts have no locks of their own and no access to the Store: their methods
// expect that the caller holds mu. Listeners are called with mu held. The two counters need no
// lock.
type Store struct {
	opts   Options
	events atomic.Uint64 // see EventCount

	mu          sync.Mutex // protects everything below
	listeners   *listeners
	pods        *podIndex
	siblings    *siblings
	owners      *owners
	untried     *untried
	nodes       *nodeIndex
	evictions   *evictions
	assignments *assignments
	gangs       *gangs
	pdbs        *pdbs
	pools       *pools
	daemons     *daemons
	buffers     *buffers
	volumes     *volumes
	devices     *deviceIndex
	views       *views
	namespaces  map[string]map[string]string // name → labels
	observers   map[reflect.Type]func(any)   // of Observe, by kind; made when it is first called
}

// NewStore returns an empty mirror.
func NewStore(opts Options) *Store {
	l := &listeners{work: func(string) {}}
	siblings := newSiblings(opts.DefaultConstraints)
	pods, nodes := newPodIndex(opts.Vocabulary, siblings), newNodeIndex(opts.Manages)
	volumes, pdbs, gangs, daemons := newVolumes(l), newPDBs(), newGangs(l), newDaemons(opts.Vocabulary)
	return &Store{
		opts:      opts,
		listeners: l, pods: pods, siblings: siblings, nodes: nodes, owners: newOwners(), untried: newUntried(),
		evictions:   newEvictions(opts.Started),
		assignments: newAssignments(pods, nodes, gangs, l),
		gangs:       gangs,
		pdbs:        pdbs,
		pools:       newPools(&opts, l),
		daemons:     daemons,
		buffers:     newBuffers(&opts, daemons, l),
		volumes:     volumes,
		devices:     newDeviceIndex(&opts, l),
		views:       &views{pods: pods, nodes: nodes, volumes: volumes, pdbs: pdbs, repair: opts.Repair, autoscaler: opts.Autoscaler},
		namespaces:  map[string]map[string]string{},
	}
}

// OnWork sets the function that is called when something happens that may call for a new plan:
// a pod asks for a node, or capacity may have come or gone. It is given an id that stays the
// same if the same thing happens again. It must not call back.
func (s *Store) OnWork(work func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners.work = work
}

// OnNomination sets the function that is called when something happens that nominations
// depend on. It must not call back.
func (s *Store) OnNomination(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners.nomination = changed
}

// OnOutcome sets the function that is called with what became of a pod that was planned for a
// node. It must not call back.
func (s *Store) OnOutcome(outcome func(Outcome)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners.outcome = outcome
}

// EventCount returns how many watch events, and changes of what can be launched, were observed
// so far. As long as it stays the same, only time changes the cluster.
func (s *Store) EventCount() uint64 { return s.events.Load() }

// InitializedCount returns how many Nodes were seen to become initialized so far.
func (s *Store) InitializedCount() uint64 { return s.nodes.initialized.Load() }

// NodeVersion counts the changes of Nodes and NodeClaims that affect the usage of a NodePool:
// which there are, what they have, what they cost and whether they are being deleted.
func (s *Store) NodeVersion(pool string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.versions[pool]
}
