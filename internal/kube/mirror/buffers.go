package mirror

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// buffers hold the CapacityBuffers, and what they may name: pod templates and workloads.
type buffers struct {
	vocabulary translate.Vocabulary
	daemons    *daemons
	listeners  *listeners

	objects map[types.NamespacedName]*autoscalingv1beta1.CapacityBuffer
	sources map[sourceName]source
	// read is what objects come to, as far as that was asked for since something of it changed.
	read           map[types.NamespacedName]*Resolved
	daemonsVersion uint64
	// changed is called with the name of a buffer that comes to something else now; nil: nobody asks.
	changed func(types.NamespacedName)
}

// sourceName names a pod template or a workload.
type sourceName struct {
	kind, namespace, name string
}

// source is the part of a pod template or a workload that buffers are about.
type source struct {
	uid        types.UID
	generation int64
	template   *corev1.PodTemplateSpec
	scale      *int64 // nil: it is a pod template
}

// Resolved is what a CapacityBuffer comes to, or why that is not known.
type Resolved struct {
	translate.Buffer
	// Template is the name of the pod template, and Generation its generation; empty: it is a
	// workload's.
	Template   string
	Generation int64
	// Reason and Message say why it is not ready; empty: it is.
	Reason, Message string
}

const (
	kindPodTemplate = "PodTemplate"
	groupApps       = "apps"
)

func newBuffers(opts *Options, d *daemons, l *listeners) *buffers {
	return &buffers{
		vocabulary: opts.Vocabulary, daemons: d, listeners: l,
		objects: map[types.NamespacedName]*autoscalingv1beta1.CapacityBuffer{}, sources: map[sourceName]source{}, read: map[types.NamespacedName]*Resolved{},
	}
}

// FeedBuffers subscribes the store to CapacityBuffers and what they may name. Without that no room
// is kept for any.
func (s *Store) FeedBuffers(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	var arrived []toolscache.InformerSynced
	for _, w := range bufferKinds(s) {
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

// bufferKinds are watched only if room is kept for CapacityBuffers.
func bufferKinds(s *Store) []watched {
	x := s.buffers
	return []watched{
		kindOf(s, &autoscalingv1beta1.CapacityBuffer{}, x.upsert, x.remove),
		kindOf(s, &corev1.PodTemplate{},
			func(o *corev1.PodTemplate) {
				x.upsertSource(kindPodTemplate, o.Namespace, o.Name, source{o.UID, o.Generation, &o.Template, nil})
			},
			func(o *corev1.PodTemplate) { x.removeSource(sourceName{kindPodTemplate, o.Namespace, o.Name}) }),
		kindOf(s, &appsv1.Deployment{},
			func(o *appsv1.Deployment) {
				x.upsertSource("Deployment", o.Namespace, o.Name, source{o.UID, o.Generation, &o.Spec.Template, scale(o.Spec.Replicas)})
			},
			func(o *appsv1.Deployment) { x.removeSource(sourceName{"Deployment", o.Namespace, o.Name}) }),
		kindOf(s, &appsv1.ReplicaSet{},
			func(o *appsv1.ReplicaSet) {
				x.upsertSource("ReplicaSet", o.Namespace, o.Name, source{o.UID, o.Generation, &o.Spec.Template, scale(o.Spec.Replicas)})
			},
			func(o *appsv1.ReplicaSet) { x.removeSource(sourceName{"ReplicaSet", o.Namespace, o.Name}) }),
		kindOf(s, &appsv1.StatefulSet{},
			func(o *appsv1.StatefulSet) {
				x.upsertSource("StatefulSet", o.Namespace, o.Name, source{o.UID, o.Generation, &o.Spec.Template, scale(o.Spec.Replicas)})
			},
			func(o *appsv1.StatefulSet) { x.removeSource(sourceName{"StatefulSet", o.Namespace, o.Name}) }),
	}
}

// scale returns the replicas of a workload; one, if it does not say.
func scale(replicas *int32) *int64 {
	n := int64(1)
	if replicas != nil {
		n = int64(*replicas)
	}
	return &n
}

func (x *buffers) upsert(cb *autoscalingv1beta1.CapacityBuffer) {
	name := types.NamespacedName{Namespace: cb.Namespace, Name: cb.Name}
	had := x.objects[name]
	x.objects[name] = cb
	const refill = translate.RefillAfterAnnotationKey
	if had == nil || had.UID != cb.UID || had.Generation != cb.Generation || had.Annotations[refill] != cb.Annotations[refill] {
		x.forget(name, cb)
	}
}

func (x *buffers) remove(cb *autoscalingv1beta1.CapacityBuffer) {
	name := types.NamespacedName{Namespace: cb.Namespace, Name: cb.Name}
	delete(x.objects, name)
	delete(x.read, name)
	x.listeners.work("buffer/" + string(cb.UID))
}

// forget has a buffer read and planned again.
func (x *buffers) forget(name types.NamespacedName, cb *autoscalingv1beta1.CapacityBuffer) {
	delete(x.read, name)
	x.listeners.work(fmt.Sprintf("buffer/%s/%d", cb.UID, cb.Generation))
	if x.changed != nil {
		x.changed(name)
	}
}

func (x *buffers) upsertSource(kind, namespace, name string, is source) {
	key := sourceName{kind, namespace, name}
	had := x.sources[key]
	x.sources[key] = is
	if had.uid != is.uid || had.generation != is.generation || kind == kindPodTemplate && had.template != is.template { // not every server counts generations of pod templates
		x.sourceChanged(key)
	}
}

func (x *buffers) removeSource(key sourceName) {
	delete(x.sources, key)
	x.sourceChanged(key)
}

// sourceChanged has the buffers that name the source read again.
func (x *buffers) sourceChanged(key sourceName) {
	for name, cb := range x.objects {
		if of, ok := sourceOf(cb); ok && of == key {
			x.forget(name, cb)
		}
	}
}

// sourceOf returns what a buffer names; false: nothing that exists in Kubernetes' own API groups.
func sourceOf(cb *autoscalingv1beta1.CapacityBuffer) (sourceName, bool) {
	switch ref := cb.Spec.ScalableRef; {
	case cb.Spec.PodTemplateRef != nil:
		return sourceName{kindPodTemplate, cb.Namespace, cb.Spec.PodTemplateRef.Name}, true
	case ref != nil && cmp.Or(ref.APIGroup, groupApps) == groupApps && slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet"}, ref.Kind):
		return sourceName{ref.Kind, cb.Namespace, ref.Name}, true
	default:
		return sourceName{}, false
	}
}

// resolve returns what a buffer comes to.
func (x *buffers) resolve(name types.NamespacedName) *Resolved {
	if x.daemonsVersion != x.daemons.admission {
		clear(x.read)
		x.daemonsVersion = x.daemons.admission
	}
	if had := x.read[name]; had != nil {
		return had
	}
	r := x.readBuffer(x.objects[name])
	x.read[name] = r
	return r
}

func (x *buffers) readBuffer(cb *autoscalingv1beta1.CapacityBuffer) *Resolved {
	failed := func(message string) *Resolved {
		return &Resolved{Reason: autoscalingv1beta1.ReasonResolutionFailed, Message: message}
	}
	if _, err := translate.RefillAfter(cb); err != nil {
		return failed(err.Error())
	}
	key, ok := sourceOf(cb)
	switch ref := cb.Spec.ScalableRef; {
	case !ok && ref == nil:
		return failed("it has neither podTemplateRef nor scalableRef")
	case !ok:
		return failed(fmt.Sprintf("scalableRef: %s of group %q is no Deployment, ReplicaSet or StatefulSet of group %q", ref.Kind, ref.APIGroup, groupApps))
	}
	from, there := x.sources[key]
	switch {
	case !there && key.kind == kindPodTemplate:
		return &Resolved{Reason: autoscalingv1beta1.ReasonPodTemplateNotFound, Message: fmt.Sprintf("there is no PodTemplate %s", key.name)}
	case !there:
		return &Resolved{Reason: autoscalingv1beta1.ReasonScalableRefNotFound, Message: fmt.Sprintf("there is no %s %s", key.kind, key.name)}
	}
	class, ranges := x.daemons.admissionOf(cb.Namespace, from.template.Spec.RuntimeClassName)
	r := &Resolved{Buffer: translate.ReadBuffer(cb, translate.BufferSource{Template: from.template, Scale: from.scale, Class: class, Ranges: ranges}, x.vocabulary)}
	if key.kind == kindPodTemplate {
		r.Template, r.Generation = key.name, from.generation
	}
	return r
}

// view returns the buffers that a plan is about, sorted by namespace and name: those that are ready
// and ask for room.
func (x *buffers) view(now time.Time) []cluster.Buffer {
	names := slices.SortedFunc(maps.Keys(x.objects), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out []cluster.Buffer
	var wanted []buffer.Wanted
	for _, name := range names {
		cb, r := x.objects[name], x.resolve(name)
		if r.Reason != "" || r.Chunks == 0 || cb.DeletionTimestamp != nil {
			continue
		}
		out = append(out, cluster.Buffer{
			Namespace: cb.Namespace, Name: cb.Name, UID: string(cb.UID), Constraints: r.Constraints, LaunchAfter: translate.LaunchAfter(cb, now),
		})
		wanted = append(wanted, buffer.Wanted{Name: name.String(), Created: cb.CreationTimestamp.Time, Chunks: r.Chunks})
	}
	for i, n := range buffer.Share(wanted) {
		out[i].Chunks = n
	}
	return out
}

// Buffers answers what CapacityBuffers come to.
type Buffers struct{ store *Store }

// Buffers returns what answers that of this Store.
func (s *Store) Buffers() *Buffers { return &Buffers{s} }

// Any reports whether there is any CapacityBuffer.
func (b *Buffers) Any() bool {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return len(b.store.buffers.objects) > 0
}

// Resolve returns what a CapacityBuffer comes to. It returns false if the Store has not seen this
// generation of it.
func (b *Buffers) Resolve(cb *autoscalingv1beta1.CapacityBuffer) (r *Resolved, known bool) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	name := types.NamespacedName{Namespace: cb.Namespace, Name: cb.Name}
	if had := b.store.buffers.objects[name]; had == nil || had.Generation != cb.Generation || had.UID != cb.UID {
		return nil, false
	}
	return b.store.buffers.resolve(name), true
}

// OnChange sets the function that is called with the name of a buffer that may come to something
// else now. It must not call back.
func (b *Buffers) OnChange(changed func(types.NamespacedName)) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.buffers.changed = changed
}

// Plan has the provisioner plan the buffers again.
func (b *Buffers) Plan(uid types.UID) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.listeners.work("buffer/" + string(uid))
}
