package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// API is the API server, with the semantics of the real one that the product relies on: resource versions,
// generations, finalizers, grace periods, owners, patches, evictions. Objects in it are never changed: a write
// puts a new one in their place. Writes are checked by no schema.
type API struct {
	config  *Config
	shelves map[string]*Shelf // by kind
	rv      uint64
	created int
	owned   map[types.UID][]ref
	merger  merger
	// watchers are called for every change, in the order in which they came.
	watchers []func(kind string, was, is client.Object)
}

// ref names an object.
type ref struct {
	kind string
	types.NamespacedName
}

func newAPI(config *Config) *API {
	return &API{config: config, shelves: map[string]*Shelf{}, owned: map[types.UID][]ref{}}
}

// KindOf returns the name of an object's kind: that of its type, unless the object has no type of its own.
func KindOf(o client.Object) string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.GetKind()
	}
	return reflect.TypeOf(o).Elem().Name()
}

// ResourceOf returns the resource that errors about a kind name.
func ResourceOf(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

// Shelf returns the objects of a kind.
func (a *API) Shelf(kind string) *Shelf {
	s := a.shelves[kind]
	if s == nil {
		s = NewShelf()
		a.shelves[kind] = s
	}
	return s
}

// Get returns an object; nil: there is none.
func (a *API) Get(kind, namespace, name string) client.Object {
	return a.Shelf(kind).Get(types.NamespacedName{Namespace: namespace, Name: name})
}

// Find returns the object of a type and a name.
func Find[T client.Object](a *API, namespace, name string) (o T, ok bool) {
	o, ok = a.Get(reflect.TypeFor[T]().Elem().Name(), namespace, name).(T)
	return o, ok
}

// All returns the objects of a type, sorted by name. They are the server's own and must not be changed.
func All[T client.Object](a *API) []T {
	s := a.Shelf(reflect.TypeFor[T]().Elem().Name())
	out := make([]T, 0, len(s.sorted))
	for _, o := range s.sorted {
		out = append(out, o.(T))
	}
	return out
}

// WireTime returns a time as objects have it: in whole seconds.
func WireTime(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Suffix returns the end of a name that no other object has.
func (a *API) Suffix() string {
	a.created++
	return fmt.Sprintf("%05x", a.created)
}

// Create stores an object and fills in what a server gives it.
func (a *API) Create(o client.Object) error {
	kind := KindOf(o)
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + a.Suffix())
	}
	if a.Shelf(kind).Get(KeyOf(o)) != nil {
		return apierrors.NewAlreadyExists(ResourceOf(kind), o.GetName())
	}
	a.created++
	o.SetUID(types.UID(fmt.Sprintf("%08d-uid", a.created)))
	o.SetCreationTimestamp(WireTime(a.config.now()))
	o.SetGeneration(1)
	a.put(kind, nil, o.DeepCopyObject().(client.Object))
	o.SetResourceVersion(strconv.FormatUint(a.rv, 10))
	return nil
}

// shallow returns a copy of an object that shares with it what it points to. Parts of it may be
// replaced, and must not be changed in place.
func shallow(o client.Object) client.Object {
	mine := reflect.New(reflect.TypeOf(o).Elem())
	mine.Elem().Set(reflect.ValueOf(o).Elem())
	return mine.Interface().(client.Object)
}

// update stores what change makes of a shallow copy. An object whose last finalizer goes while
// it is being deleted, goes.
func (a *API) update(o client.Object, change func(client.Object)) {
	kind := KindOf(o)
	was := a.Shelf(kind).Get(KeyOf(o))
	if was == nil {
		return
	}
	is := shallow(was)
	change(is)
	a.replace(kind, was, is)
}

// Edit stores what change makes of a shallow copy of an object: change must replace what the copy points to.
func Edit[T client.Object](a *API, o T, change func(T)) {
	a.update(o, func(is client.Object) { change(is.(T)) })
}

func (a *API) replace(kind string, was, is client.Object) {
	if ended(is) {
		a.Drop(kind, is)
		return
	}
	if reflect.DeepEqual(was, is) {
		a.config.Hooks.Unchanged(kind, is)
		return
	}
	if specChanged(was, is) {
		is.SetGeneration(was.GetGeneration() + 1)
	}
	a.put(kind, was, is)
}

// ended reports whether nothing keeps an object that is being deleted.
func ended(o client.Object) bool {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return false
	}
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func specChanged(was, is client.Object) bool {
	a, b := reflect.ValueOf(was).Elem().FieldByName("Spec"), reflect.ValueOf(is).Elem().FieldByName("Spec")
	return a.IsValid() && !reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
}

func (a *API) put(kind string, was, is client.Object) {
	a.rv++
	is.SetResourceVersion(strconv.FormatUint(a.rv, 10))
	a.Shelf(kind).Put(is)
	for _, owner := range is.GetOwnerReferences() {
		if was == nil || !slices.ContainsFunc(was.GetOwnerReferences(), func(x metav1.OwnerReference) bool { return x.UID == owner.UID }) {
			a.owned[owner.UID] = append(a.owned[owner.UID], ref{kind, KeyOf(is)})
		}
	}
	verb := "create"
	if was != nil {
		verb = "update"
	}
	a.config.Hooks.Note("%s %s %s/%s %d", verb, kind, is.GetNamespace(), is.GetName(), a.rv)
	a.report(kind, was, is)
}

// Watch has every change from now on reported to observe, after those that called Watch before.
func (a *API) Watch(observe func(kind string, was, is client.Object)) {
	a.watchers = append(a.watchers, observe)
}

func (a *API) report(kind string, was, is client.Object) {
	for _, observe := range a.watchers {
		observe(kind, was, is)
	}
}

// Delete asks for the end of an object, as a delete request does. The grace period counts for pods.
func (a *API) Delete(o client.Object, grace time.Duration) {
	kind := KindOf(o)
	was := a.Shelf(kind).Get(KeyOf(o))
	if was == nil {
		return
	}
	pod, isPod := was.(*corev1.Pod)
	wait := int64(0)
	if isPod && pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		wait = int64(grace / time.Second)
	}
	if had := was.GetDeletionGracePeriodSeconds(); was.GetDeletionTimestamp() != nil && (had == nil || *had <= wait) {
		return // it is on its way already
	}
	if wait == 0 && len(was.GetFinalizers()) == 0 {
		a.Drop(kind, was)
		return
	}
	is := shallow(was)
	at := WireTime(a.config.now().Add(time.Duration(wait) * time.Second))
	is.SetDeletionTimestamp(&at)
	is.SetDeletionGracePeriodSeconds(&wait)
	a.put(kind, was, is)
}

// Drop takes an object away at once, and some time later what it owned.
func (a *API) Drop(kind string, o client.Object) {
	was := a.Shelf(kind).Get(KeyOf(o))
	a.rv++
	last := shallow(was)
	last.SetResourceVersion(strconv.FormatUint(a.rv, 10))
	a.Shelf(kind).Remove(KeyOf(o))
	a.config.Hooks.Note("gone %s %s/%s %d", kind, o.GetNamespace(), o.GetName(), a.rv)
	a.report(kind, last, nil)
	if len(a.owned[o.GetUID()]) > 0 {
		a.config.soon(50*time.Millisecond, time.Second, func() { a.collect(o.GetUID()) })
	}
}

// collect removes what an owner that is gone owned, unless it has another.
func (a *API) collect(owner types.UID) {
	dependents := a.owned[owner]
	delete(a.owned, owner)
	for _, r := range dependents {
		o := a.Shelf(r.kind).Get(r.NamespacedName)
		isGone := func(x metav1.OwnerReference) bool { return x.UID == owner }
		switch {
		case o == nil || !slices.ContainsFunc(o.GetOwnerReferences(), isGone):
		case len(o.GetOwnerReferences()) == 1:
			a.Delete(o, GraceOf(o))
		default:
			a.update(o, func(is client.Object) {
				is.SetOwnerReferences(slices.DeleteFunc(slices.Clone(is.GetOwnerReferences()), isGone))
			})
		}
	}
}
