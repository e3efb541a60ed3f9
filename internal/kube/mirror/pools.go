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
}

// offered is the provider's answer for a node class: its instance types, or why there are none.
type offered struct {
	types []*catalog.Type
	err   error
}

func newPools(opts *Options, l *listeners) *pools {
	return &pools{manages: opts.Manages, vocabulary: opts.Vocabulary, listeners: l, objects: map[string]*karpenterv1.NodePool{}, types: map[cloud.ClassRef]offered{}}
}

func (x *pools) upsert(np *karpenterv1.NodePool) {
	had := x.objects[np.Name]
	x.overlays.isStale = x.overlays.isStale || had == nil || had.Generation != np.Generation || had.UID != np.UID
	x.objects[np.Name] = np
	x.listeners.work("pool/" + np.Name + "/" + np.ResourceVersion)
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
	p := translate.Pool(np, x.shortages.Types(x.overlaid(np.Name, known.types), now), now)
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
