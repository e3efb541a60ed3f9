package nodepool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	poolsAtOnce = 10
	// staleRetry is when to look again after a write met a newer object, if its watch, which is
	// late then, does not tell before.
	staleRetry = time.Second
)

// Controllers are the five loops. Their fields are set once, before Register.
type Controllers struct {
	Client     client.Client
	Cloud      cloud.Provider
	Vocabulary translate.Vocabulary
	// Types returns the instance types of a class as last heard, for their prices.
	Types func(cloud.ClassRef) ([]*catalog.Type, error)
	// Machines counts what was heard of claims and Nodes of a pool: capacity is not counted anew while
	// that stays the same. Nil: it is not known.
	Machines func(pool string) uint64
	// Synced tells whether the caches are whole; capacity is not counted before. Nil: they are.
	Synced  func() bool
	Now     func() time.Time
	Metrics *observe.Metrics

	mu     sync.Mutex
	health map[string]*launches // guarded by mu; by pool name
	// lookAt brings a pool to the health loop. It is nil before that has started.
	lookAt func(pool string)         // guarded by mu
	told   map[gaugeOf]quantity.List // guarded by mu; what the gauges show
	counts map[string]count          // guarded by mu; by pool name
}

// Register adds the loops to a manager.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	for _, loop := range []struct {
		name         string
		reconcile    func(context.Context, *karpenterv1.NodePool) error
		forget       func(pool string)
		every        time.Duration
		watchesClass bool
		extra        source.Source
	}{
		{name: "nodepool.hash", reconcile: c.reconcileHash},
		{name: "nodepool.validation", reconcile: c.reconcileValidation},
		{name: "nodepool.readiness", reconcile: c.reconcileReadiness, watchesClass: true},
		{name: "nodepool.registrationhealth", reconcile: c.reconcileHealth, forget: c.forgetHealth, watchesClass: true, extra: c.recorded()},
		{name: "nodepool.counter", reconcile: c.reconcileUsage, forget: c.forgetUsage, every: countEvery},
	} {
		b := ctrl.NewControllerManagedBy(mgr).Named(loop.name).For(&karpenterv1.NodePool{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: poolsAtOnce})
		if loop.watchesClass {
			for _, kind := range c.Cloud.ClassKinds() {
				class := &unstructured.Unstructured{}
				class.SetGroupVersionKind(kind)
				b = b.Watches(class, handler.EnqueueRequestsFromMapFunc(c.poolsOfClass(kind)))
			}
		}
		if loop.extra != nil {
			b = b.WatchesRawSource(loop.extra)
		}
		if err := b.Complete(c.forPool(loop.reconcile, loop.forget, loop.every)); err != nil {
			return fmt.Errorf("register %s: %w", loop.name, err)
		}
	}
	return nil
}

// forPool makes a reconciler of what is done with one pool of ours. Forget, which may be
// nil, hears of pools that are gone.
func (c *Controllers) forPool(do func(context.Context, *karpenterv1.NodePool) error, forget func(string), every time.Duration) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		np := &karpenterv1.NodePool{}
		err := c.Client.Get(ctx, request.NamespacedName, np, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) && forget != nil {
			forget(request.Name)
		}
		if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if _, ours := c.classKind(np); !ours {
			return reconcile.Result{}, nil
		}
		switch err := do(ctx, np); {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		case err != nil:
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		return reconcile.Result{RequeueAfter: every}, nil
	})
}

// classKind returns the kind of the pool's class, if it is one of our provider's.
func (c *Controllers) classKind(np *karpenterv1.NodePool) (kind schema.GroupVersionKind, ours bool) {
	ref := np.Spec.Template.Spec.NodeClassRef
	if ref == nil {
		return kind, false
	}
	kinds := c.Cloud.ClassKinds()
	i := slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind })
	if i < 0 {
		return kind, false
	}
	return kinds[i], true
}

// poolsOfClass returns the requests for all pools that refer to a class of that kind.
func (c *Controllers) poolsOfClass(kind schema.GroupVersionKind) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		var pools karpenterv1.NodePoolList
		if err := c.Client.List(ctx, &pools); err != nil {
			return nil // the cache has it or is not there yet, and then every pool is still to come
		}
		var requests []reconcile.Request
		for i := range pools.Items {
			if of, ours := c.classKind(&pools.Items[i]); ours && of == kind && pools.Items[i].Spec.Template.Spec.NodeClassRef.Name == class.GetName() {
				requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: pools.Items[i].Name}})
			}
		}
		return requests
	}
}

// class returns the pool's node class; nil if there is none. It is read from the API
// server itself, which has it in whatever version and shape the provider's kind has.
func (c *Controllers) class(ctx context.Context, np *karpenterv1.NodePool) (*unstructured.Unstructured, error) {
	kind, _ := c.classKind(np)
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(kind)
	name := np.Spec.Template.Spec.NodeClassRef.Name
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get node class %s/%s: %w", kind.Kind, name, err)
	}
	return class, nil
}
