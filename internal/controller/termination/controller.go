package termination

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	controllerName = "node.termination"
	nodesAtOnce    = 100
	retryFirst     = 100 * time.Millisecond
	retryMost      = 10 * time.Second
	// stepsMost bounds how many steps one reconcile of a Node takes.
	stepsMost = 16
)

// Register adds the loop and its eviction queue to a manager. The cache must have
// mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	c.evictor = apply.NewEvictor(c.Client, c.Now, c.reportEviction)
	c.evictor.Begin = func() func(error) { return c.Metrics.Reconcile("eviction-queue", c.Now) }
	if err := mgr.Add(c.evictor); err != nil {
		return fmt.Errorf("register eviction queue: %w", err)
	}
	deleting := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })
	l := c.controller()
	l.Watch = func(b *builder.Builder) *builder.Builder {
		return b.For(&corev1.Node{}, builder.WithPredicates(deleting))
	}
	return l.Register(mgr)
}

// Evict asks for the eviction of a pod whose node is not removed. It is called after Register.
func (c *Controller) Evict(eviction apply.Eviction) { c.evictor.Add(eviction) }

func (c *Controller) controller() *loop.Controller[*corev1.Node] {
	return &loop.Controller[*corev1.Node]{
		Name: controllerName, Client: c.Client, AtOnce: nodesAtOnce, RetryFirst: retryFirst, RetryMost: retryMost,
		Do: c.advance, Gone: c.endings.forget,
	}
}

// advance takes the termination of one Node as far as it goes now.
func (c *Controller) advance(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	ours := mirror.ManagesNode(c.Cloud.ClassKinds(), node) && controllerutil.ContainsFinalizer(node, karpenterv1.TerminationFinalizer)
	if node.DeletionTimestamp == nil || !ours {
		return reconcile.Result{}, nil
	}
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if err != nil && !errors.Is(err, mirror.ErrDuplicate) {
		return reconcile.Result{}, err
	}
	r := &reconciliation{Controller: c, node: node, claim: claim, budgets: map[string][]mirror.PDB{}}
	for range stepsMost {
		step, err := r.step(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		switch step.Act {
		case lifecycle.Wait:
			return reconcile.Result{RequeueAfter: max(step.Until.Sub(c.Now()), time.Millisecond)}, nil
		case lifecycle.RemoveFinalizer:
			return reconcile.Result{}, nil
		case lifecycle.DeleteClaim:
			return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
		default:
		}
	}
	return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
}
