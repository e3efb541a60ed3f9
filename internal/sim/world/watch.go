package world

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// lagLeast and lagMost bound how far a watch is behind on a good day.
const (
	lagLeast = time.Millisecond
	lagMost  = 30 * time.Millisecond
)

func newInformers(p *process) *informers {
	i := &informers{p: p, of: map[string]*informer{}}
	i.Reader = p.reader(func(kind string) *cluster.Shelf { return i.informer(kind).seen })
	return i
}

// informer returns the informer of a kind. One that is asked for while the process runs
// lists at once.
func (i *informers) informer(kind string) *informer {
	i.mu.Lock() // controllers start side by side
	n := i.of[kind]
	made := n == nil
	if made {
		n = &informer{p: i.p, kind: kind, seen: cluster.NewShelf(), lock: &i.mu}
		i.of[kind] = n
		i.sorted = append(i.sorted, n)
	}
	i.mu.Unlock()
	if made && i.p.running {
		n.relist(true)
	}
	return n
}

// GetInformer returns the informer of a kind.
func (i *informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return i.informer(cluster.KindOf(obj)), nil
}

// GetInformerForKind is not used.
func (i *informers) GetInformerForKind(context.Context, schema.GroupVersionKind, ...cache.InformerGetOption) (cache.Informer, error) {
	panic("world: nobody asks for informers by kind")
}

// RemoveInformer is not used.
func (i *informers) RemoveInformer(context.Context, client.Object) error { return nil }

// Start does nothing: the world drives.
func (i *informers) Start(context.Context) error { return nil }

// WaitForCacheSync lets whoever registers go on.
func (i *informers) WaitForCacheSync(context.Context) bool { return true }

// IndexField adds an index.
func (i *informers) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.informer(cluster.KindOf(obj)).seen.Index(field, values)
	return nil
}

// AddEventHandler registers a handler; its registration reports when the first list has come.
func (n *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	n.handle(h)
	return registration{synced: func() bool { return n.listed }}, nil
}

// AddEventHandlerWithOptions is how controllers register. They are driven only when all
// has been listed, so they need not wait.
func (n *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	n.handle(h)
	return registration{synced: func() bool { return true }}, nil
}

func (n *informer) handle(h toolscache.ResourceEventHandler) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.handlers = append(n.handlers, h)
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	synced func() bool
}

// HasSynced reports whether what there was has been listed.
func (r registration) HasSynced() bool { return r.synced() }

// HasSyncedChecker is HasSynced for what waits.
func (r registration) HasSyncedChecker() toolscache.DoneChecker { return done{r} }

type done struct{ registration }

// Name is for logs.
func (done) Name() string { return "world" }

// Done is closed if all has been listed.
func (d done) Done() <-chan struct{} {
	c := make(chan struct{})
	if d.HasSynced() {
		close(c)
	}
	return c
}

// observe takes note of a write. It is delivered later, after what came before it.
func (n *informer) observe(was, is client.Object) {
	w := n.p.w
	due := w.at.Add(w.between(lagLeast, lagMost))
	if due.Before(n.held) {
		due = n.held
	}
	if last := len(n.coming) - 1; last >= 0 && due.Before(n.coming[last].due) {
		due = n.coming[last].due
	}
	n.coming = append(n.coming, change{due, was, is})
	if len(n.coming) == 1 {
		n.later(due.Sub(w.at))
	}
}

// later delivers after a pause.
func (n *informer) later(pause time.Duration) {
	if !n.p.dead {
		n.p.w.push(event{to: n.p, report: true, what: n.deliver}, pause)
	}
}

// deliver hands over what is due.
func (n *informer) deliver() {
	w := n.p.w
	for len(n.coming) > 0 && !n.coming[0].due.After(w.at) {
		c := n.coming[0]
		n.coming = n.coming[1:]
		n.take(c)
	}
	if len(n.coming) > 0 {
		n.later(n.coming[0].due.Sub(w.at))
	}
}

func (n *informer) take(c change) {
	if c.is == nil {
		n.forget(c.was, c.was)
		return
	}
	is := n.p.seen(c.is)
	had := n.seen.Get(cluster.KeyOf(is))
	n.seen.Put(is)
	for _, h := range n.handlers {
		if had == nil {
			h.OnAdd(is, false)
		} else {
			h.OnUpdate(had, is)
		}
	}
}

func (n *informer) forget(o client.Object, last any) {
	n.seen.Remove(cluster.KeyOf(o))
	for _, h := range n.handlers {
		h.OnDelete(last)
	}
}

// relist reads all there is, as a watch does at first and when it was interrupted: what
// happened in between is one change, and what is as it was is delivered once more.
func (n *informer) relist(first bool) {
	n.coming, n.held = nil, time.Time{}
	have := n.p.w.api.Shelf(n.kind)
	for _, key := range n.seen.Keys() {
		if have.Get(key) == nil {
			gone := n.seen.Get(key)
			n.forget(gone, toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: gone})
		}
	}
	for _, key := range have.Keys() {
		had, is := n.seen.Get(key), n.p.seen(have.Get(key))
		n.seen.Put(is)
		for _, h := range n.handlers {
			if had == nil {
				h.OnAdd(is, first)
			} else {
				h.OnUpdate(had, is)
			}
		}
	}
	n.listed = true
}
