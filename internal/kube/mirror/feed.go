package mirror

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// watched is a kind of object, and the handlers of its watch events.
type watched struct {
	kind           client.Object
	upsert, remove func(any)
}

// kindOf makes handlers of functions that take in an object of a kind. The handlers hold the
// lock of the Store during a call, and accept the last known state of a deleted object.
func kindOf[T client.Object](s *Store, kind T, upsert, remove func(T)) watched {
	locked := func(handle func(T)) func(any) {
		return func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if object, ok := o.(T); ok {
				s.mu.Lock()
				defer s.mu.Unlock()
				handle(object)
			}
		}
	}
	return watched{kind, locked(upsert), locked(remove)}
}

// clusterKinds are the kinds that are always watched.
func clusterKinds(s *Store) []watched {
	return []watched{
		kindOf(s, &corev1.Pod{}, s.upsertPod, s.removePod),
		kindOf(s, &corev1.Node{}, s.upsertNode, s.removeNode),
		kindOf(s, &karpenterv1.NodeClaim{}, s.upsertClaim, s.removeClaim),
		kindOf(s, &karpenterv1.NodePool{}, s.pools.upsert, s.pools.remove),
		kindOf(s, &policyv1.PodDisruptionBudget{}, s.pdbs.upsert, s.pdbs.remove),
		kindOf(s, &corev1.Namespace{},
			func(ns *corev1.Namespace) { s.namespaces[ns.Name] = ns.Labels },
			func(ns *corev1.Namespace) { delete(s.namespaces, ns.Name) }),
		kindOf(s, &appsv1.DaemonSet{}, s.daemons.upsert, s.daemons.remove),
		kindOf(s, &nodev1.RuntimeClass{}, s.daemons.upsertRuntimeClass, s.daemons.removeRuntimeClass),
		kindOf(s, &corev1.LimitRange{}, s.daemons.upsertLimitRange, s.daemons.removeLimitRange),
		kindOf(s, &corev1.PersistentVolumeClaim{}, s.volumes.upsertClaim, s.volumes.removeClaim),
		kindOf(s, &corev1.PersistentVolume{}, s.volumes.upsert, s.volumes.remove),
		kindOf(s, &storagev1.StorageClass{}, s.volumes.upsertClass, s.volumes.removeClass),
		kindOf(s, &storagev1.CSINode{},
			func(n *storagev1.CSINode) { s.volumes.upsertLimits(n); s.nodes.limitsChanged(n.Name) },
			func(n *storagev1.CSINode) { s.volumes.removeLimits(n); s.nodes.limitsChanged(n.Name) }),
		kindOf(s, &storagev1.VolumeAttachment{}, s.volumes.upsertAttachment, s.volumes.removeAttachment),
	}
}

// ownerKinds are watched if plans are made before batch windows end.
func ownerKinds(s *Store) []watched {
	return []watched{
		kindOf(s, &appsv1.ReplicaSet{}, s.owners.upsertReplicaSet, func(o *appsv1.ReplicaSet) { delete(s.owners.replicas, o.UID) }),
		kindOf(s, &appsv1.StatefulSet{}, s.owners.upsertStatefulSet, func(o *appsv1.StatefulSet) { delete(s.owners.replicas, o.UID) }),
	}
}

// siblingKinds are watched only if the cluster has default spread constraints.
func siblingKinds(s *Store) []watched {
	return []watched{
		kindOf(s, &corev1.Service{},
			func(svc *corev1.Service) { s.siblings.services[svc.UID] = svc; s.pods.readConstraints(svc.Namespace) },
			func(svc *corev1.Service) { delete(s.siblings.services, svc.UID); s.pods.readConstraints(svc.Namespace) }),
		kindOf(s, &appsv1.ReplicaSet{},
			func(o *appsv1.ReplicaSet) { upsertOwner(s, o, o.Spec.Selector) },
			func(o *appsv1.ReplicaSet) { s.siblings.removeOwner(o) }),
		kindOf(s, &appsv1.StatefulSet{},
			func(o *appsv1.StatefulSet) { upsertOwner(s, o, o.Spec.Selector) },
			func(o *appsv1.StatefulSet) { s.siblings.removeOwner(o) }),
		kindOf(s, &corev1.ReplicationController{},
			func(o *corev1.ReplicationController) {
				upsertOwner(s, o, &metav1.LabelSelector{MatchLabels: o.Spec.Selector})
			},
			func(o *corev1.ReplicationController) { s.siblings.removeOwner(o) }),
	}
}

func overlayKind(s *Store) watched {
	return kindOf(s, &karpenterv1alpha1.NodeOverlay{}, s.pools.upsertOverlay, s.pools.removeOverlay)
}

func podGroupKind(s *Store) watched {
	return kindOf(s, &schedulingv1beta1.PodGroup{}, s.gangs.upsert, s.gangs.remove)
}

// allKinds are the kinds that may be watched, by their Go type.
func allKinds(s *Store) map[reflect.Type]watched {
	all := map[reflect.Type]watched{}
	for _, w := range append(slices.Concat(clusterKinds(s), siblingKinds(s), ownerKinds(s), deviceKinds(s), bufferKinds(s)), podGroupKind(s), overlayKind(s)) {
		kind := reflect.TypeOf(w.kind)
		if had, twice := all[kind]; twice {
			own := w
			w.upsert = func(o any) { had.upsert(o); own.upsert(o) }
			w.remove = func(o any) { had.remove(o); own.remove(o) }
		}
		all[kind] = w
	}
	return all
}

// Feed subscribes the store to the watches and returns a function that reports whether
// everything that existed at the start has arrived.
func (s *Store) Feed(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	kinds := clusterKinds(s)
	if len(s.opts.DefaultConstraints) > 0 {
		kinds = append(kinds, siblingKinds(s)...)
	}
	if s.opts.Owners {
		kinds = append(kinds, ownerKinds(s)...)
	}
	var arrived []toolscache.InformerSynced
	for _, w := range kinds {
		hasSynced, err := subscribe(ctx, s, c, w)
		if err != nil {
			return nil, err
		}
		arrived = append(arrived, hasSynced)
	}
	return func() bool {
		return !slices.ContainsFunc(arrived, func(ok toolscache.InformerSynced) bool { return !ok() })
	}, nil
}

// FeedPodGroups subscribes the store to the PodGroups. The error is a meta.NoKindMatchError if
// the API server does not serve them; nothing has been begun then.
func (s *Store) FeedPodGroups(ctx context.Context, c cache.Cache) error {
	_, err := subscribe(ctx, s, c, podGroupKind(s))
	return err
}

func subscribe(ctx context.Context, s *Store, c cache.Cache, w watched) (toolscache.InformerSynced, error) {
	informer, err := c.GetInformer(ctx, w.kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", w.kind, err)
	}
	counted := func(handle func(any)) func(any) {
		return func(o any) {
			handle(o)
			s.events.Add(1)
		}
	}
	upsert := counted(w.upsert)
	update := func(was, is any) {
		if !isHeartbeat(was, is) {
			upsert(is)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.nodes.heartbeat(is.(*corev1.Node))
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: upsert, UpdateFunc: update, DeleteFunc: counted(w.remove)})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", w.kind, err)
	}
	return registration.HasSynced, nil
}

// Observe takes the objects in as if the watches had just shown them, in the order given. It is
// for snapshots of what no watch shows: a test, a file. The error names the first kind that the
// mirror does not watch; the objects before it are taken in.
func (s *Store) Observe(objects ...client.Object) error {
	for _, o := range objects {
		upsert := observer(s, reflect.TypeOf(o))
		if upsert == nil {
			return fmt.Errorf("observe %T: the mirror does not watch this kind", o)
		}
		upsert(o)
	}
	return nil
}

func observer(s *Store, kind reflect.Type) func(any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observers == nil {
		s.observers = map[reflect.Type]func(any){}
		for kind, w := range allKinds(s) {
			s.observers[kind] = w.upsert
		}
	}
	return s.observers[kind]
}

// upsertPod takes in a state of a pod. What is remembered of the pod passes from the state
// before to this one.
func (s *Store) upsertPod(object *corev1.Pod) {
	if translate.Terminal(object) {
		s.removePod(object)
		return
	}
	had := s.pods.all[object.UID]
	needed := had != nil && s.assignments.needsNode(had)
	reportUnread(s, had, object)
	now := s.pods.read(object, had)
	if had != nil {
		now.history = had.history
	}
	s.evictions.see(had, now, s.opts.Now())
	releasePod(s, had)
	s.pods.add(now)
	var presumed []*pod
	if s.opts.Owners {
		presumed = s.untried.add(now, s.assignments.needsNode(now))
	}
	s.gangs.addPod(now)
	s.assignments.see(had, now, s.opts.Now())
	if object.Spec.NodeName != "" {
		s.assignments.unassign(object.UID)
		s.nodes.podsChanged(object.Spec.NodeName)
		s.daemons.see(object)
	}
	if !needed && s.assignments.needsNode(now) {
		s.listeners.work("pod/" + string(object.UID))
	}
	for _, p := range presumed {
		if p != now {
			s.listeners.work("pod/" + string(p.object.UID))
		}
	}
}

// reportUnread reports which annotations of a pod cannot be read, unless that was so before.
func reportUnread(s *Store, had *pod, object *corev1.Pod) {
	if s.opts.Unread == nil {
		return
	}
	var before []string
	why := unread(s, object)
	if had != nil && len(why) > 0 {
		before = unread(s, had.object)
	}
	for _, one := range why {
		if !slices.Contains(before, one) {
			s.opts.Unread(object, one)
		}
	}
}

// unread says which annotations of a pod cannot be read.
func unread(s *Store, object *corev1.Pod) (why []string) {
	_, cost := translate.EvictionCost(object, s.opts.DeletionCosts)
	_, delay := s.opts.Autoscaler.ScaleUpDelay(object)
	for _, one := range []string{cost, delay} {
		if one != "" {
			why = append(why, one)
		}
	}
	return why
}

func (s *Store) removePod(object *corev1.Pod) {
	releasePod(s, s.pods.all[object.UID])
	s.pods.forget(object.UID)
	s.assignments.forget(object.UID)
}

// releasePod undoes what a state of a pod, which may be nil, has added to the parts.
func releasePod(s *Store, p *pod) {
	if p == nil {
		return
	}
	s.pods.release(p)
	s.nodes.podsChanged(p.object.Spec.NodeName)
	s.gangs.removePod(p)
	s.untried.remove(p)
}

func upsertOwner(s *Store, owner client.Object, selector *metav1.LabelSelector) {
	if s.siblings.addOwner(owner, selector) {
		s.pods.readConstraints(owner.GetNamespace())
	}
}

func (s *Store) upsertNode(n *corev1.Node) {
	isDeletingNow := s.nodes.upsert(n)
	s.listeners.reportNomination()
	if isDeletingNow {
		s.listeners.work("node/" + n.Name)
	}
}

func (s *Store) removeNode(n *corev1.Node) {
	s.nodes.remove(n)
	s.listeners.reportNomination()
	delete(s.assignments.reserved, n.Name)
}

func (s *Store) upsertClaim(nc *karpenterv1.NodeClaim) {
	if s.nodes.upsertClaim(nc) {
		s.listeners.work("claim/" + nc.Name + "/" + nc.ResourceVersion)
	}
}

func (s *Store) removeClaim(nc *karpenterv1.NodeClaim) {
	s.nodes.removeClaim(nc)
	delete(s.assignments.reserved, nc.Name)
	s.listeners.work("claim/" + nc.Name)
}
