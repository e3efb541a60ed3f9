// Package capacitybuffer is the loop that says in the status of CapacityBuffers for how many pods
// there must be room, and whether there is. The room itself is the provisioner's.
package capacitybuffer

import (
	"context"
	"log/slog"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	controllerName = "capacitybuffer"
	// checkEvery is how often a buffer is looked at, and planned, without an event: pods may have
	// taken its room.
	checkEvery = 30 * time.Second
	// soon is when a buffer is looked at again that the mirror has not seen yet.
	soon = time.Second
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client client.Client
	Mirror *mirror.Store
	Now    func() time.Time
	Log    *slog.Logger
}

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	changes := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.Mirror.Buffers().OnChange(func(name types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: name}) })
		return nil
	})
	l := loop.Controller[*autoscalingv1beta1.CapacityBuffer]{Name: controllerName, Client: c.Client, AtOnce: 1, Do: c.reconcile}
	l.Watch = func(b *builder.Builder) *builder.Builder {
		changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
		return b.For(&autoscalingv1beta1.CapacityBuffer{}, builder.WithPredicates(changed)).WatchesRawSource(changes)
	}
	return l.Register(mgr)
}

// reconcile writes what a buffer comes to, and has it planned.
func (c *Controller) reconcile(ctx context.Context, cb *autoscalingv1beta1.CapacityBuffer) (reconcile.Result, error) {
	r, known := c.Mirror.Buffers().Resolve(cb)
	if !known {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	err := apply.EditBuffer(ctx, c.Client, cb, func() { c.write(cb, r) })
	if err == nil {
		c.Mirror.Buffers().Plan(cb.UID)
	}
	return reconcile.Result{RequeueAfter: checkEvery}, err
}

func (c *Controller) write(cb *autoscalingv1beta1.CapacityBuffer, r *mirror.Resolved) {
	status := &cb.Status
	if r.Reason == "" {
		chunks := int32(min(r.Chunks, math.MaxInt32))
		status.Replicas, status.ProvisioningStrategy = &chunks, cb.Spec.ProvisioningStrategy
		status.PodTemplateRef, status.PodTemplateGeneration = nil, nil
		if r.Template != "" {
			status.PodTemplateRef, status.PodTemplateGeneration = &autoscalingv1beta1.LocalObjectRef{Name: r.Template}, &r.Generation
		}
		c.set(cb, autoscalingv1beta1.ConditionTypeReadyForProvisioning, buffer.Condition{Holds: true, Reason: autoscalingv1beta1.ReasonResolved})
	} else {
		c.set(cb, autoscalingv1beta1.ConditionTypeReadyForProvisioning, buffer.Condition{Reason: r.Reason, Message: r.Message})
	}
	if says, is := buffer.Unplannable(r.Message, r.Chunks); is {
		c.set(cb, autoscalingv1beta1.ConditionTypeProvisioning, says)
	}
}

// set sets a condition.
func (c *Controller) set(cb *autoscalingv1beta1.CapacityBuffer, conditionType string, says buffer.Condition) {
	status := metav1.ConditionFalse
	if says.Holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&cb.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: says.Reason, Message: says.Message,
		ObservedGeneration: cb.Generation, LastTransitionTime: metav1.NewTime(c.Now()),
	})
}

// Planned writes whether there is room for each buffer of a plan. A buffer that has changed meanwhile
// is planned again soon, so a conflict is no failure.
func (c *Controller) Planned(ctx context.Context, rooms []plan.BufferRoom) {
	for i := range rooms {
		room := &rooms[i]
		var cb autoscalingv1beta1.CapacityBuffer
		if c.Client.Get(ctx, client.ObjectKey{Namespace: room.Namespace, Name: room.Name}, &cb) != nil || string(cb.UID) != room.UID {
			continue // it is gone
		}
		r, known := c.Mirror.Buffers().Resolve(&cb)
		if !known {
			continue
		}
		if _, is := buffer.Unplannable(r.Message, r.Chunks); is {
			continue // it is not what it was when the plan was made
		}
		err := apply.EditBuffer(ctx, c.Client, &cb, func() {
			c.set(&cb, autoscalingv1beta1.ConditionTypeProvisioning, buffer.Provisioning(room, r.Chunks))
		})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			c.Log.Error("could not write whether a buffer has room", "buffer", room.Namespace+"/"+room.Name, "error", err)
		}
	}
}
