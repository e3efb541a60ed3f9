package disaster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

const (
	// writeTakes is how long the API server takes to answer a write, watchLag how far
	// watches are behind.
	writeTakes = 5 * time.Millisecond
	watchLag   = 10 * time.Millisecond
)

// reader reads from the server.
type reader struct{ s *server }

// Get copies an object.
func (r reader) Get(ctx context.Context, k client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.s.mu.Lock()
	had := r.s.shelf(kindOf(obj)).objects[k]
	r.s.mu.Unlock()
	if had == nil {
		return apierrors.NewNotFound(resourceOf(kindOf(obj)), k.Name)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(had)
		gvk := u.GroupVersionKind()
		u.Object = content
		u.SetGroupVersionKind(gvk)
		return err
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(had.DeepCopyObject()).Elem())
	return nil
}

// List copies objects, in the order of their names.
func (r reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	typed := reflect.TypeOf(list).Elem().Name()
	found, err := r.s.list(typed[:len(typed)-len("List")], &o)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	out := reflect.MakeSlice(items.Type(), 0, len(found))
	for _, obj := range found {
		if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
			obj = obj.DeepCopyObject().(client.Object)
		}
		out = reflect.Append(out, reflect.ValueOf(obj).Elem())
	}
	items.Set(out)
	return nil
}

func (s *server) list(kind string, o *client.ListOptions) ([]client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shelf(kind)
	var found []client.Object
	take := func(obj client.Object) {
		if (o.Namespace == "" || obj.GetNamespace() == o.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))) {
			found = append(found, obj)
		}
	}
	if o.FieldSelector != nil {
		need := o.FieldSelector.Requirements()[0]
		if sh.fields[need.Field] == nil {
			return nil, fmt.Errorf("%s has no index %s", kind, need.Field)
		}
		for k := range sh.found[need.Field][need.Value] {
			take(sh.objects[k])
		}
	} else {
		for _, obj := range sh.objects {
			take(obj)
		}
	}
	slices.SortFunc(found, func(a, b client.Object) int { return compare(keyOf(a), keyOf(b)) })
	return found, nil
}

// product is the API server as the product's clients see it, at their pace.
type product struct {
	client.Client // of which nothing else is used
	reader
	scheme *runtime.Scheme
	pace   *rate.Limiter
	ctx    context.Context // of the process
}

func newProduct(ctx context.Context, s *server, qps float64, burst int) *product {
	return &product{reader: reader{s}, scheme: operator.Scheme(), pace: rate.NewLimiter(rate.Limit(qps), burst), ctx: ctx}
}

func (c *product) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, k, obj, opts...)
}

func (c *product) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

func (c *product) Scheme() *runtime.Scheme { return c.scheme }

// write performs a write. A process that was killed writes nothing more.
func (c *product) write(ctx context.Context, effect func() error) error {
	if err := c.pace.Wait(ctx); err != nil {
		return err
	}
	time.Sleep(writeTakes)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return effect()
}

func (c *product) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	return c.write(ctx, func() error { return c.s.create(obj) })
}

func (c *product) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	return c.write(ctx, func() error {
		had := c.s.shelf(kindOf(obj)).objects[keyOf(obj)]
		if had == nil {
			return apierrors.NewNotFound(resourceOf(kindOf(obj)), obj.GetName())
		}
		if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != had.GetUID() {
			return apierrors.NewConflict(resourceOf(kindOf(obj)), obj.GetName(), fmt.Errorf("another UID"))
		}
		seconds := graceOf(had)
		if o.GracePeriodSeconds != nil {
			seconds = *o.GracePeriodSeconds
		}
		c.s.remove(had, seconds)
		return nil
	})
}

// graceOf returns the seconds that a pod asks for to end.
func graceOf(o client.Object) int64 {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.TerminationGracePeriodSeconds != nil {
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return 30
}

func (c *product) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, obj, patch, false)
}

func (c *product) patch(ctx context.Context, obj client.Object, patch client.Patch, status bool) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return c.write(ctx, func() error {
		is, err := c.s.patch(obj, patch.Type(), data, status)
		if err == nil {
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(is.DeepCopyObject()).Elem())
		}
		return err
	})
}

func (c *product) Status() client.SubResourceWriter { return statuses{c: c} }

type statuses struct {
	client.SubResourceWriter
	c *product
}

func (s statuses) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(ctx, obj, patch, true)
}

func (c *product) SubResource(string) client.SubResourceClient { return evictions{c: c} }

type evictions struct {
	client.SubResourceClient
	c *product
}

func (e evictions) Create(ctx context.Context, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
	return e.c.write(ctx, func() error { return e.c.s.evict(obj.(*corev1.Pod)) })
}

// watches is the cache of a process: it reads what the server has, and its watches tell a
// little later.
type watches struct {
	reader
	ctx context.Context
}

func (w *watches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &watch{w: w, kind: kindOf(obj)}, nil
}

func (w *watches) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	w.s.locked(func() {
		if w.s.shelf(kindOf(obj)).fields[field] == nil {
			w.s.index(kindOf(obj), field, values)
			for _, o := range w.s.shelf(kindOf(obj)).objects {
				w.s.shelf(kindOf(obj)).mark(o, true)
			}
		}
	})
	return nil
}

func (w *watches) WaitForCacheSync(context.Context) bool { return true }

// cacheOf makes a cache.Cache of it.
type cacheOf struct {
	cache.Cache // of which nothing else is used
	*watches
}

func (c cacheOf) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, k, obj, opts...)
}

func (c cacheOf) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

func (c cacheOf) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.watches.GetInformer(ctx, obj, opts...)
}

func (c cacheOf) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	return c.watches.IndexField(ctx, obj, field, values)
}

func (c cacheOf) WaitForCacheSync(ctx context.Context) bool { return c.watches.WaitForCacheSync(ctx) }

// watch is an informer of one kind; each handler has a goroutine of its own.
type watch struct {
	cache.Informer // of which nothing else is used
	w              *watches
	kind           string
}

func (w *watch) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return w.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

func (w *watch) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registration{handler: h, wake: make(chan struct{}, 1), done: make(chan struct{})}
	w.w.s.locked(func() {
		for _, o := range w.w.s.shelf(w.kind).objects {
			r.coming = append(r.coming, change{is: o})
		}
		r.first = len(r.coming)
		w.w.s.hearers = append(w.w.s.hearers, func(kind string, was, is client.Object) {
			if kind == w.kind && w.w.ctx.Err() == nil {
				r.hear(change{was, is})
			}
		})
	})
	r.wake <- struct{}{}
	go r.run(w.w.ctx)
	return r, nil
}

// RemoveEventHandler does nothing: who has ended hears nothing.
func (w *watch) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

type change struct{ was, is client.Object }

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	handler toolscache.ResourceEventHandler
	wake    chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	coming []change
	first  int // of them are the first list
}

func (r *registration) hear(c change) {
	r.mu.Lock()
	r.coming = append(r.coming, c)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *registration) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		time.Sleep(watchLag)
		r.mu.Lock()
		coming := r.coming
		r.coming = nil
		r.mu.Unlock()
		for i, c := range coming {
			switch {
			case c.was == nil:
				r.handler.OnAdd(c.is, i < r.first)
			case c.is == nil:
				r.handler.OnDelete(c.was)
			default:
				r.handler.OnUpdate(c.was, c.is)
			}
		}
		if !r.HasSynced() {
			r.first = 0
			close(r.done)
		}
	}
}

func (r *registration) HasSynced() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r }
func (r *registration) Name() string                             { return "disaster" }
func (r *registration) Done() <-chan struct{}                    { return r.done }

// standIn is a manager that starts what production adds to it.
type standIn struct {
	manager.Manager // of which nothing else is used
	client          *product
	cache           cacheOf
	runnables       []manager.Runnable
}

func (m *standIn) GetClient() client.Client             { return m.client }
func (m *standIn) GetAPIReader() client.Reader          { return m.client.reader }
func (m *standIn) GetCache() cache.Cache                { return m.cache }
func (m *standIn) GetFieldIndexer() client.FieldIndexer { return m.cache }
func (m *standIn) GetScheme() *runtime.Scheme           { return m.client.scheme }
func (m *standIn) GetLogger() logr.Logger               { return logr.Discard() }

func (m *standIn) GetControllerOptions() config.Controller {
	yes, no := true, false
	return config.Controller{SkipNameValidation: &yes, UsePriorityQueue: &no, Logger: logr.Discard()}
}

func (m *standIn) Add(r manager.Runnable) error {
	m.runnables = append(m.runnables, r)
	return nil
}

// run starts everything and waits until all has ended.
func (m *standIn) run(ctx context.Context, failed func(error)) {
	var group sync.WaitGroup
	for _, r := range m.runnables {
		group.Go(func() {
			if err := r.Start(ctx); err != nil && ctx.Err() == nil {
				failed(err)
			}
		})
	}
	group.Wait()
}
