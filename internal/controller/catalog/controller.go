// Package catalog is the loop that reads the provider's instance types into the mirror. While the
// provider is slow or cannot be reached, its last answer stays valid.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	// period is how often the provider is asked again for the types of a class.
	period = time.Minute
	// interval is how often the mirror is asked for new classes, and the first wait after a
	// provider's error, which doubles up to period.
	interval = 500 * time.Millisecond
	// patience is how long one answer may take.
	patience = time.Minute
	// changedMost bounds how many changed classes are noted between two reconciles. Others are
	// asked for when they are due.
	changedMost = 1_000
)

// Loop asks the provider for the instance types of every class that a pool refers to.
type Loop struct {
	Cloud  cloud.Provider
	Mirror *mirror.Store
	Now    func() time.Time
	Log    *slog.Logger
	// Shown is where the metrics of instance types are served; nil: nowhere.
	Shown prometheus.Registerer
	// ShowAll: those of types that no NodePool allows are served, too.
	ShowAll bool
	// Reserved: capacity reservations are used.
	Reserved bool

	due map[cloud.ClassRef]next

	mu      sync.Mutex
	changed map[cloud.ClassRef]bool // since the last reconcile
}

// Register adds the loop to the manager and has changes of classes trigger it.
func (l *Loop) Register(mgr manager.Manager) error {
	for _, kind := range l.Cloud.ClassKinds() {
		class, err := mirror.NewClass(mgr.GetScheme(), kind)
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		informer, err := mgr.GetCache().GetInformer(context.Background(), class, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		observe := func(o any) {
			if class, ok := o.(client.Object); ok {
				l.Changed(cloud.ClassRef{Group: kind.Group, Kind: kind.Kind, Name: class.GetName()})
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: observe, UpdateFunc: func(_, o any) { observe(o) }}); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	return mgr.Add(l)
}

// Changed notes that what a class can launch may have changed.
func (l *Loop) Changed(class cloud.ClassRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = map[cloud.ClassRef]bool{}
	}
	if len(l.changed) < changedMost {
		l.changed[class.Object()] = true
	}
}

// takeChanged returns the classes that have changed since it was last called.
func (l *Loop) takeChanged() map[cloud.ClassRef]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = nil
	return changed
}

// NeedLeaderElection returns false: a stand-by keeps its catalog too, to be ready at once.
func (l *Loop) NeedLeaderElection() bool { return false }

// Start asks until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	if l.Shown != nil {
		lists := l.Mirror.Pools().AllowedTypes
		if l.ShowAll {
			lists = l.Mirror.Pools().AllTypes
		}
		g := newGauges(lists, l.Reserved)
		switch err := l.Shown.Register(g); {
		case err == nil:
			defer l.Shown.Unregister(g)
		case !errors.As(err, &prometheus.AlreadyRegisteredError{}): // else another loop of this process shows them
			return fmt.Errorf("register metrics of instance types: %w", err)
		}
	}
	return loop.Run(ctx, l.Reconcile, nil)
}

// Reconcile asks for the types of the classes that are due.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	if l.due == nil {
		l.due = map[cloud.ClassRef]next{}
	}
	changed := l.takeChanged()
	for _, class := range l.Mirror.Pools().Classes() {
		n := l.due[class]
		if !changed[class.Object()] && l.Now().Before(n.at) {
			continue
		}
		if l.ask(ctx, class) {
			l.due[class] = next{at: l.Now().Add(period)}
			continue
		}
		n.wait = min(max(interval, 2*n.wait), period)
		n.at = l.Now().Add(n.wait)
		l.due[class] = n
	}
	return interval
}

// next is when a class is asked for again; wait is the pause after the last error.
type next struct {
	at   time.Time
	wait time.Duration
}

func (l *Loop) ask(ctx context.Context, class cloud.ClassRef) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, before := l.Mirror.Pools().TypesOf(class)
	types, err := l.Cloud.Types(ctx, class)
	l.Mirror.Pools().SetTypes(class, types, err)
	if err != nil && (before == nil || before.Error() != err.Error()) && !errors.Is(err, cloud.ErrNotFound) && ctx.Err() == nil {
		l.Log.Error("instance types are not known", "class", class.String(), "error", err)
	}
	return err == nil
}
