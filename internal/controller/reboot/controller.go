package reboot

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.reboot"
	claimsAtOnce   = 10
	// stepsMost bounds how many steps one reconcile of a NodeClaim takes.
	stepsMost = 16
)

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	l := c.controller()
	l.Watch = func(b *builder.Builder) *builder.Builder {
		return b.For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged())).
			Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimOf))
	}
	return l.Register(mgr)
}

func (c *Controller) controller() *loop.Controller[*karpenterv1.NodeClaim] {
	return &loop.Controller[*karpenterv1.NodeClaim]{Name: controllerName, Client: c.Client, AtOnce: claimsAtOnce, Do: c.advance, Gone: c.forget}
}

// claimOf returns the NodeClaim of a Node, if its instance is rebooted.
func (c *Controller) claimOf(ctx context.Context, obj client.Object) []reconcile.Request {
	claim, err := mirror.ClaimOfNode(ctx, c.Client, obj.(*corev1.Node))
	if err != nil || claim == nil || !translate.IsRebooting(claim) {
		return nil // an ambiguous one ends by its time-outs
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Name}}}
}

// advance takes the reboot of one NodeClaim as far as it goes now.
func (c *Controller) advance(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	r := &reconciliation{Controller: c, claim: claim}
	if !translate.IsRebooting(claim) {
		return reconcile.Result{}, r.clear(ctx)
	}
	nodes, err := mirror.NodesOfClaim(ctx, c.Client, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(nodes) == 1 {
		r.node = &nodes[0]
	}
	for range stepsMost {
		step, err := r.step(ctx)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case step.Act == core.EndReboot:
			return reconcile.Result{}, r.clear(ctx)
		case step.Act == core.FailReboot, step.Act == core.Wait && len(step.Notes) == 0:
			if step.Until.IsZero() {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{RequeueAfter: max(step.Until.Sub(c.Now()), time.Millisecond)}, nil
		}
	}
	return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
}
