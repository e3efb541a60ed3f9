package mirror

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// assumedMax is how long a claim that we made counts before the watch has shown it.
	assumedMax = 30 * time.Second
	// nominatedMin is the least time for which a machine that a plan used for pods that
	// have yet to be evicted is kept from removal.
	nominatedMin = 10 * time.Second
)

// Options are what a Store needs to know of its surroundings.
type Options struct {
	Vocabulary translate.Vocabulary
	// Manages tells whether node classes of this group and kind are our provider's.
	Manages func(group, kind string) bool
	Now     func() time.Time
	// BatchMax is the longest batch window; a machine stays nominated for twice as long.
	BatchMax time.Duration
	// ReservationKey is the label key that names a reservation; empty: there are none.
	ReservationKey string
	// Started is when the process was: what was evicted before is not known, so pods of before
	// may have come for it to machines of before. Zero: they did not.
	Started time.Time
	// DefaultConstraints is the spread of pods that declare none.
	DefaultConstraints []corev1.TopologySpreadConstraint
}

// Store is the mirror. Its methods may be called from any goroutine.
type Store struct {
	opts  Options
	heard atomic.Uint64
	// initialised counts Nodes that were seen to be.
	initialised atomic.Uint64

	mu         sync.Mutex        // guards everything below
	machined   map[string]uint64 // by pool: how often something was heard of its Nodes and claims that it counts
	pods       map[types.UID]*pod
	unbound    map[types.UID]*pod // those of them that no node has
	byNode     map[string][]*pod  // in the order of names
	nodes      map[string]*corev1.Node
	providers  map[string]string // providerID → node name
	claims     map[string]*claim
	pools      map[string]*karpenterv1.NodePool
	daemons    daemons
	pdbs       map[types.NamespacedName]*policyv1.PodDisruptionBudget
	guarding   uint64                       // counts changes of what budgets select
	onNode     map[string]*machine          // of Nodes, by name
	listed     []*machine                   // what list returns; nil: that has changed
	namespaces map[string]map[string]string // name → labels
	shapes     map[string]*sharedShape
	types      map[cloud.ClassRef]typesKnown
	shortages  catalog.Shortages
	siblings   siblings
	volumes    volumes
	gangs      gangs
	planned    map[types.UID]string // pod → machine
	nominated  map[string]time.Time // machine → until
	wake       func(id string)
	hints      hints
	evicted    map[types.UID]evicted // by controller
}

// pod is one pod that is not over.
type pod struct {
	*corev1.Pod
	shape       *sharedShape
	asksForNode bool
	failed      bool // it asks, but for an error of kube-scheduler, which it may be because there is no Node
	claims      bool // it has volume claims
	history
}

// sharedShape is a shape and the number of pods that have it; it goes with the last.
type sharedShape struct {
	*cluster.Shape
	key  string
	pods int
	// with are those that volumes make of it, as of that many changes of volumes.
	with    map[string]*cluster.Shape
	storing uint64
}

// claim is a NodeClaim as last seen; assumedUntil is set while only we know that it exists.
type claim struct {
	*karpenterv1.NodeClaim
	assumedUntil time.Time
}

// typesKnown is what the provider said of a class: its types, or why there are none.
type typesKnown struct {
	types []*catalog.Type
	err   error
}

// NewStore returns an empty mirror.
func NewStore(opts Options) *Store {
	return &Store{
		opts:     opts,
		machined: map[string]uint64{}, pods: map[types.UID]*pod{}, unbound: map[types.UID]*pod{}, byNode: map[string][]*pod{},
		nodes: map[string]*corev1.Node{}, providers: map[string]string{},
		claims: map[string]*claim{}, pools: map[string]*karpenterv1.NodePool{},
		daemons: newDaemons(), pdbs: map[types.NamespacedName]*policyv1.PodDisruptionBudget{},
		namespaces: map[string]map[string]string{},
		shapes:     map[string]*sharedShape{}, types: map[cloud.ClassRef]typesKnown{},
		siblings: siblings{services: map[types.UID]*corev1.Service{}, selectors: map[types.UID]*metav1.LabelSelector{}},
		planned:  map[types.UID]string{}, nominated: map[string]time.Time{},
		volumes: newVolumes(), gangs: newGangs(), wake: func(string) {}, evicted: map[types.UID]evicted{},
		onNode: map[string]*machine{},
	}
}

// OnWork sets who is told when something happened that may call for a new plan: a pod
// asks for a node, or room may have come or gone. It is given an id that stays the same
// when the same thing happens again. It must not call back.
func (s *Store) OnWork(wake func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
}

// SetTypes records what the provider offers for a class, or why that is not known. Types
// known before stay in force when err is set.
func (s *Store) SetTypes(class cloud.ClassRef, known []*catalog.Type, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had, ok := s.types[class]
	if err != nil && ok && had.err == nil {
		return
	}
	s.types[class] = typesKnown{known, err}
	if !ok || (had.err != nil && err == nil) || !slices.Equal(had.types, known) {
		s.heard.Add(1)
		s.wake("class/" + class.String())
	}
}

// Classes returns the node classes that pools of ours refer to, sorted.
func (s *Store) Classes() []cloud.ClassRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[cloud.ClassRef]bool{}
	var classes []cloud.ClassRef
	for _, np := range s.pools {
		if ref := classOf(np); s.opts.Manages(ref.Group, ref.Kind) && !seen[ref] {
			seen[ref] = true
			classes = append(classes, ref)
		}
	}
	slices.SortFunc(classes, func(a, b cloud.ClassRef) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return classes
}

// Short notes places that had no machines; they are left alone for so long.
func (s *Store) Short(places []catalog.Place, keep time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		s.shortages.Short(p, s.opts.Now(), keep)
	}
}

// Reclaimed notes that the cloud took a machine back.
func (s *Store) Reclaimed(place catalog.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shortages.Reclaimed(place, s.opts.Now())
}

// TypesOf returns the instance types of a class as last told by the provider, and as it
// went when machines of them were asked for.
func (s *Store) TypesOf(class cloud.ClassRef) ([]*catalog.Type, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.types[class]
	return s.shortages.Types(known.types, s.opts.Now()), known.err
}

// AssumeClaim counts a claim that was just made before the watch shows it.
func (s *Store) AssumeClaim(nc *karpenterv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.claims[nc.Name]; !ok {
		s.claims[nc.Name] = &claim{nc, s.opts.Now().Add(assumedMax)}
		s.listed = nil
	}
}

// Meant records which machine each pod of a plan was meant for, so that the next plan
// does not move it: a Node or claim of the snapshot, or a claim just made.
func (s *Store) Meant(pods []cluster.PodRef, machine string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		p, ok := s.pods[types.UID(ref.UID)]
		if !ok || p.Spec.NodeName != "" && !s.isLeaving(p.Spec.NodeName) {
			continue // it has gone since the plan was made, or was bound
		}
		if s.planned[p.UID] != machine {
			s.planned[p.UID], p.meantAt = machine, s.opts.Now()
		}
		if p.Spec.NodeName != "" {
			// It will be evicted, and its successor is another pod: only time can hold the
			// machine for that one.
			s.nominated[machine] = s.opts.Now().Add(max(nominatedMin, 2*s.opts.BatchMax))
		}
	}
}

// MeantBy records which machine a step means pods for that it evicts later. Until then they
// stay where they are; when the step is gone, that is nothing any more.
func (s *Store) MeantBy(step string, pods []cluster.PodRef, machine string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range pods {
		if p, ok := s.pods[types.UID(ref.UID)]; ok {
			p.home, p.homeOf = machine, step
			s.unsettle(p.Spec.NodeName)
		}
	}
}

// MeantAll is Meant for all placements of a plan.
func (s *Store) MeantAll(placements []plan.Placement) {
	byMachine := map[string][]cluster.PodRef{}
	for _, p := range placements {
		byMachine[p.Node] = append(byMachine[p.Node], p.Pod)
	}
	for machine, pods := range byMachine {
		s.Meant(pods, machine)
	}
}

func classOf(np *karpenterv1.NodePool) cloud.ClassRef {
	ref := np.Spec.Template.Spec.NodeClassRef
	return cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}
}
