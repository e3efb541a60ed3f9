// Package hydration is the loop that gives claims and Nodes made by older versions what
// newer ones expect: the label of their node class, by which a Node is known as ours.
package hydration

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	claimControllerName = "nodeclaim.hydration"
	nodeControllerName  = "node.hydration"
	atOnce              = 10
)

// Controllers are the two loops. Their fields are set once, before Register.
type Controllers struct {
	Client client.Client
	Cloud  cloud.Provider
}

// Register adds both loops to a manager. The cache must have mirror's indexes.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	claims := loop.Controller[*karpenterv1.NodeClaim]{
		Name: claimControllerName, Client: c.Client, AtOnce: atOnce, Do: c.hydrateClaim,
		Watch: func(b *builder.Builder) *builder.Builder {
			return b.For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged()))
		},
	}
	nodes := loop.Controller[*corev1.Node]{Name: nodeControllerName, Client: c.Client, AtOnce: atOnce, Do: c.hydrateNode}
	return errors.Join(claims.Register(mgr), nodes.Register(mgr))
}

func (c *Controllers) hydrateClaim(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	return c.label(ctx, claim, claim)
}

func (c *Controllers) hydrateNode(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if err != nil || claim == nil {
		return reconcile.Result{}, err
	}
	return c.label(ctx, node, claim)
}

// label puts the label of the NodeClaim's node class on the NodeClaim or its Node.
func (c *Controllers) label(ctx context.Context, obj client.Object, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	ref := claim.Spec.NodeClassRef
	return reconcile.Result{}, apply.LabelClass(ctx, c.Client, obj, translate.ClassLabel(ref), ref.Name)
}
