package disaster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type key = types.NamespacedName

// server is an API server in memory. What it keeps is never changed: a write puts
// something new in its place.
type server struct {
	mu      sync.Mutex
	rv      uint64
	made    int
	shelves map[string]*shelf // by kind
	owned   map[types.UID][]ref
	// hearers hear of every change, under the lock.
	hearers []func(kind string, was, is client.Object)
}

// shelf is the objects of one kind.
type shelf struct {
	objects map[key]client.Object
	fields  map[string]client.IndexerFunc
	found   map[string]map[string]map[key]bool // by field and value
}

type ref struct {
	kind string
	key
}

func newServer() *server {
	return &server{shelves: map[string]*shelf{}, owned: map[types.UID][]ref{}}
}

// kindOf returns the kind of an object: the name of its type, unless it has none of its own.
func kindOf(o any) string {
	if u, ok := o.(interface{ GetKind() string }); ok {
		return u.GetKind()
	}
	return reflect.TypeOf(o).Elem().Name()
}

func keyOf(o client.Object) key { return key{Namespace: o.GetNamespace(), Name: o.GetName()} }

func resourceOf(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

func second(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

func (s *server) shelf(kind string) *shelf {
	if s.shelves[kind] == nil {
		s.shelves[kind] = &shelf{objects: map[key]client.Object{}, fields: map[string]client.IndexerFunc{}, found: map[string]map[string]map[key]bool{}}
	}
	return s.shelves[kind]
}

// index finds objects by a field from now on.
func (s *server) index(kind, field string, values client.IndexerFunc) {
	sh := s.shelf(kind)
	sh.fields[field], sh.found[field] = values, map[string]map[key]bool{}
}

func (sh *shelf) mark(o client.Object, there bool) {
	for field, values := range sh.fields {
		for _, v := range values(o) {
			if sh.found[field][v] == nil {
				sh.found[field][v] = map[key]bool{}
			}
			if sh.found[field][v][keyOf(o)] = true; !there {
				delete(sh.found[field][v], keyOf(o))
			}
		}
	}
}

// all returns the objects of a type in the order of their names. Called under the lock.
func all[T client.Object](s *server) []T {
	sh := s.shelf(reflect.TypeFor[T]().Elem().Name())
	out := make([]T, 0, len(sh.objects))
	for _, o := range sh.objects {
		out = append(out, o.(T))
	}
	slices.SortFunc(out, func(a, b T) int { return compare(keyOf(a), keyOf(b)) })
	return out
}

func compare(a, b key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// find returns the object of a type and name. Called under the lock.
func find[T client.Object](s *server, namespace, name string) (T, bool) {
	o, ok := s.shelf(reflect.TypeFor[T]().Elem().Name()).objects[key{Namespace: namespace, Name: name}].(T)
	return o, ok
}

// locked does something under the lock.
func (s *server) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// create stores an object and fills in what a server gives it. Called under the lock, as
// are the following.
func (s *server) create(o client.Object) error {
	kind := kindOf(o)
	s.made++
	if o.GetName() == "" {
		o.SetName(fmt.Sprintf("%s%05x", o.GetGenerateName(), s.made))
	}
	if s.shelf(kind).objects[keyOf(o)] != nil {
		return apierrors.NewAlreadyExists(resourceOf(kind), o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprintf("%08d-uid", s.made)))
	o.SetCreationTimestamp(second(time.Now()))
	o.SetGeneration(1)
	is := o.DeepCopyObject().(client.Object)
	s.put(kind, nil, is)
	o.SetResourceVersion(is.GetResourceVersion())
	return nil
}

func (s *server) put(kind string, was, is client.Object) {
	s.rv++
	is.SetResourceVersion(strconv.FormatUint(s.rv, 10))
	sh := s.shelf(kind)
	if was != nil {
		sh.mark(was, false)
	}
	sh.objects[keyOf(is)] = is
	sh.mark(is, true)
	for _, owner := range is.GetOwnerReferences() {
		if r := (ref{kind, keyOf(is)}); !slices.Contains(s.owned[owner.UID], r) {
			s.owned[owner.UID] = append(s.owned[owner.UID], r)
		}
	}
	for _, hear := range s.hearers {
		hear(kind, was, is)
	}
}

// edit changes an object, if it is still there. One whose last finalizer goes while it is
// being deleted, goes.
func edit[T client.Object](s *server, o T, change func(T)) {
	kind := kindOf(o)
	was, ok := s.shelf(kind).objects[keyOf(o)]
	if !ok {
		return
	}
	is := was.DeepCopyObject().(T)
	change(is)
	s.replace(kind, was, is)
}

func (s *server) replace(kind string, was, is client.Object) {
	if is.GetDeletionTimestamp() != nil && len(is.GetFinalizers()) == 0 && graceLeft(is) == 0 {
		s.drop(kind, is)
		return
	}
	is.SetResourceVersion(was.GetResourceVersion())
	if reflect.DeepEqual(was, is) {
		return
	}
	a, b := reflect.ValueOf(was).Elem().FieldByName("Spec"), reflect.ValueOf(is).Elem().FieldByName("Spec")
	if a.IsValid() && !reflect.DeepEqual(a.Interface(), b.Interface()) {
		is.SetGeneration(was.GetGeneration() + 1)
	}
	s.put(kind, was, is)
}

// graceLeft returns the seconds that a pod may take to end.
func graceLeft(o client.Object) int64 {
	if g := o.GetDeletionGracePeriodSeconds(); g != nil {
		return *g
	}
	return 0
}

// remove asks for the end of an object. A pod on a node is ended by its kubelet.
func (s *server) remove(o client.Object, seconds int64) {
	kind := kindOf(o)
	was := s.shelf(kind).objects[keyOf(o)]
	if was == nil {
		return
	}
	if pod, isPod := was.(*corev1.Pod); !isPod || pod.Spec.NodeName == "" {
		seconds = 0
	}
	if was.GetDeletionTimestamp() != nil && graceLeft(was) <= seconds && (seconds > 0 || len(was.GetFinalizers()) > 0) {
		return
	}
	if seconds == 0 && len(was.GetFinalizers()) == 0 {
		s.drop(kind, was)
		return
	}
	is := was.DeepCopyObject().(client.Object)
	at := second(time.Now().Add(time.Duration(seconds) * time.Second))
	is.SetDeletionTimestamp(&at)
	is.SetDeletionGracePeriodSeconds(&seconds)
	s.put(kind, was, is)
}

// drop takes an object away, and what it owned.
func (s *server) drop(kind string, o client.Object) {
	was := s.shelf(kind).objects[keyOf(o)]
	if was == nil {
		return
	}
	s.rv++
	s.shelf(kind).mark(was, false)
	delete(s.shelf(kind).objects, keyOf(o))
	last := was.DeepCopyObject().(client.Object)
	last.SetResourceVersion(strconv.FormatUint(s.rv, 10))
	for _, hear := range s.hearers {
		hear(kind, last, nil)
	}
	owned := s.owned[o.GetUID()]
	delete(s.owned, o.GetUID())
	for _, r := range owned {
		if dependent := s.shelf(r.kind).objects[r.key]; dependent != nil {
			s.remove(dependent, 30)
		}
	}
}

// patch changes an object as a patch says, its status or all but that.
func (s *server) patch(obj client.Object, kind types.PatchType, data []byte, status bool) (client.Object, error) {
	name := kindOf(obj)
	was := s.shelf(name).objects[keyOf(obj)]
	if was == nil {
		return nil, apierrors.NewNotFound(resourceOf(name), obj.GetName())
	}
	before, err := json.Marshal(was)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", was.GetName(), err)
	}
	after, err := patched(before, kind, data)
	if err != nil {
		return nil, err
	}
	is := reflect.New(reflect.TypeOf(was).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, is); err != nil {
		return nil, fmt.Errorf("read what was patched: %w", err)
	}
	if is.GetResourceVersion() != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(name), obj.GetName(), errors.New("it has changed since it was read"))
	}
	into := is
	if status {
		into = was.DeepCopyObject().(client.Object)
	}
	from := map[bool]client.Object{true: is, false: was}[status]
	if f := reflect.ValueOf(from).Elem().FieldByName("Status"); f.IsValid() {
		reflect.ValueOf(into).Elem().FieldByName("Status").Set(f)
	}
	s.replace(name, was, into)
	if now := s.shelf(name).objects[keyOf(obj)]; now != nil {
		return now, nil
	}
	return into, nil
}

func patched(before []byte, kind types.PatchType, data []byte) ([]byte, error) {
	if kind != types.JSONPatchType {
		return jsonpatch.MergePatch(before, data)
	}
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	after, err := ops.Apply(before)
	if err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "patch", nil)
	}
	return after, nil
}
