package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// staleMax is for how long a snapshot serves plans that the provider no longer confirms.
	staleMax = 10 * time.Minute
	// askAgain is how old a snapshot may be that is not followed before the provider is asked again.
	askAgain = 10 * time.Second
	// retryFirst and retryMost bound the wait before a broken stream is opened again.
	retryFirst, retryMost = 200 * time.Millisecond, 10 * time.Second
)

// feed keeps the instance types of one class. With the capability to follow, a goroutine reads
// changes for as long as the feed is in use; without it, whoever asks has the provider asked.
type feed struct {
	client *Client
	now    func() time.Time
	// longest is how long launches of any class may take.
	longest lifecycle.Patience
	// scope is what the names of supplies begin with: the provider's name.
	scope string
	// report is called when there is another answer than before; nil: nobody wants to know.
	report func()

	// asking is locked while the provider is asked and nobody follows.
	asking sync.Mutex

	mu    sync.Mutex
	class *providerv1.Class
	// types is the last whole snapshot, of the provider's run epoch; nil: there is none. at is when
	// the provider last confirmed it.
	types *snapshot
	epoch string
	at    time.Time
	// err is why there is nothing newer; nil: there is.
	err error
	// changed is closed and replaced when types or err have changed.
	changed chan struct{}
	// used is when somebody last asked. stop ends the goroutine; nil: it does not run.
	used time.Time
	stop context.CancelFunc
}

// get returns the snapshot that counts now.
func (f *feed) get(ctx context.Context, class *providerv1.Class) (*snapshot, error) {
	f.use(class)
	if !f.client.can(providerv1.Capability_CAPABILITY_CATALOG_FOLLOW) {
		return f.ask(ctx)
	}
	f.follow() //nolint:contextcheck // what it starts outlives the call
	ctx, cancel := context.WithTimeout(ctx, f.client.opts.Deadlines.Catalog)
	defer cancel()
	for {
		types, changed, err := f.state()
		if types != nil || err != nil {
			return types, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("the provider did not answer Catalog in time")
		case <-changed:
		}
	}
}

// use notes what the class is now, and that somebody asked. A class that was changed has other types.
func (f *feed) use(class *providerv1.Class) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = f.now()
	if f.class != nil && f.class.GetUid() == class.GetUid() && f.class.GetGeneration() == class.GetGeneration() {
		return
	}
	f.class, f.types, f.err = class, nil, nil
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// state returns what may be used now; neither: wait until they have changed.
func (f *feed) state() (types *snapshot, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(f.err, cloud.ErrNotFound):
		return nil, nil, f.err
	case f.types != nil && f.now().Sub(f.at) < staleMax:
		return f.types, nil, nil
	case f.err != nil:
		return nil, nil, f.err
	}
	return nil, f.changed, nil
}

// set notes a snapshot, or why there is none.
func (f *feed) set(class *providerv1.Class, types *snapshot, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.class != class {
		return // it is of a class that was changed meanwhile
	}
	isOther := err == nil && types != f.types || errors.Is(err, cloud.ErrNotFound) != errors.Is(f.err, cloud.ErrNotFound)
	if f.err = err; err == nil {
		f.types, f.epoch, f.at = types, f.client.epochName(), f.now()
	}
	close(f.changed)
	f.changed = make(chan struct{})
	if isOther && f.report != nil {
		f.report()
	}
}

// have returns the class to ask for, and the snapshot that the provider still knows: one of its
// present run.
func (f *feed) have() (*providerv1.Class, *snapshot) {
	epoch := f.client.epochName()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != epoch {
		return f.class, nil
	}
	return f.class, f.types
}

// ask has the provider asked, unless that was done a moment ago.
func (f *feed) ask(ctx context.Context) (*snapshot, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.mu.Lock()
	fresh := f.types != nil && f.err == nil && f.now().Sub(f.at) < askAgain
	types := f.types
	f.mu.Unlock()
	if fresh {
		return types, nil
	}
	err := f.read(ctx, false)
	types, _, known := f.state()
	if types == nil && known == nil {
		known = err
	}
	return types, known
}

// follow starts the goroutine, if it does not run.
func (f *feed) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go f.run(ctx)
}

// run reads changes until it is stopped.
func (f *feed) run(ctx context.Context) {
	wait := retryFirst
	for ctx.Err() == nil {
		began := f.now()
		err := f.read(ctx, true)
		if ctx.Err() != nil {
			return
		}
		if f.now().Sub(began) > retryMost {
			wait = retryFirst
		}
		f.client.opts.Log.Debug("the stream of instance types ended", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, retryMost)
	}
}

// end stops the goroutine.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// read makes one call. It returns when the snapshot is whole or, if it follows, when the stream
// ends. A page that is not valid ends the call, and nothing of it is used.
func (f *feed) read(ctx context.Context, follow bool) error {
	if err := f.client.ready(ctx); err != nil {
		class, _ := f.have()
		f.set(class, nil, err)
		return err
	}
	class, types := f.have()
	ctx, cancel := f.client.stream(ctx)
	defer cancel()
	deadline := time.AfterFunc(f.client.opts.Deadlines.Catalog, cancel)
	defer deadline.Stop()
	request := &providerv1.CatalogRequest{Class: class, Follow: follow}
	if types != nil {
		request.HaveRevision = types.revision
	}
	stream, err := f.client.rpc.Catalog(ctx, request)
	if err == nil {
		pages := &reader{current: types, longest: f.longest, scope: f.scope}
		for err == nil {
			err = f.page(class, stream, pages)
			if err == nil && pages.open == nil {
				if !follow {
					f.client.called("Catalog", nil)
					return nil
				}
				deadline.Reset(f.client.opts.Deadlines.Silence)
			}
		}
	}
	f.client.called("Catalog", err)
	err = f.failure(class, err)
	f.set(class, nil, err)
	return err
}

// page reads one page of a call.
func (f *feed) page(class *providerv1.Class, stream grpc.ServerStreamingClient[providerv1.CatalogPage], pages *reader) error {
	page, err := stream.Recv()
	if err != nil {
		return err
	}
	whole, err := pages.read(page)
	if err != nil {
		return f.client.broke(RuleCatalog, fmt.Errorf("instance types of %s/%s: %w", class.GetKind(), class.GetName(), err))
	}
	if whole {
		f.set(class, pages.current, nil)
	}
	return nil
}

// failure returns what an error of the call means.
func (f *feed) failure(class *providerv1.Class, err error) error {
	s, isStatus := status.FromError(err)
	switch {
	case isStatus && s.Code() == codes.NotFound:
		return fmt.Errorf("node class %s/%s: %w", class.GetKind(), class.GetName(), cloud.ErrNotFound)
	case isStatus:
		return plain("Catalog", err)
	case errors.Is(err, io.EOF):
		return errors.New("the provider ended the stream of Catalog before the snapshot was whole")
	}
	return err
}
