package mirror

import (
	"cmp"
	"maps"
	"slices"
	"time"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// pools hold the NodePools, and what the provider offers for their node classes.
type pools struct {
	manages    func(group, kind string) bool
	vocabulary translate.Vocabulary
	listeners  *listeners

	objects   map[string]*karpenterv1.NodePool
	types     map[cloud.ClassRef]offered
	shortages catalog.Shortages
	overlays  overlays
	// unchecked is that of Options.
	unchecked bool
	// paused says why disruption of all pools is paused; empty: it is not.
	paused pause
}

// offered is the provider's answer for a node class: its instance types, or why there are none.
type offered struct {
	types []*catalog.Type
	err   error
}

func newPools(opts *Options, l *listeners) *pools {
	return &pools{manages: opts.Manages, unchecked: opts.Unchecked, vocabulary: opts.Vocabulary, listeners: l, objects: map[string]*karpenterv1.NodePool{}, types: map[cloud.ClassRef]offered{}, paused: pause{setting: opts.Paused}}
}

func (x *pools) upsert(np *karpenterv1.NodePool) {
	had := x.objects[np.Name]
	x.overlays.isStale = x.overlays.isStale || had == nil || had.Generation != np.Generation || had.UID != np.UID
	x.objects[np.Name] = np
	if had == nil || asksAnew(had, np) {
		x.listeners.work("pool/" + np.Name + "/" + np.ResourceVersion)
	}
}

// asksAnew reports whether a NodePool may call for another plan than before. What its status counts does not: nodes
// say that themselves, and earlier.
func asksAnew(had, np *karpenterv1.NodePool) bool {
	return had.UID != np.UID || had.Generation != np.Generation || had.DeletionTimestamp.IsZero() != np.DeletionTimestamp.IsZero() ||
		!maps.Equal(had.Labels, np.Labels) || !maps.Equal(had.Annotations, np.Annotations) || !slices.Equal(had.Status.Conditions, np.Status.Conditions)
}

func (x *pools) remove(np *karpenterv1.NodePool) {
	delete(x.objects, np.Name)
	x.overlays.isStale = true
	x.listeners.work("pool/" + np.Name)
}

// setTypes records the provider's answer for a class and reports whether it is a new one. An
// error does not replace known types.
func (x *pools) setTypes(class cloud.ClassRef, types []*catalog.Type, err error) (isNew bool) {
	had, ok := x.types[class]
	if err != nil && ok && had.err == nil {
		return false
	}
	x.types[class] = offered{types, err}
	isNew = !ok || (had.err != nil && err == nil) || !slices.Equal(had.types, types)
	x.overlays.isStale = x.overlays.isStale || isNew
	return isNew
}

// managed returns the NodePools of the provider's node classes, sorted by name.
func (x *pools) managed() []*karpenterv1.NodePool {
	var managed []*karpenterv1.NodePool
	for _, name := range slices.Sorted(maps.Keys(x.objects)) {
		if ref := x.objects[name].Spec.Template.Spec.NodeClassRef; ref != nil && x.manages(ref.Group, ref.Kind) {
			managed = append(managed, x.objects[name])
		}
	}
	return managed
}

// classes returns the node classes that managed NodePools refer to, sorted.
func (x *pools) classes() []cloud.ClassRef {
	var classes []cloud.ClassRef
	for _, np := range x.managed() {
		classes = append(classes, ClassOfPool(np))
	}
	slices.SortFunc(classes, func(a, b cloud.ClassRef) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kubelet, b.Kubelet))
	})
	return slices.Compact(classes)
}

// view returns what a snapshot says of a NodePool.
func (x *pools) view(np *karpenterv1.NodePool, now time.Time) cluster.Pool {
	known, ok := x.types[ClassOfPool(np)]
	if x.unchecked {
		np = translate.Checked(np)
	}
	p := translate.Pool(np, x.shortages.Types(x.overlaid(np.Name, known.types), now), now)
	p.Paused = cmp.Or(x.paused.why(), p.Paused)
	if p.Unready == "" && known.err != nil {
		p.Unready = "instance types are not known: " + known.err.Error()
	}
	if p.Unready == "" && !ok {
		p.Unready = "instance types are not known yet"
	}
	return p
}

// ClassOfPool returns the node class of a NodePool that refers to one.
func ClassOfPool(np *karpenterv1.NodePool) cloud.ClassRef {
	t := &np.Spec.Template.Spec
	return classRef(t.NodeClassRef, convert.Kubelet(t.Kubelet, np.Annotations))
}

// ClassOfClaim returns the node class of a NodeClaim that refers to one.
func ClassOfClaim(nc *karpenterv1.NodeClaim) cloud.ClassRef {
	return classRef(nc.Spec.NodeClassRef, convert.Kubelet(nc.Spec.Kubelet, nc.Annotations))
}

func classRef(ref *karpenterv1.NodeClassReference, kubelet string) cloud.ClassRef {
	return cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name, Kubelet: kubelet}
}

// Pools answers what NodePools ask for, and what can be launched for them.
type Pools struct{ store *Store }

// Pools returns what answers that of this Store.
func (s *Store) Pools() *Pools { return &Pools{s} }

// Classes returns the node classes of our provider that NodePools refer to, sorted.
func (p *Pools) Classes() []cloud.ClassRef {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.classes()
}

// TypesOf returns the instance types of a class as last reported by the provider, without the
// offerings that are known to be unavailable.
func (p *Pools) TypesOf(class cloud.ClassRef) ([]*catalog.Type, error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.pools.types[class]
	return s.pools.shortages.Types(known.types, s.opts.Now()), known.err
}

// AllowedTypes returns, for each class, those of its instance types that the requirements of at least
// one of its NodePools allow.
func (p *Pools) AllowedTypes() [][]*catalog.Type {
	classes, pools := p.typesByClass()
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

// AllTypes returns the instance types of each class that a NodePool refers to.
func (p *Pools) AllTypes() [][]*catalog.Type {
	classes, _ := p.typesByClass()
	return slices.Collect(maps.Values(classes))
}

// typesByClass returns the instance types of each class, and the requirements of its NodePools.
func (p *Pools) typesByClass() (map[cloud.ClassRef][]*catalog.Type, map[cloud.ClassRef][]label.Requirements) {
	s := p.store
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
func (p *Pools) Available(types []*catalog.Type) []*catalog.Type {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.shortages.Types(types, s.opts.Now())
}

// SetTypes records what the provider offers for a class, or why that is not known. Types that
// were known before stay in force if err is set.
func (p *Pools) SetTypes(class cloud.ClassRef, types []*catalog.Type, err error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools.setTypes(class, types, err) {
		s.events.Add(1)
		s.listeners.work("class/" + class.String())
	}
}

// MarkUnavailable records offerings that had no capacity. They are left out for that long.
func (p *Pools) MarkUnavailable(offerings []catalog.Place, keep time.Duration) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offerings {
		s.pools.shortages.Short(o, s.opts.Now(), keep)
	}
}

// MarkReclaimed records that the cloud reclaimed an instance of an offering.
func (p *Pools) MarkReclaimed(offering catalog.Place) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.shortages.Reclaimed(offering, s.opts.Now())
}

// Shortages returns what is remembered of offerings that had no capacity, or whose instances were
// reclaimed, in the order of catalog.Shortages.Known.
func (p *Pools) Shortages() []catalog.Shortage {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools.shortages.Known(s.opts.Now())
}

// BudgetChanges returns, for each pool by name, when each of its budgets becomes active or ceases to be;
// zero: not within about a week.
func (p *Pools) BudgetChanges() map[string][]time.Time {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changes := s.opts.Now(), map[string][]time.Time{}
	for _, np := range s.pools.managed() {
		changes[np.Name] = translate.BudgetChanges(np, now)
	}
	return changes
}
