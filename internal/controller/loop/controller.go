package loop

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// StaleRetry is when an object is reconciled again after a write met a newer version of it, or
	// it was gone. The watch usually triggers that earlier, but may be late.
	StaleRetry = time.Second
	// staleRetryMost is the longest such pause, which doubles from one to the next: a watch that is
	// late is so because the API server has too much to do.
	staleRetryMost = 30 * time.Second
)

// Controller reconciles the objects of one kind: for each request it reads the object, calls
// Do, and turns the outcome into the time of the next request.
type Controller[T client.Object] struct {
	// Name is Karpenter's name of the controller, the label "controller" of metrics.
	Name   string
	Client client.Client
	// Watch adds what triggers requests. Nil: events of the kind's objects.
	Watch func(*builder.Builder) *builder.Builder
	// AtOnce is how many objects are reconciled in parallel.
	AtOnce int
	// RetryFirst and RetryMost are the first and the longest pause after an error. The pause
	// doubles from error to error. Zero: the defaults of controller-runtime.
	RetryFirst, RetryMost time.Duration
	// Do reconciles one object, which is the cache's own: read only. An error that says that an
	// object has changed or gone since it was read is no failure: Do is called again soon.
	Do func(ctx context.Context, object T) (reconcile.Result, error)
	// Gone is called with the name of an object that does not exist. May be nil.
	Gone func(name string)

	mu sync.Mutex
	// pauses are the last pauses of objects that have been stale since.
	pauses map[types.NamespacedName]time.Duration
}

// Register adds the controller to a manager.
func (c *Controller[T]) Register(mgr ctrl.Manager) error {
	options := controller.Options{MaxConcurrentReconciles: c.AtOnce, NewQueue: NewQueue}
	if c.RetryFirst > 0 {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](c.RetryFirst, c.RetryMost)
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(c.Name).WithOptions(options)
	if c.Watch == nil {
		b = b.For(newObject[T]())
	} else {
		b = c.Watch(b)
	}
	if err := b.Complete(c); err != nil {
		return fmt.Errorf("register %s: %w", c.Name, err)
	}
	return nil
}

// Reconcile reconciles the object that the request names.
func (c *Controller[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := newObject[T]()
	if err := c.Client.Get(ctx, request.NamespacedName, object, client.UnsafeDisableDeepCopy); err != nil {
		switch {
		case apierrors.IsConflict(err):
			return c.stale(request.NamespacedName)
		case apierrors.IsNotFound(err):
			c.fresh(request.NamespacedName)
			if c.Gone != nil {
				c.Gone(request.Name)
			}
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	result, err := c.Do(ctx, object)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return c.stale(request.NamespacedName)
	}
	c.fresh(request.NamespacedName)
	return result, err
}

// stale returns when to look again at an object that is not what the API server has.
func (c *Controller[T]) stale(name types.NamespacedName) (reconcile.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses == nil {
		c.pauses = make(map[types.NamespacedName]time.Duration)
	}
	c.pauses[name] = min(max(2*c.pauses[name], StaleRetry), staleRetryMost)
	return reconcile.Result{RequeueAfter: c.pauses[name]}, nil
}

// fresh ends the pauses of an object.
func (c *Controller[T]) fresh(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pauses, name)
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}
