package mirror

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// daemons is what is known of DaemonSets, and of what admission makes of their pods.
type daemons struct {
	sets    map[types.UID]*daemon
	runtime map[string]*nodev1.RuntimeClass
	ranges  map[types.NamespacedName]*corev1.LimitRange
}

// daemon is a DaemonSet and the newest of its pods, which shows what became of the template.
type daemon struct {
	set    *appsv1.DaemonSet
	newest *corev1.Pod
}

func newDaemons() daemons {
	return daemons{
		sets: map[types.UID]*daemon{}, runtime: map[string]*nodev1.RuntimeClass{}, ranges: map[types.NamespacedName]*corev1.LimitRange{},
	}
}

// daemonKinds are the objects that tell what every node must carry.
func (s *Store) daemonKinds() []watched {
	return []watched{
		{&appsv1.DaemonSet{}, on(s.upsertDaemon), on(s.removeDaemon)},
		{&nodev1.RuntimeClass{}, on(s.upsertRuntimeClass), on(s.removeRuntimeClass)},
		{&corev1.LimitRange{}, on(s.upsertLimitRange), on(s.removeLimitRange)},
	}
}

func (s *Store) upsertDaemon(ds *appsv1.DaemonSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.daemons.sets[ds.UID]; d != nil {
		d.set = ds
		return
	}
	s.daemons.sets[ds.UID] = &daemon{set: ds}
}

func (s *Store) removeDaemon(ds *appsv1.DaemonSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.daemons.sets, ds.UID)
}

func (s *Store) upsertRuntimeClass(c *nodev1.RuntimeClass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemons.runtime[c.Name] = c
}

func (s *Store) removeRuntimeClass(c *nodev1.RuntimeClass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.daemons.runtime, c.Name)
}

func (s *Store) upsertLimitRange(r *corev1.LimitRange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemons.ranges[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
}

func (s *Store) removeLimitRange(r *corev1.LimitRange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.daemons.ranges, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
}

// noteDaemonPod keeps the newest pod of each set.
func (s *Store) noteDaemonPod(p *corev1.Pod) {
	for _, owner := range p.OwnerReferences {
		if d := s.daemons.sets[owner.UID]; d != nil && (d.newest == nil || !p.CreationTimestamp.Before(&d.newest.CreationTimestamp)) {
			d.newest = p
		}
	}
}

// daemonOf returns the name of the daemon that a pod belongs to, as Snapshot.Daemons has it.
func daemonOf(p *corev1.Pod) string {
	for _, owner := range p.OwnerReferences {
		if owner.Kind == "DaemonSet" {
			return p.Namespace + "/" + owner.Name
		}
	}
	return ""
}

// daemonShapes returns what every node must carry, sorted by name. DaemonSets whose pods need
// ResourceClaims run only where the devices are. A DaemonSet that no instance type of the pools
// holds is left out, too: none of its pods will ever run on a node of ours, and with it no node
// would have room for any other pod.
func (s *Store) daemonShapes(pools []cluster.Pool) []cluster.Daemon {
	var out []cluster.Daemon
	for _, d := range s.daemons.sets {
		if len(d.set.Spec.Template.Spec.ResourceClaims) > 0 {
			continue
		}
		if shape := s.daemonShape(d); fitsSomeType(&shape, pools) {
			out = append(out, shape)
		}
	}
	slices.SortFunc(out, func(a, b cluster.Daemon) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// fitsSomeType tells whether an instance type of the pools has room for a daemon, or there are none.
func fitsSomeType(d *cluster.Daemon, pools []cluster.Pool) bool {
	types := 0
	for i := range pools {
		for _, t := range pools[i].Types {
			if types++; d.Shape.Requests.Fits(t.Allocatable()) {
				return true
			}
		}
	}
	return types == 0
}

func (s *Store) daemonShape(d *daemon) cluster.Daemon {
	var class *nodev1.RuntimeClass
	if name := d.set.Spec.Template.Spec.RuntimeClassName; name != nil {
		class = s.daemons.runtime[*name]
	}
	var ranges []*corev1.LimitRange
	for _, key := range slices.SortedFunc(maps.Keys(s.daemons.ranges), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		if key.Namespace == d.set.Namespace {
			ranges = append(ranges, s.daemons.ranges[key])
		}
	}
	sh := translate.PodShape(translate.DaemonPod(d.set, class, ranges), s.opts.Vocabulary)
	sh.Invalid = ""
	if d.newest != nil {
		sh.Requests = translate.PodRequests(d.newest)
	}
	return cluster.Daemon{Name: d.set.Namespace + "/" + d.set.Name, Shape: sh}
}
