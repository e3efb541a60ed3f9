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

// daemons hold the DaemonSets, and the objects by which admission changes their pods.
type daemons struct {
	vocabulary translate.Vocabulary

	sets    map[types.UID]*daemon
	runtime map[string]*nodev1.RuntimeClass
	ranges  map[types.NamespacedName]*corev1.LimitRange
	// admission counts the changes of runtime classes and limit ranges.
	admission uint64
}

// daemon is a DaemonSet and the newest of its pods, which shows what admission made of the template.
type daemon struct {
	set    *appsv1.DaemonSet
	newest *corev1.Pod
}

func newDaemons(vocabulary translate.Vocabulary) *daemons {
	return &daemons{
		vocabulary: vocabulary,
		sets:       map[types.UID]*daemon{}, runtime: map[string]*nodev1.RuntimeClass{}, ranges: map[types.NamespacedName]*corev1.LimitRange{},
	}
}

func (x *daemons) upsert(ds *appsv1.DaemonSet) {
	if d := x.sets[ds.UID]; d != nil {
		d.set = ds
		return
	}
	x.sets[ds.UID] = &daemon{set: ds}
}

func (x *daemons) remove(ds *appsv1.DaemonSet) { delete(x.sets, ds.UID) }

func (x *daemons) upsertRuntimeClass(c *nodev1.RuntimeClass) {
	x.admission++
	x.runtime[c.Name] = c
}

func (x *daemons) removeRuntimeClass(c *nodev1.RuntimeClass) {
	x.admission++
	delete(x.runtime, c.Name)
}

func (x *daemons) upsertLimitRange(r *corev1.LimitRange) {
	x.admission++
	x.ranges[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
}

func (x *daemons) removeLimitRange(r *corev1.LimitRange) {
	x.admission++
	delete(x.ranges, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
}

// see keeps the newest pod of each DaemonSet.
func (x *daemons) see(p *corev1.Pod) {
	for _, owner := range p.OwnerReferences {
		if d := x.sets[owner.UID]; d != nil && (d.newest == nil || !p.CreationTimestamp.Before(&d.newest.CreationTimestamp)) {
			d.newest = p
		}
	}
}

// daemonOf returns the name of the DaemonSet that a pod belongs to, as Snapshot.Daemons has it.
func daemonOf(p *corev1.Pod) string {
	for _, owner := range p.OwnerReferences {
		if owner.Kind == "DaemonSet" {
			return p.Namespace + "/" + owner.Name
		}
	}
	return ""
}

// view returns the DaemonSet pods that every node must carry, sorted by name. DaemonSets whose
// pods need ResourceClaims are left out: they run only where the devices are. A DaemonSet that
// fits on no instance type of the pools is left out too: none of its pods will ever run on a
// node of ours, and counting it would leave no room for any other pod.
func (x *daemons) view(pools []cluster.Pool) []cluster.Daemon {
	var out []cluster.Daemon
	for _, d := range x.sets {
		if len(d.set.Spec.Template.Spec.ResourceClaims) > 0 {
			continue
		}
		if daemon := x.read(d); fitsSomeType(&daemon, pools) {
			out = append(out, daemon)
		}
	}
	slices.SortFunc(out, func(a, b cluster.Daemon) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// fitsSomeType reports whether an instance type of the pools has room for a DaemonSet's pod, or
// there are no instance types.
func fitsSomeType(d *cluster.Daemon, pools []cluster.Pool) bool {
	types := 0
	for i := range pools {
		for _, t := range pools[i].Types {
			if types++; d.Constraints.Requests.Fits(t.Allocatable()) {
				return true
			}
		}
	}
	return types == 0
}

// admissionOf returns what the API server completes the pods of a namespace by: the runtime class that
// they name, nil if there is none, and the limit ranges, by name.
func (x *daemons) admissionOf(namespace string, className *string) (class *nodev1.RuntimeClass, ranges []*corev1.LimitRange) {
	if className != nil {
		class = x.runtime[*className]
	}
	for _, key := range slices.SortedFunc(maps.Keys(x.ranges), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		if key.Namespace == namespace {
			ranges = append(ranges, x.ranges[key])
		}
	}
	return class, ranges
}

func (x *daemons) read(d *daemon) cluster.Daemon {
	class, ranges := x.admissionOf(d.set.Namespace, d.set.Spec.Template.Spec.RuntimeClassName)
	sh := translate.PodConstraints(translate.DaemonPod(d.set, class, ranges), x.vocabulary)
	sh.Invalid = ""
	if d.newest != nil {
		sh.Requests = translate.PodRequests(d.newest)
	}
	return cluster.Daemon{Name: d.set.Namespace + "/" + d.set.Name, Constraints: sh}
}
