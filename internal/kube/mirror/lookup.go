package mirror

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// PodObject returns a pod as last seen. It is the cache's own: read only, as all objects here.
func (s *Store) PodObject(ref cluster.PodRef) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods.all[types.UID(ref.UID)]
	if !ok {
		return nil, false
	}
	return p.object, true
}

// NodeObject returns a Node as last seen.
func (s *Store) NodeObject(name string) (*corev1.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes.get(name)
	return n, n != nil
}

// ClaimObject returns a NodeClaim as last seen.
func (s *Store) ClaimObject(name string) (*karpenterv1.NodeClaim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.nodes.claims[name]
	if !ok {
		return nil, false
	}
	return c.object, true
}

// PoolObject returns a NodePool as last seen.
func (s *Store) PoolObject(name string) (*karpenterv1.NodePool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	np, ok := s.pools.objects[name]
	return np, ok
}

// PendingCount returns how many pods ask for a node.
func (s *Store) PendingCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.pods.unbound {
		if s.assignments.needsNode(p) {
			n++
		}
	}
	return n
}

// IsDraining reports whether any Node or NodeClaim is being deleted, so that pods may need
// another node.
func (s *Store) IsDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.isDraining()
}

// IsOpenButForOurTaint reports whether nothing but our own taint keeps pods from a Node, and
// whether there is such a Node.
func (s *Store) IsOpenButForOurTaint(node string) (isOpen, isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes.get(node)
	return n != nil && isOpenButForOurTaint(n), n != nil
}

// Classes returns the node classes of our provider that NodePools refer to, sorted.
func (s *Store) Classes() []cloud.ClassRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.classes()
}

// TypesOf returns the instance types of a class as last reported by the provider, without the
// offerings that are known to be unavailable.
func (s *Store) TypesOf(class cloud.ClassRef) ([]*catalog.Type, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pools.types[class]
	return s.pools.shortages.Types(known.types, s.opts.Now()), known.err
}

// AllowedTypes returns, for each class, those of its instance types that the requirements of at least
// one of its NodePools allow.
func (s *Store) AllowedTypes() [][]*catalog.Type {
	classes, pools := s.typesByClass()
	var allowed [][]*catalog.Type
	for class, types := range classes {
		isAllowed := func(t *catalog.Type) bool {
			return slices.ContainsFunc(pools[class], func(r label.Requirements) bool {
				_, conflict := r.Conflict(t.Requirements)
				return !conflict
			})
		}
		allowed = append(allowed, slices.DeleteFunc(slices.Clone(types), func(t *catalog.Type) bool { return !isAllowed(t) }))
	}
	return allowed
}

// typesByClass returns the instance types of each class, and the requirements of its NodePools.
func (s *Store) typesByClass() (map[cloud.ClassRef][]*catalog.Type, map[cloud.ClassRef][]label.Requirements) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	classes, pools := map[cloud.ClassRef][]*catalog.Type{}, map[cloud.ClassRef][]label.Requirements{}
	for _, np := range s.pools.managed() {
		class := ClassOfPool(np)
		if _, is := classes[class]; !is {
			classes[class] = s.pools.shortages.Types(s.pools.types[class].types, now)
		}
		pools[class] = append(pools[class], translate.Pool(np, nil, now).Requirements)
	}
	return classes, pools
}

// Available returns types of the provider without the offerings that are known to be unavailable.
func (s *Store) Available(types []*catalog.Type) []*catalog.Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.shortages.Types(types, s.opts.Now())
}

// SetTypes records what the provider offers for a class, or why that is not known. Types that
// were known before stay in force if err is set.
func (s *Store) SetTypes(class cloud.ClassRef, types []*catalog.Type, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools.setTypes(class, types, err) {
		s.events.Add(1)
		s.listeners.work("class/" + class.String())
	}
}

// MarkUnavailable records offerings that had no capacity. They are left out for that long.
func (s *Store) MarkUnavailable(offerings []catalog.Place, keep time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offerings {
		s.pools.shortages.Short(o, s.opts.Now(), keep)
	}
}

// MarkReclaimed records that the cloud reclaimed an instance of an offering.
func (s *Store) MarkReclaimed(offering catalog.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.shortages.Reclaimed(offering, s.opts.Now())
}

// Shortages returns what is remembered of offerings that had no capacity, or whose instances were
// reclaimed, in the order of catalog.Shortages.Known.
func (s *Store) Shortages() []catalog.Shortage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.shortages.Known(s.opts.Now())
}

// BudgetChanges returns, for each pool by name, when each of its budgets becomes active or ceases to be;
// zero: not within about a week.
func (s *Store) BudgetChanges() map[string][]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changes := s.opts.Now(), map[string][]time.Time{}
	for _, np := range s.pools.managed() {
		changes[np.Name] = translate.BudgetChanges(np, now)
	}
	return changes
}
