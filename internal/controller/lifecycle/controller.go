// Package lifecycle is the loop that sees each claim through its life: it takes a look,
// lets the core decide the next step, has it performed, and tells about it.
//
// It never waits for the cloud: launches are ordered, and a claim is looked at again when
// its answer has come.
package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	controllerName = "nodeclaim.lifecycle"
	claimsAtOnce   = 100
	retryFirst     = time.Second
	retryMost      = time.Minute
	// staleRetry is when to look again after a write met a newer object, if its watch, which is
	// late then, does not tell before.
	staleRetry = time.Second
	// turnRetry is when to ask again whether a Node may be opened, in case nobody tells.
	turnRetry = 5 * time.Second
	// stepsMost bounds how many steps one claim takes before others get their turn.
	stepsMost = 16
)

// Health hears how the launches and registrations of pools end.
type Health interface {
	// Record is called when a claim's Node has registered, or will not.
	Record(ctx context.Context, claim *karpenterv1.NodeClaim, registered bool)
}

// Opener says when a Node that has joined may be opened to pods.
type Opener interface {
	// MayOpen tells whether it may now. If not, OnTurn's function hears of the claim later.
	MayOpen(claim string, node *corev1.Node) bool
	// OnTurn is called once, before anything is asked.
	OnTurn(open func(claim string))
}

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client  client.Client
	Cloud   cloud.Provider
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger
	// Health may be nil.
	Health Health
	// Opener may be nil: then every Node is opened as soon as it has joined.
	Opener Opener
	// Short is told which places had no machines; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
	// Later is that of apply.Orders; nil: a goroutine of its own.
	Later func(pause time.Duration, do func())

	orders *apply.Orders
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	c.orders = &apply.Orders{Cloud: c.Cloud, Now: c.Now, Short: c.Short, Later: c.Later}
	answers := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		again := func(claim string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: claim}})
		}
		c.orders.Answered = again
		if c.Opener != nil {
			c.Opener.OnTurn(again)
		}
		return nil
	})
	err := ctrl.NewControllerManagedBy(mgr).Named(controllerName).
		For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimsOf)).
		WatchesRawSource(answers).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: claimsAtOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
		}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// claimsOf returns the claims whose instance a Node is.
func (c *Controller) claimsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	node := obj.(*corev1.Node)
	if node.Spec.ProviderID == "" {
		return nil
	}
	var claims karpenterv1.NodeClaimList
	if err := c.Client.List(ctx, &claims, client.MatchingFields{mirror.ClaimProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		c.Log.Error("could not find the claim of a node", "node", node.Name, "error", err)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(claims.Items))
	for i := range claims.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: claims.Items[i].Name}})
	}
	return requests
}

// Reconcile takes one claim as far as it goes now.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpenterv1.NodeClaim{}
	if err := c.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	pass := &pass{Controller: c, claim: claim}
	for range stepsMost {
		step, err := pass.step(ctx)
		switch {
		case apply.IsStale(err):
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		case err != nil:
			return reconcile.Result{}, err
		case isLast(&step):
			return reconcile.Result{RequeueAfter: pauseUntil(step.Until, c.Now())}, nil
		}
	}
	return reconcile.Result{RequeueAfter: staleRetry}, nil
}

// isLast tells whether there is nothing to do after a step until something happens.
func isLast(step *core.Step) bool {
	switch step.Act {
	case core.Wait:
		return step.Why != "" || len(step.Notes) == 0
	case core.DeleteClaim, core.DeleteNodes, core.RemoveFinalizer:
		return true // the API server tells when it is done
	default:
		return false
	}
}

// pauseUntil returns how long to wait for a time; zero (never): there is no such time.
func pauseUntil(until, now time.Time) time.Duration {
	if until.IsZero() {
		return 0
	}
	return max(until.Sub(now), time.Millisecond)
}
