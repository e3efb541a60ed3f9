package loop

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// StaleRetry is when an object is reconciled again after a write met a newer version of it, or
// it was gone. The watch usually triggers that earlier, but may be late.
const StaleRetry = time.Second

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
}

// Register adds the controller to a manager.
func (c *Controller[T]) Register(mgr ctrl.Manager) error {
	options := controller.Options{MaxConcurrentReconciles: c.AtOnce}
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
		if apierrors.IsNotFound(err) && c.Gone != nil {
			c.Gone(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	result, err := c.Do(ctx, object)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: StaleRetry}, nil
	}
	return result, err
}

func newObject[T client.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}
