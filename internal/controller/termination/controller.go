// Package termination is the loop that takes Nodes down in good order: it takes a look,
// lets the core decide the next step of the drain, has it performed, and tells about it.
// The pods that may leave are handed to an eviction queue with workers of its own.
package termination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	controllerName = "node.termination"
	nodesAtOnce    = 100
	retryFirst     = 100 * time.Millisecond
	retryMost      = 10 * time.Second
	// staleRetry is when to look again after a write met a newer object, if its watch, which is
	// late then, does not tell before.
	staleRetry = time.Second
	// stepsMost bounds how many steps one Node takes before others get their turn.
	stepsMost = 16
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client  client.Client
	Cloud   cloud.Provider
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger

	evictor *apply.Evictor
	endings endings
}

// Register adds the loop and its eviction queue to a manager. The cache must have
// mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	c.evictor = apply.NewEvictor(c.Client, c.Now, c.tellEviction)
	if err := mgr.Add(c.evictor); err != nil {
		return fmt.Errorf("register eviction queue: %w", err)
	}
	deleting := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })
	err := ctrl.NewControllerManagedBy(mgr).Named(controllerName).
		For(&corev1.Node{}, builder.WithPredicates(deleting)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: nodesAtOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
		}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// Reconcile takes one Node's end as far as it goes now.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			c.endings.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ours := mirror.ManagesNode(c.Cloud.ClassKinds(), node) && controllerutil.ContainsFinalizer(node, karpenterv1.TerminationFinalizer)
	if node.DeletionTimestamp == nil || !ours {
		return reconcile.Result{}, nil
	}
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if err != nil && !errors.Is(err, mirror.ErrDuplicate) {
		return reconcile.Result{}, err
	}
	pass := &pass{Controller: c, node: node, claim: claim, budgets: map[string][]mirror.Budget{}}
	for range stepsMost {
		step, err := pass.step(ctx)
		switch {
		case apply.IsStale(err):
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
		switch step.Act {
		case lifecycle.Wait:
			return reconcile.Result{RequeueAfter: max(step.Until.Sub(c.Now()), time.Millisecond)}, nil
		case lifecycle.RemoveFinalizer:
			return reconcile.Result{}, nil
		case lifecycle.DeleteClaim:
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		default:
		}
	}
	return reconcile.Result{RequeueAfter: staleRetry}, nil
}
