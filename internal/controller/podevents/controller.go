// Package podevents is the loop that writes on each claim when a pod last came to its
// node or left it, which is what consolidateAfter counts from.
package podevents

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.podevents"
	nodesAtOnce    = 10
	// dedupe is how soon after a written event the next is not worth a write.
	dedupe = 10 * time.Second
)

// Controller is the loop. Its fields are set once, before Register. Its requests are
// names of Nodes.
type Controller struct {
	Client client.Client
	Cloud  cloud.Provider
	Now    func() time.Time
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	l := loop.Controller[*corev1.Node]{
		Name: controllerName, Client: c.Client, AtOnce: nodesAtOnce, Do: c.note,
		Watch: func(b *builder.Builder) *builder.Builder {
			return b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(nodeOf), builder.WithPredicates(moves(c.Now)))
		},
	}
	return l.Register(mgr)
}

func nodeOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.(*corev1.Pod).Spec.NodeName}}}
}

// moves passes the events in which a pod that is not a daemon's comes to a node or is
// about to leave it. Pods of the first list are left out: a pod that was bound before we
// started has been counted, or is counted by the node's age.
func moves(now func() time.Time) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod := e.Object.(*corev1.Pod)
			fresh := now().Sub(pod.CreationTimestamp.Time) < dedupe
			return pod.Spec.NodeName != "" && fresh && !translate.OwnedByDaemonSet(pod)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			came := before.Spec.NodeName == "" && after.Spec.NodeName != ""
			leaves := translate.Active(before) && !translate.Active(after)
			return after.Spec.NodeName != "" && (came || leaves) && !translate.OwnedByDaemonSet(after)
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			pod := e.Object.(*corev1.Pod)
			// A pod that was terminating before has been counted when it began to.
			return pod.Spec.NodeName != "" && translate.Active(pod) && !translate.OwnedByDaemonSet(pod)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// note writes on the Node's NodeClaim that a pod has just come or gone. Its write succeeds
// although others write to the claim at the same time.
func (c *Controller) note(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	if !mirror.ManagesNode(c.Cloud.ClassKinds(), node) {
		return reconcile.Result{}, nil
	}
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if err != nil || claim == nil {
		return reconcile.Result{}, err
	}
	now := c.Now()
	if now.Sub(claim.Status.LastPodEventTime.Time) < dedupe {
		return reconcile.Result{}, nil
	}
	err = apply.NotePodEvent(ctx, c.Client, claim, now)
	if apply.IsStale(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
