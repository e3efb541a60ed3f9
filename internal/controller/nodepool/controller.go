package nodepool

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
)

const poolsAtOnce = 10

// task is what one of the controllers does with each NodePool of ours.
type task struct {
	name string
	do   func(context.Context, *karpenterv1.NodePool) error
	// forget is called with the name of a NodePool that is gone; may be nil.
	forget func(pool string)
	// every is how often do is called without events; zero: never.
	every        time.Duration
	watchesClass bool
	extra        source.Source
	// ofAnybody: do is called with the NodePools of other providers' node classes, too.
	ofAnybody bool
}

// Register adds the controllers to a manager.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	for _, t := range []task{
		{name: "nodepool.nodeclassref", do: c.reconcileReference, ofAnybody: true},
		{name: "nodepool.hash", do: c.reconcileHash},
		{name: "nodepool.validation", do: c.reconcileValidation},
		{name: "nodepool.readiness", do: c.reconcileReadiness, forget: c.forgetReadiness, watchesClass: true},
		{name: "nodepool.registrationhealth", do: c.reconcileHealth, forget: c.forgetHealth, watchesClass: true, extra: c.recorded()},
		{name: "nodepool.counter", do: c.reconcileUsage, forget: c.forgetUsage, every: countEvery},
	} {
		l := loop.Controller[*karpenterv1.NodePool]{
			Name: t.name, Client: c.Client, AtOnce: poolsAtOnce, Gone: t.forget,
			Watch: func(b *builder.Builder) *builder.Builder { return c.watch(b, &t) },
			Do: func(ctx context.Context, np *karpenterv1.NodePool) (reconcile.Result, error) {
				return c.run(ctx, np, &t)
			},
		}
		if err := l.Register(mgr); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controllers) watch(b *builder.Builder, t *task) *builder.Builder {
	b = b.For(&karpenterv1.NodePool{})
	if t.watchesClass {
		for _, kind := range c.Cloud.ClassKinds() {
			class := &unstructured.Unstructured{}
			class.SetGroupVersionKind(kind)
			b = b.Watches(class, handler.EnqueueRequestsFromMapFunc(c.poolsOfClass(kind)))
		}
	}
	if t.extra != nil {
		b = b.WatchesRawSource(t.extra)
	}
	return b
}

// run does the task with a NodePool if it is one of ours. A NodePool that has gone meanwhile needs
// no retry.
func (c *Controllers) run(ctx context.Context, np *karpenterv1.NodePool, t *task) (reconcile.Result, error) {
	if _, ours := c.classKind(np); !ours && !t.ofAnybody {
		return reconcile.Result{}, nil
	}
	if err := t.do(ctx, np); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: t.every}, nil
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

// recorded is the source of pools of which a launch was recorded.
func (c *Controllers) recorded() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.observeAt = func(pool string) { queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: pool}}) }
		return nil
	})
}
