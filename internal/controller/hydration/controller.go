// Package hydration is the loop that gives claims and Nodes made by older versions what
// newer ones expect: the label of their node class, by which a Node is known as ours.
package hydration

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	claimControllerName = "nodeclaim.hydration"
	nodeControllerName  = "node.hydration"
	atOnce              = 10
	// staleRetry is when to look again at what was written by another.
	staleRetry = time.Second
)

// Controllers are the two loops. Their fields are set once, before Register.
type Controllers struct {
	Client client.Client
	Cloud  cloud.Provider
}

// Register adds both loops to a manager. The cache must have mirror's indexes.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	options := controller.Options{MaxConcurrentReconciles: atOnce}
	err := ctrl.NewControllerManagedBy(mgr).Named(claimControllerName).For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged())).
		WithOptions(options).Complete(reconcile.Func(c.hydrateClaim))
	if err != nil {
		return fmt.Errorf("register %s: %w", claimControllerName, err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named(nodeControllerName).For(&corev1.Node{}).
		WithOptions(options).Complete(reconcile.Func(c.hydrateNode))
	if err != nil {
		return fmt.Errorf("register %s: %w", nodeControllerName, err)
	}
	return nil
}

func (c *Controllers) hydrateClaim(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpenterv1.NodeClaim{}
	if err := c.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return c.label(ctx, claim, claim)
}

func (c *Controllers) hydrateNode(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if err != nil || claim == nil {
		return reconcile.Result{}, err
	}
	return c.label(ctx, node, claim)
}

// label puts the label of the claim's node class on the claim or its Node. A conflict is
// no error: it is tried again soon.
func (c *Controllers) label(ctx context.Context, obj client.Object, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	err := apply.LabelClass(ctx, c.Client, obj, translate.ClassLabel(claim.Spec.NodeClassRef), claim.Spec.NodeClassRef.Name)
	if apply.IsStale(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return reconcile.Result{}, err
}
