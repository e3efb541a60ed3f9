package mirror

import (
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/overlay"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// overlays hold the NodeOverlays, and what they make of the instance types of pools.
type overlays struct {
	objects map[string]*karpenterv1alpha1.NodeOverlay
	// isStale: the rest was worked out before something of it changed.
	isStale   bool
	effects   overlay.Effects
	conflicts map[string]string
	// types are those of each pool that have an effect, as it is now.
	types map[string][]*catalog.Type
}

// FeedOverlays subscribes the store to NodeOverlays. Without that none has an effect.
func (s *Store) FeedOverlays(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	return subscribe(ctx, s, c, overlayKind(s))
}

func (x *pools) upsertOverlay(o *karpenterv1alpha1.NodeOverlay) {
	if had := x.overlays.objects[o.Name]; had != nil && had.Generation == o.Generation && had.UID == o.UID {
		return // of its status nothing follows
	}
	if x.overlays.objects == nil {
		x.overlays.objects = map[string]*karpenterv1alpha1.NodeOverlay{}
	}
	x.overlays.objects[o.Name] = o
	x.overlays.isStale = true
	x.listeners.work("overlay/" + o.Name + "/" + o.ResourceVersion)
}

func (x *pools) removeOverlay(o *karpenterv1alpha1.NodeOverlay) {
	delete(x.overlays.objects, o.Name)
	x.overlays.isStale = true
	x.listeners.work("overlay/" + o.Name)
}

// overlaid returns the types of a pool as overlays have them.
func (x *pools) overlaid(pool string, types []*catalog.Type) []*catalog.Type {
	if x.evaluateOverlays(); len(x.overlays.effects[pool]) == 0 {
		return types
	}
	had, ok := x.overlays.types[pool]
	if !ok {
		had = x.overlays.effects.Types(pool, types)
		x.overlays.types[pool] = had
	}
	return had
}

// evaluateOverlays works out the effects again, if something has changed.
func (x *pools) evaluateOverlays() {
	if !x.overlays.isStale {
		return
	}
	o := &x.overlays
	o.isStale, o.effects, o.conflicts, o.types = false, nil, nil, map[string][]*catalog.Type{}
	if len(o.objects) == 0 {
		return
	}
	var list []overlay.Overlay
	for _, name := range slices.Sorted(maps.Keys(o.objects)) {
		list = append(list, translate.Overlay(o.objects[name], x.vocabulary))
	}
	var of []overlay.Pool
	for _, np := range x.managed() {
		labels := maps.Clone(np.Spec.Template.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[karpenterv1.NodePoolLabelKey] = np.Name
		class := ClassOfPool(np)
		of = append(of, overlay.Pool{Name: np.Name, Labels: labels, Class: class.String(), Types: x.types[class].types})
	}
	o.effects, o.conflicts = overlay.Evaluate(list, of)
}

// Overlays answers what NodeOverlays make of instance types.
type Overlays struct{ store *Store }

// Overlays returns what answers that of this Store.
func (s *Store) Overlays() *Overlays { return &Overlays{s} }

// Overlaid returns the types of a pool as NodeOverlays have them, and whether they set prices.
func (o *Overlays) Overlaid(pool string, types []*catalog.Type) (overlaid []*catalog.Type, repriced bool) {
	s := o.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.evaluateOverlays()
	return s.pools.overlays.effects.Types(pool, types), s.pools.overlays.effects.Reprice(pool)
}

// OverlaidCapacity returns the resources that NodeOverlays set for a type of a pool.
func (o *Overlays) OverlaidCapacity(pool, instanceType string) quantity.List {
	s := o.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools.evaluateOverlays()
	return s.pools.overlays.effects.Capacity(pool, instanceType)
}

// Conflict returns with what a NodeOverlay is in conflict, so that it is not in force; empty: with
// nothing. It returns false if the Store has not seen this generation of it.
func (o *Overlays) Conflict(no *karpenterv1alpha1.NodeOverlay) (why string, known bool) {
	s := o.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if had := s.pools.overlays.objects[no.Name]; had == nil || had.Generation != no.Generation || had.UID != no.UID {
		return "", false
	}
	s.pools.evaluateOverlays()
	return s.pools.overlays.conflicts[no.Name], true
}
