package disaster

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

const (
	// writeTakes is how long the API server takes to answer a write, watchLag how far
	// watches are behind.
	writeTakes = 5 * time.Millisecond
	watchLag   = 10 * time.Millisecond
)

// newReader reads what the server has, until the context ends.
func (k *kube) newReader(ctx context.Context) cluster.Reader {
	return cluster.Reader{Shelf: k.api.Shelf, Check: ctx.Err, Lock: &k.mu}
}

// newClient is the API server as the product's clients see it, at their pace, until the context ends: a
// process that was killed writes nothing more.
func (k *kube) newClient(ctx context.Context, qps float64, burst int) *cluster.Client {
	pace := rate.NewLimiter(rate.Limit(qps), burst)
	return cluster.NewClient(k.api, k.newReader(ctx), operator.Scheme(), &cluster.ClientHooks{
		Write: func(call context.Context, _ string, _ client.Object, effect func() error) error {
			if err := pace.Wait(call); err != nil {
				return err
			}
			time.Sleep(writeTakes)
			if err := ctx.Err(); err != nil {
				return err
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			return effect()
		},
	})
}

// watches is the cache of a process: it reads what the server has, and its watches report changes a
// little later.
type watches struct {
	cluster.Reader
	kube *kube
	ctx  context.Context
}

func (w *watches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &watch{w: w, kind: cluster.KindOf(obj)}, nil
}

func (w *watches) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	w.kube.locked(func() { w.kube.api.Shelf(cluster.KindOf(obj)).Index(field, values) })
	return nil
}

func (w *watches) WaitForCacheSync(context.Context) bool { return true }

// cacheOf makes a cache.Cache of it.
type cacheOf struct {
	cache.Cache // of which nothing else is used
	*watches
}

func (c cacheOf) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.Reader.Get(ctx, k, obj, opts...)
}

func (c cacheOf) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, list, opts...)
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
	w.w.kube.locked(func() {
		shelf := w.w.kube.api.Shelf(w.kind)
		for _, k := range shelf.Keys() {
			r.coming = append(r.coming, change{is: shelf.Get(k)})
		}
		r.first = len(r.coming)
		w.w.kube.api.Watch(func(kind string, was, is client.Object) {
			if kind == w.kind && w.w.ctx.Err() == nil {
				r.observe(change{was, is})
			}
		})
	})
	r.wake <- struct{}{}
	go r.run(w.w.ctx)
	return r, nil
}

// RemoveEventHandler does nothing: after its context has ended a handler is not called.
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

func (r *registration) observe(c change) {
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
	client          *cluster.Client
	reader          cluster.Reader
	cache           cacheOf
	runnables       []manager.Runnable
}

func (m *standIn) GetClient() client.Client             { return m.client }
func (m *standIn) GetAPIReader() client.Reader          { return m.reader }
func (m *standIn) GetCache() cache.Cache                { return m.cache }
func (m *standIn) GetFieldIndexer() client.FieldIndexer { return m.cache }
func (m *standIn) GetScheme() *runtime.Scheme           { return m.client.Scheme() }
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
