package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/savings"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/tui"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

const (
	// readEvery is how often the API server is read at most, and readShare which share of the time.
	readEvery = 5 * time.Second
	readShare = 10
)

// clusterSource reads the API server, and decides itself: what is launched and removed there is what this
// controller would do, and is never done.
type clusterSource struct {
	host string
	// objects reads the cluster, and offered is what is asked for what node classes of a provider offer.
	objects func(context.Context) ([]client.Object, error)
	offered func(context.Context) *providerTypes

	latest *live.Latest
	views  *live.Views
	ready  chan struct{} // closed after the first reading

	mu  sync.Mutex // protects err
	err error      // of the newest reading
}

// newClusterSource reads the cluster until the context ends.
func newClusterSource(ctx context.Context, kubeconfig string, management *clusterAPIInput) (*clusterSource, error) {
	reader, host, err := clusterReader(kubeconfig)
	if err != nil {
		return nil, &statusError{err, statusUnreachable}
	}
	s := &clusterSource{
		host:    strings.TrimPrefix(host, "https://"),
		objects: func(ctx context.Context) ([]client.Object, error) { return simulate.Present(ctx, reader) },
		offered: func(ctx context.Context) *providerTypes { return management.classes(ctx, kubeconfig, nil) },
		latest:  &live.Latest{}, ready: make(chan struct{}),
	}
	s.views = &live.Views{Latest: s.latest, Now: time.Now}
	go s.follow(ctx)
	return s, nil
}

// follow reads again and again.
func (s *clusterSource) follow(ctx context.Context) {
	for first := true; ; first = false {
		began := time.Now()
		err := s.read(ctx)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		if first {
			close(s.ready)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(readEvery, readShare*time.Since(began))):
		}
	}
}

// read makes views of the cluster as it is.
func (s *clusterSource) read(ctx context.Context) error {
	objects, err := s.objects(ctx)
	if err != nil {
		return err
	}
	types, _, err := savings.CatalogFor(objects)
	if err != nil {
		return err
	}
	offered := s.offered(ctx)
	offered.join(&types)
	c, err := simulate.Among(objects, s.host, types, time.Now())
	if err := cmp.Or(offered.failed, err); err != nil {
		return err
	}
	p := pack.Decide(c.Snapshot, pack.Options{})
	s.latest.Provisioned(c.Snapshot, p.Refusals, nil)
	d, next := disrupt.Propose(c.Snapshot, disrupt.Memory{}, disrupt.Options{})
	s.latest.Disrupted(c.Snapshot, &d, &next, nil)
	return nil
}

// Name says that nobody decides what is shown.
func (s *clusterSource) Name() string { return s.host + ", as Dovetail would decide" }

// Fill makes a part of a moment. There are no decisions.
func (s *clusterSource) Fill(ctx context.Context, part, by string, into any) error {
	if part == tui.PartDecisions {
		return nil
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	v, err := s.views.Of(part, by)
	s.mu.Lock()
	failed := s.err
	s.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("read %s: %w", s.host, failed)
	}
	if err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(v))
	return nil
}

// Explain has nothing to add to what the views say.
func (s *clusterSource) Explain(context.Context, journal.Subject) ([]journal.Answer, error) {
	return nil, errors.New("this is what Dovetail would decide; past decisions are kept by a controller of Dovetail alone")
}
