package lifecycle

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	controllerName = "nodeclaim.lifecycle"
	claimsAtOnce   = 100
	retryFirst     = time.Second
	retryMost      = time.Minute
	// stepsMost bounds how many steps one reconcile of a claim takes.
	stepsMost = 16
)

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	c.launches = &apply.LaunchRequests{Cloud: c.Cloud, Now: c.Now, Short: c.Short, Reserved: c.Reserved, Refused: c.Refused, Later: c.Later}
	c.follower = &apply.LaunchFollower{Now: c.Now, Short: c.Short, Refused: c.Refused, Later: c.Later}
	answers := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		again := func(claim string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: claim}})
		}
		c.launches.Answered = again
		c.follower.OnAnswer(again)
		if c.Opener != nil {
			c.Opener.OnTurn(again)
		}
		return nil
	})
	l := c.controller()
	l.Watch = func(b *builder.Builder) *builder.Builder {
		if c.Published != nil {
			b = b.Watches(&resourceapi.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(c.claimsOfSlice))
		}
		return b.For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged())).
			Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimsOf)).
			WatchesRawSource(answers)
	}
	return l.Register(mgr)
}

func (c *Controller) controller() *loop.Controller[*karpenterv1.NodeClaim] {
	return &loop.Controller[*karpenterv1.NodeClaim]{
		Name: controllerName, Client: c.Client, AtOnce: claimsAtOnce, RetryFirst: retryFirst, RetryMost: retryMost, Do: c.advance,
	}
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

// claimsOfSlice returns the claims of the node that has the devices.
func (c *Controller) claimsOfSlice(ctx context.Context, obj client.Object) []reconcile.Request {
	name := obj.(*resourceapi.ResourceSlice).Spec.NodeName
	node := &corev1.Node{}
	if name == nil {
		return nil
	}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: *name}, node); err != nil && !apierrors.IsConflict(err) {
		return nil // an older version has the same provider ID
	}
	return c.claimsOf(ctx, node)
}

// advance takes one NodeClaim as far as it goes now.
func (c *Controller) advance(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	r := &reconciliation{Controller: c, claim: claim}
	for range stepsMost {
		step, err := r.step(ctx)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case isLast(&step):
			return reconcile.Result{RequeueAfter: pauseUntil(step.Until, c.Now())}, nil
		}
	}
	return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
}

// isLast reports whether there is nothing to do after a step until something happens.
func isLast(step *core.Step) bool {
	switch step.Act {
	case core.Wait:
		return step.Why != "" || len(step.Notes) == 0
	case core.DeleteClaim, core.DeleteNodes, core.RemoveFinalizer:
		return true // a watch event says when it is done
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
