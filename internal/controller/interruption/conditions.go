package interruption

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	conditionsName = "interruption.conditions"
	// nodesAtOnce is how many Nodes are reconciled in parallel.
	nodesAtOnce = 10
	// retryFirst and retryMost bound the pause after an error: some notices leave half a minute.
	retryFirst, retryMost = 200 * time.Millisecond, 10 * time.Second
)

// Conditions is the loop that acts on conditions of Nodes as the Loop acts on notices.
type Conditions struct {
	Loop    *Loop
	Notices *cloud.NodeNotices
}

// Register adds the loop to a manager.
func (c *Conditions) Register(mgr ctrl.Manager) error {
	l := &loop.Controller[*corev1.Node]{Name: conditionsName, Client: c.Loop.Client, AtOnce: nodesAtOnce, RetryFirst: retryFirst, RetryMost: retryMost, Do: c.Act}
	l.Watch = func(b *builder.Builder) *builder.Builder {
		return b.For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return len(c.of(e.Object)) > 0 },
			UpdateFunc: func(e event.UpdateEvent) bool {
				now := c.of(e.ObjectNew)
				return len(now) > 0 && !slices.Equal(c.of(e.ObjectOld), now)
			},
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		}))
	}
	return l.Register(mgr)
}

// of returns the notices that conditions of a Node are, if the Node is ours.
func (c *Conditions) of(o client.Object) []cloud.Notice {
	node, is := o.(*corev1.Node)
	if !is || node.Spec.ProviderID == "" || !mirror.ManagesNode(c.Loop.Kinds, node) {
		return nil
	}
	return c.Notices.Of(node)
}

// Act does what the conditions of a Node call for.
func (c *Conditions) Act(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	for _, n := range c.of(node) {
		if err := c.Loop.Act(ctx, n); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}
