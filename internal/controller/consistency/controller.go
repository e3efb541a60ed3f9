// Package consistency is the loop that compares a Node with what was promised when it
// was launched, and reports what differs: a Node that is smaller than its type says
// wastes money, and one whose do-not-disrupt annotation means nothing is not protected.
package consistency

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.consistency"
	claimsAtOnce   = 10
	every          = 10 * time.Minute
	// leastPercent of each promised resource must be there.
	leastPercent = 90
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client client.Client
	Cloud  cloud.Provider
	Now    func() time.Time
	Events *observe.Recorder
	Log    *slog.Logger
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	l := loop.Controller[*karpenterv1.NodeClaim]{
		Name: controllerName, Client: c.Client, AtOnce: claimsAtOnce, Do: c.check,
		Watch: func(b *builder.Builder) *builder.Builder {
			return b.For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged()))
		},
	}
	return l.Register(mgr)
}

// check compares one NodeClaim with its Node, whenever the NodeClaim changes and every ten
// minutes.
func (c *Controller) check(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	ready := condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeInitialized) && claim.DeletionTimestamp == nil
	if !ready || !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	nodes, err := mirror.NodesOfClaim(ctx, c.Client, claim)
	if err != nil || len(nodes) != 1 {
		return reconcile.Result{}, err
	}
	switch hold := translate.NodeHold(&nodes[0], c.Now()); {
	case hold.Invalid:
		c.Events.Event(&nodes[0], observe.InvalidDoNotDisruptAnnotation(nodes[0].Annotations[hold.Key]))
	case hold.IsOlder:
		c.Events.Event(&nodes[0], observe.OlderAnnotation(hold.Key))
	}
	note := lifecycle.Note{Type: karpenterv1.ConditionTypeConsistentStateFound, Status: lifecycle.True}
	if short := missing(claim, &nodes[0]); short != "" {
		note.Status, note.Reason, note.Message = lifecycle.False, "ConsistencyCheckFailed", short
		c.Events.Event(claim, observe.FailedConsistencyCheck(short))
		if condition.ForNodeClaim(claim).Get(note.Type).Message != short {
			c.Log.Error("node is smaller than its claim promises", "claim", claim.Name, "node", nodes[0].Name, "message", short)
		}
	}
	_, err = apply.WriteNotes(ctx, c.Client, claim, &lifecycle.Step{Notes: []lifecycle.Note{note}}, c.Now())
	return reconcile.Result{RequeueAfter: every}, err
}

// missing says of which resource the Node has too little; empty: of none.
func missing(claim *karpenterv1.NodeClaim, node *corev1.Node) string {
	promised, has := translate.Quantities(claim.Status.Capacity), translate.Quantities(node.Status.Capacity)
	asked := translate.Quantities(claim.Spec.Resources.Requests)
	return shortfall(asked, promised, has)
}

// shortfall looks at the resources that were asked for.
func shortfall(asked, promised, has quantity.List) string {
	for _, name := range asked.Names() {
		if asked[name] > 0 && promised[name] > 0 && quantity.Mul(has[name], 100) < quantity.Mul(promised[name], leastPercent) {
			return fmt.Sprintf("node has %d%% of the %s that its instance type promises, less than %d%%",
				quantity.Mul(has[name], 100)/promised[name], name, leastPercent)
		}
	}
	return ""
}
