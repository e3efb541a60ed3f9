// Package overlay is the loop that says in the conditions of NodeOverlays whether they are in force:
// they are valid, and contradict no other of their weight. Their effects are the mirror's.
package overlay

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeoverlay.controller"
	// checkEvery is how often an overlay is looked at without an event: the types of the cloud
	// change, and with them what overlays select.
	checkEvery = time.Minute
	// soon is when an overlay is looked at again that the mirror has not seen yet.
	soon = time.Second
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client     client.Client
	Vocabulary translate.Vocabulary
	// Conflict returns with what an overlay is in conflict, or false if that is not known yet.
	Conflict func(*karpenterv1alpha1.NodeOverlay) (why string, known bool)
	Now      func() time.Time
}

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	l := loop.Controller[*karpenterv1alpha1.NodeOverlay]{Name: controllerName, Client: c.Client, AtOnce: 1, Watch: c.watch, Do: c.reconcile}
	return l.Register(mgr)
}

// watch triggers on all overlays whenever one of them or a NodePool changes: any of that may end a
// conflict or begin one.
func (c *Controller) watch(b *builder.Builder) *builder.Builder {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var overlays karpenterv1alpha1.NodeOverlayList
		if err := c.Client.List(ctx, &overlays); err != nil {
			return nil // the cache has it or is not there yet, and then every overlay is still to come
		}
		requests := make([]reconcile.Request, len(overlays.Items))
		for i := range overlays.Items {
			requests[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: overlays.Items[i].Name}}
		}
		return requests
	})
	return b.Watches(&karpenterv1alpha1.NodeOverlay{}, all).Watches(&karpenterv1.NodePool{}, all)
}

func (c *Controller) reconcile(ctx context.Context, no *karpenterv1alpha1.NodeOverlay) (reconcile.Result, error) {
	reason, message := "", ""
	if err := translate.ValidateOverlay(no, c.Vocabulary); err != nil {
		reason, message = "RuntimeValidation", err.Error()
	} else {
		why, known := c.Conflict(no)
		if !known {
			return reconcile.Result{RequeueAfter: soon}, nil
		}
		if why != "" {
			reason, message = "Conflict", why
		}
	}
	err := apply.EditOverlay(ctx, c.Client, no, func() {
		conditions := condition.ForNodeOverlay(no)
		if reason != "" {
			conditions.SetFalse(karpenterv1alpha1.ConditionTypeValidationSucceeded, reason, message, c.Now())
			return
		}
		conditions.SetTrue(karpenterv1alpha1.ConditionTypeValidationSucceeded, c.Now())
	})
	return reconcile.Result{RequeueAfter: checkEvery}, err
}
