package mirror

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// assumedMax is how long a NodeClaim that this process created counts before the watch has shown it.
const assumedMax = 30 * time.Second

// claim is a NodeClaim as last seen; assumedUntil is set while only this process knows of it.
type claim struct {
	object       *karpenterv1.NodeClaim
	assumedUntil time.Time
}

// node is a Node, or a NodeClaim whose Node has not joined yet, and what the last snapshot
// derived from the objects and the pods. The next snapshot uses that again as long as neither
// has changed; what depends on time is derived every time. Values that were handed out in a
// snapshot are never changed in place.
type node struct {
	name   string       // of the Node, or else of the NodeClaim
	object *corev1.Node // as last seen; nil: it has not joined yet
	claim  *claim       // nil: there is none

	// view is what snapshots say of the node, without plans and attached volumes. It was
	// derived from these states of the Node and the NodeClaim.
	view      cluster.Node
	fromNode  *corev1.Node
	fromClaim *karpenterv1.NodeClaim
	// isTimed: what the two objects say may change with time alone.
	isTimed bool
	// hasPods: view includes what the pods say, which is valid until one of them changes.
	hasPods bool
	// hasLimits: the number of volumes that the node can attach is known.
	hasLimits bool
	limited   limitedRoom
	// hasClaims: some of its pods have volume claims.
	hasClaims bool

	// movable are the pods that would need another node; withClaims are those of them that
	// have volume claims. Both are valid if hasMovable is set and pdbsVersion is the version of
	// the PodDisruptionBudgets. Constraints in movable are valid if volumesVersion is the version
	// of the volumes; 0: they depend on more than volumes and must be read again.
	movable        []cluster.ReschedulablePod
	withClaims     []podWithClaims
	hasMovable     bool
	pdbsVersion    uint64
	volumesVersion uint64
}

// podWithClaims is a pod with volume claims, and its index among the movable pods of its node.
type podWithClaims struct {
	pod *pod
	at  int
}

// nodeIndex holds the Nodes and the NodeClaims, and which belong together.
type nodeIndex struct {
	manages func(group, kind string) bool

	nodes    map[string]*node  // those that are Nodes, by name
	provided map[string]string // provider ID → name of the Node
	claims   map[string]*claim
	// going are the names of the Nodes that are going, goingClaims those of the NodeClaims that are being deleted.
	going, goingClaims map[string]bool
	// sorted is what list returns; nil: it is to be made again.
	sorted []*node
	// versions count, by NodePool, the changes that affect the pool's usage.
	versions map[string]uint64
	// initialized counts the Nodes that were seen to become initialized. It needs no lock.
	initialized atomic.Uint64
}

func newNodeIndex(manages func(group, kind string) bool) *nodeIndex {
	return &nodeIndex{
		manages: manages,
		nodes:   map[string]*node{}, provided: map[string]string{}, claims: map[string]*claim{}, versions: map[string]uint64{},
		going: map[string]bool{}, goingClaims: map[string]bool{},
	}
}

// upsert records a state of a Node. It reports whether the Node is now going and was not before.
func (x *nodeIndex) upsert(n *corev1.Node) (isDeletingNow bool) {
	had := x.get(n.Name)
	switch {
	case had == nil:
		x.changeUsage(n)
	case !sameUsage(had, n) || had.Spec.ProviderID != n.Spec.ProviderID || !sameResources(had.Status.Capacity, n.Status.Capacity):
		x.changeUsage(had, n)
	}
	if isInitialized(n) && (had == nil || !isInitialized(had)) {
		x.initialized.Add(1)
	}
	if had == nil || !maps.Equal(had.Labels, n.Labels) || had.Spec.ProviderID != n.Spec.ProviderID {
		x.sorted = nil
	}
	if had != nil && had.Spec.ProviderID != n.Spec.ProviderID {
		delete(x.provided, had.Spec.ProviderID)
	}
	if had == nil {
		x.nodes[n.Name] = &node{name: n.Name}
	}
	x.nodes[n.Name].object = n
	if id := n.Spec.ProviderID; id != "" && x.provided[id] != n.Name {
		x.provided[id] = n.Name
		x.sorted = nil
	}
	return note(x.going, n.Name, isGoing(n))
}

// note has a set hold a name or not. It reports whether the set holds it now and did not before.
func note(set map[string]bool, name string, holds bool) (isNew bool) {
	if !holds {
		delete(set, name)
		return false
	}
	isNew = !set[name]
	set[name] = true
	return isNew
}

// isGoing reports whether a Node is being deleted, or Cluster Autoscaler is about to delete it.
func isGoing(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil || translate.AutoscalerDeletes(n)
}

func (x *nodeIndex) remove(n *corev1.Node) {
	x.changeUsage(n)
	delete(x.nodes, n.Name)
	delete(x.going, n.Name)
	x.sorted = nil
	if x.provided[n.Spec.ProviderID] == n.Name {
		delete(x.provided, n.Spec.ProviderID)
	}
}

// upsertClaim records a state of a NodeClaim. It reports whether its instance has just been
// launched, or its deletion begun.
func (x *nodeIndex) upsertClaim(nc *karpenterv1.NodeClaim) (isLaunchedOrDeletingNow bool) {
	had, ok := x.claims[nc.Name]
	deleting := note(x.goingClaims, nc.Name, nc.DeletionTimestamp != nil)
	switch {
	case !ok:
		x.changeUsage(nc)
		x.claims[nc.Name] = &claim{object: nc}
		x.sorted = nil
		return deleting
	case !had.assumedUntil.IsZero() || !sameUsage(had.object, nc) || had.object.Status.ProviderID != nc.Status.ProviderID ||
		isTerminating(had.object) != isTerminating(nc) || !sameResources(had.object.Status.Capacity, nc.Status.Capacity):
		x.changeUsage(had.object, nc)
	}
	if had.object.Status.ProviderID != nc.Status.ProviderID || !ptr.Equal(had.object.Spec.NodeClassRef, nc.Spec.NodeClassRef) {
		x.sorted = nil
	}
	launched := had.object.Status.ProviderID == "" && nc.Status.ProviderID != ""
	*had = claim{object: nc}
	return launched || deleting
}

func (x *nodeIndex) removeClaim(nc *karpenterv1.NodeClaim) {
	x.changeUsage(nc)
	delete(x.claims, nc.Name)
	delete(x.goingClaims, nc.Name)
	x.sorted = nil
}

// assumeClaim records a NodeClaim that was just created, unless the watch was faster.
func (x *nodeIndex) assumeClaim(nc *karpenterv1.NodeClaim, now time.Time) {
	if _, ok := x.claims[nc.Name]; !ok {
		x.claims[nc.Name] = &claim{nc, now.Add(assumedMax)}
		note(x.goingClaims, nc.Name, nc.DeletionTimestamp != nil)
		x.sorted = nil
	}
}

// expire drops assumed NodeClaims that the watch never showed.
func (x *nodeIndex) expire(now time.Time) {
	for name, c := range x.claims {
		if !c.assumedUntil.IsZero() && now.After(c.assumedUntil) {
			delete(x.claims, name)
			delete(x.goingClaims, name)
			x.sorted = nil
		}
	}
}

// list returns every NodeClaim of ours and every Node, each pair once, sorted by name. A Node
// that waits for its NodeClaim is left out.
func (x *nodeIndex) list() []*node {
	if x.sorted != nil {
		return x.sorted
	}
	all := make([]*node, 0, max(len(x.nodes), len(x.claims)))
	for _, n := range x.nodes {
		n.claim = nil
	}
	for name, c := range x.claims {
		if n := x.nodeOf(c); n != nil {
			if n.claim == nil || name < n.claim.object.Name {
				n.claim = c
			}
		} else if ref := c.object.Spec.NodeClassRef; x.manages(ref.Group, ref.Kind) {
			all = append(all, &node{name: name, claim: c})
		}
	}
	for _, n := range x.nodes {
		if n.claim != nil || !x.awaitsClaim(n.object) {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	x.sorted = all
	return all
}

// nodeOf returns the Node of a NodeClaim; nil: it has not joined.
func (x *nodeIndex) nodeOf(c *claim) *node {
	if c.object.Status.ProviderID == "" {
		return nil
	}
	return x.nodes[x.provided[c.object.Status.ProviderID]]
}

// awaitsClaim reports whether a Node without a NodeClaim seems to belong to a NodeClaim of ours
// that is not known yet. Such a Node is left out of snapshots until the NodeClaim is known.
func (x *nodeIndex) awaitsClaim(n *corev1.Node) bool {
	if n.Spec.ProviderID == "" && n.Labels[karpenterv1.NodePoolLabelKey] != "" {
		return true
	}
	ours := false
	for key := range n.Labels {
		group, kind, _ := strings.Cut(key, "/")
		ours = ours || x.manages(group, kind)
	}
	return ours && n.Labels[karpenterv1.NodeRegisteredLabelKey] != karpenterv1.LabelValueTrue
}

// get returns a Node as last seen; nil: there is none of that name.
func (x *nodeIndex) get(name string) *corev1.Node {
	if n := x.nodes[name]; n != nil {
		return n.object
	}
	return nil
}

// has reports whether there is a Node or a NodeClaim of that name.
func (x *nodeIndex) has(name string) bool {
	return x.nodes[name] != nil || x.claims[name] != nil
}

// claimOf returns the NodeClaim of a Node; nil: there is none.
func (x *nodeIndex) claimOf(nodeName string) *claim {
	x.list()
	if n := x.nodes[nodeName]; n != nil {
		return n.claim
	}
	return nil
}

// joined returns the Node that a name means, be it its own or its NodeClaim's. It returns nil
// if that has not joined, or is being deleted.
func (x *nodeIndex) joined(name string) *corev1.Node {
	n := x.nodes[name]
	if c := x.claims[name]; n == nil && c != nil {
		n = x.nodeOf(c)
	}
	if n == nil || n.object.DeletionTimestamp != nil {
		return nil
	}
	return n.object
}

// isDraining reports whether any Node or NodeClaim is going.
func (x *nodeIndex) isDraining() bool { return len(x.going)+len(x.goingClaims) > 0 }

// podsChanged invalidates what the pods of a node say of it.
func (x *nodeIndex) podsChanged(name string) {
	if n := x.nodes[name]; n != nil {
		n.hasPods = false
	}
}

// limitsChanged invalidates all that was derived for a node.
func (x *nodeIndex) limitsChanged(name string) {
	if n := x.nodes[name]; n != nil {
		n.fromNode = nil
	}
}

// changeUsage counts a change for the NodePools of the given objects.
func (x *nodeIndex) changeUsage(states ...client.Object) {
	for _, o := range states {
		x.versions[o.GetLabels()[karpenterv1.NodePoolLabelKey]]++
	}
}

// sameUsage reports whether two states of an object belong to the same NodePool, cost the
// same, and both or neither are being deleted.
func sameUsage(had, now client.Object) bool {
	was, is := had.GetLabels(), now.GetLabels()
	return (had.GetDeletionTimestamp() == nil) == (now.GetDeletionTimestamp() == nil) &&
		!slices.ContainsFunc(usageLabels[:], func(key string) bool { return was[key] != is[key] })
}

// usageLabels say which NodePool an object belongs to and what its instance costs.
var usageLabels = [...]string{karpenterv1.NodePoolLabelKey, label.InstanceType, label.Zone, label.CapacityType} //nolint:gochecknoglobals // a constant list

func sameResources(had, now corev1.ResourceList) bool {
	return maps.EqualFunc(had, now, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

func isInitialized(n *corev1.Node) bool {
	return n.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue
}

func isTerminating(nc *karpenterv1.NodeClaim) bool {
	return meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInstanceTerminating)
}
