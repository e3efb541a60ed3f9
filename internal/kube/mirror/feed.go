package mirror

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// watched is a kind and what is done with its objects.
type watched struct {
	kind           client.Object
	upsert, remove func(any)
}

// Feed subscribes the store to the watches and returns a function that tells whether
// everything there was at the start has arrived.
func (s *Store) Feed(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	kinds := []watched{
		{&corev1.Pod{}, on(s.upsertPod), on(s.removePod)},
		{&corev1.Node{}, on(s.upsertNode), on(s.removeNode)},
		{&karpenterv1.NodeClaim{}, on(s.upsertClaim), on(s.removeClaim)},
		{&karpenterv1.NodePool{}, on(s.upsertPool), on(s.removePool)},
		{&policyv1.PodDisruptionBudget{}, on(s.upsertPDB), on(s.removePDB)},
		{&corev1.Namespace{}, on(s.upsertNamespace), on(s.removeNamespace)},
	}
	kinds = append(kinds, s.daemonKinds()...)
	kinds = append(kinds, s.volumeKinds()...)
	if len(s.opts.DefaultConstraints) > 0 {
		kinds = append(kinds, s.siblingKinds()...)
	}
	var arrived []toolscache.InformerSynced
	for _, w := range kinds {
		informer, err := c.GetInformer(ctx, w.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", w.kind, err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: s.count(w.upsert), UpdateFunc: func(_, o any) { s.count(w.upsert)(o) }, DeleteFunc: s.count(w.remove),
		})
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", w.kind, err)
		}
		arrived = append(arrived, registration.HasSynced)
	}
	return func() bool {
		return !slices.ContainsFunc(arrived, func(ok toolscache.InformerSynced) bool { return !ok() })
	}, nil
}

// Heard returns how much the watches have told so far, and how often what can be launched has
// changed. As long as it stays the same, only time changes the cluster.
func (s *Store) Heard() uint64 { return s.heard.Load() }

// HeardOfMachines returns how often the watches have told so far of Nodes and NodeClaims of a pool in
// which something was new that the pool counts: which there are, what they have and whether they go.
func (s *Store) HeardOfMachines(pool string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machined[pool]
}

// Initialised returns how many Nodes were seen to become initialised so far.
func (s *Store) Initialised() uint64 { return s.initialised.Load() }

// count makes a handler that counts.
func (s *Store) count(handle func(any)) func(any) {
	return func(o any) {
		handle(o)
		s.heard.Add(1)
	}
}

// on makes an event handler of a method that takes an object, the last known state of a
// deleted one included.
func on[T client.Object](f func(T)) func(any) {
	return func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if obj, ok := o.(T); ok {
			f(obj)
		}
	}
}

func (s *Store) upsertPod(p *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if translate.Terminal(p) {
		s.forgetPod(p.UID)
		return
	}
	had := s.pods[p.UID]
	asked := had != nil && s.asks(had)
	asksNow, failed := asksForNode(p)
	now := &pod{Pod: p, asksForNode: asksNow, failed: failed, claims: len(translate.ClaimsOf(p)) > 0, shape: s.shape(p)}
	if had != nil {
		now.history = had.history
	}
	s.seeMove(had, now)
	s.forgetPodState(had)
	s.pods[p.UID] = now
	s.unbound[p.UID] = now
	s.joinGang(now)
	s.seeHint(had, now)
	if p.Spec.NodeName != "" {
		delete(s.planned, p.UID)
		delete(s.unbound, p.UID)
		s.bind(now)
		s.noteDaemonPod(p)
	}
	if s.asks(now) && !asked {
		s.wake("pod/" + string(p.UID))
	}
}

func (s *Store) removePod(p *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetPod(p.UID)
}

func (s *Store) forgetPod(uid types.UID) {
	s.forgetPodState(s.pods[uid])
	delete(s.pods, uid)
	delete(s.unbound, uid)
	delete(s.planned, uid)
	delete(s.hints.given, uid)
}

func (s *Store) forgetPodState(p *pod) {
	if p == nil {
		return
	}
	if p.shape.pods--; p.shape.pods == 0 {
		delete(s.shapes, p.shape.key)
	}
	s.unbind(p)
	s.partGang(p)
}

// bind adds a pod to those of its node.
func (s *Store) bind(p *pod) {
	on := s.byNode[p.Spec.NodeName]
	at, _ := slices.BinarySearchFunc(on, p, byName)
	s.byNode[p.Spec.NodeName] = slices.Insert(on, at, p)
	s.unsettle(p.Spec.NodeName)
}

// unbind takes a pod from those of its node, if it has one.
func (s *Store) unbind(p *pod) {
	on := s.byNode[p.Spec.NodeName]
	at, is := slices.BinarySearchFunc(on, p, byName)
	if !is {
		return
	}
	s.unsettle(p.Spec.NodeName)
	if len(on) == 1 {
		delete(s.byNode, p.Spec.NodeName)
		return
	}
	s.byNode[p.Spec.NodeName] = slices.Delete(on, at, at+1)
}

// byName is the order of the pods of a node, so that what is said of the node does not change
// from one snapshot to the next.
func byName(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// shape returns the shared shape of the pod, one pod richer.
func (s *Store) shape(p *corev1.Pod) *sharedShape {
	p = s.withDefaults(p)
	key := translate.ShapeKey(p)
	sh := s.shapes[key]
	if sh == nil {
		sh = &sharedShape{Shape: translate.PodShape(p, s.opts.Vocabulary), key: key}
		s.shapes[key] = sh
	}
	sh.pods++
	return sh
}

// asksForNode tells whether a pod waits for a machine, as far as its nomination lets it
// (asks): kube-scheduler found none for it, and it is not bound to certain nodes anyway. Where
// there is no Node at all, kube-scheduler 1.37 failed with an error instead if the pod is of a
// PodGroup.
func asksForNode(p *corev1.Pod) (asks, failed bool) {
	if p.Spec.NodeName != "" || !translate.Active(p) ||
		translate.OwnedByDaemonSet(p) || translate.Mirror(p) || translate.Unwanted(p) {
		return false, false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			failed = c.Reason == corev1.PodReasonSchedulerError && translate.PodGroupOf(p) != ""
			return failed || c.Reason == corev1.PodReasonUnschedulable, failed
		}
	}
	return false, false
}

func (s *Store) upsertNode(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.nodes[n.Name]
	switch {
	case had == nil:
		s.toCount(n)
	case !countsAlike(had, n) || had.Spec.ProviderID != n.Spec.ProviderID || !haveAlike(had.Status.Capacity, n.Status.Capacity):
		s.toCount(had, n)
	}
	if isInitialised(n) && (had == nil || !isInitialised(had)) {
		s.initialised.Add(1)
	}
	if had == nil || !maps.Equal(had.Labels, n.Labels) || had.Spec.ProviderID != n.Spec.ProviderID {
		s.listed = nil
	}
	if had != nil && had.Spec.ProviderID != n.Spec.ProviderID {
		delete(s.providers, had.Spec.ProviderID)
	}
	s.nodes[n.Name] = n
	if had == nil {
		s.onNode[n.Name] = &machine{name: n.Name}
	}
	s.onNode[n.Name].node = n
	if id := n.Spec.ProviderID; id != "" && s.providers[id] != n.Name {
		s.providers[id] = n.Name
		s.listed = nil
	}
	s.stirHints()
	if n.DeletionTimestamp != nil && (had == nil || had.DeletionTimestamp == nil) {
		s.wake("node/" + n.Name)
	}
}

func isInitialised(n *corev1.Node) bool {
	return n.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue
}

// toCount has the pools counted anew that a machine is of.
func (s *Store) toCount(states ...client.Object) {
	for _, o := range states {
		s.machined[o.GetLabels()[karpenterv1.NodePoolLabelKey]]++
	}
}

// countsAlike tells whether two states of a machine belong to the same pool, cost the same, and
// both or neither are on their way out.
func countsAlike(had, now client.Object) bool {
	was, is := had.GetLabels(), now.GetLabels()
	return (had.GetDeletionTimestamp() == nil) == (now.GetDeletionTimestamp() == nil) &&
		!slices.ContainsFunc(countedLabels[:], func(key string) bool { return was[key] != is[key] })
}

// countedLabels say what pool a machine is of and what it costs.
var countedLabels = [...]string{karpenterv1.NodePoolLabelKey, label.InstanceType, label.Zone, label.CapacityType} //nolint:gochecknoglobals // a constant list

func haveAlike(had, now corev1.ResourceList) bool {
	return maps.EqualFunc(had, now, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

func (s *Store) removeNode(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toCount(n)
	delete(s.nodes, n.Name)
	delete(s.onNode, n.Name)
	s.listed = nil
	s.stirHints()
	delete(s.nominated, n.Name)
	if s.providers[n.Spec.ProviderID] == n.Name {
		delete(s.providers, n.Spec.ProviderID)
	}
}

func (s *Store) upsertClaim(nc *karpenterv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had, ok := s.claims[nc.Name]
	ending := func(nc *karpenterv1.NodeClaim) bool {
		return meta.IsStatusConditionTrue(nc.Status.Conditions, karpenterv1.ConditionTypeInstanceTerminating)
	}
	switch {
	case !ok:
		s.toCount(nc)
	case !had.assumedUntil.IsZero() || !countsAlike(had, nc) || had.Status.ProviderID != nc.Status.ProviderID || ending(had.NodeClaim) != ending(nc) ||
		!haveAlike(had.Status.Capacity, nc.Status.Capacity):
		s.toCount(had, nc)
	}
	if !ok || had.Status.ProviderID != nc.Status.ProviderID || !ptr.Equal(had.Spec.NodeClassRef, nc.Spec.NodeClassRef) {
		s.listed = nil
	}
	launched := ok && had.Status.ProviderID == "" && nc.Status.ProviderID != ""
	leaving := nc.DeletionTimestamp != nil && (!ok || had.DeletionTimestamp == nil)
	if !ok {
		had = &claim{}
		s.claims[nc.Name] = had
	}
	*had = claim{NodeClaim: nc}
	if launched || leaving {
		s.wake("claim/" + nc.Name + "/" + nc.ResourceVersion)
	}
}

func (s *Store) removeClaim(nc *karpenterv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.toCount(nc)
	delete(s.claims, nc.Name)
	s.listed = nil
	delete(s.nominated, nc.Name)
	s.wake("claim/" + nc.Name)
}

func (s *Store) upsertPool(np *karpenterv1.NodePool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools[np.Name] = np
	s.wake("pool/" + np.Name + "/" + np.ResourceVersion)
}

func (s *Store) removePool(np *karpenterv1.NodePool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, np.Name)
	s.wake("pool/" + np.Name)
}

func (s *Store) upsertPDB(b *policyv1.PodDisruptionBudget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
	if had := s.pdbs[key]; had == nil || had.Generation != b.Generation || had.UID != b.UID {
		s.guarding++
	}
	s.pdbs[key] = b
}

func (s *Store) removePDB(b *policyv1.PodDisruptionBudget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pdbs, types.NamespacedName{Namespace: b.Namespace, Name: b.Name})
	s.guarding++
}

func (s *Store) upsertNamespace(ns *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[ns.Name] = ns.Labels
}

func (s *Store) removeNamespace(ns *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces, ns.Name)
}
