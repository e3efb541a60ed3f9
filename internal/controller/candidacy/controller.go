// Package candidacy is the loop that says on each claim whether its node is a candidate
// for disruption: Drifted, when it is not what its pool would launch now, and
// Consolidatable, when consolidateAfter of its pool has passed without a pod event.
package candidacy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/drift"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.disruption"
	claimsAtOnce   = 10
	// again is how often a claim is reconciled without a trigger: what the provider sees and
	// what it offers changes without one.
	again = 5 * time.Minute
)

// Controller is the loop. Its fields are set once, before Register. It reconciles NodeClaims.
type Controller struct {
	Client client.Client
	Cloud  cloud.Provider
	// Types are what a class offers, as far as that is known.
	Types func(cloud.ClassRef) ([]*catalog.Type, error)
	Now   func() time.Time
	Log   *slog.Logger

	// batches ask the provider about many instances at once; nil: it is asked about one at a time.
	batches *batches
}

// Register adds the loop to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	// A change of a pool's status does not concern its claims.
	asks := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	classes := map[schema.GroupVersionKind]client.Object{}
	for _, kind := range c.Cloud.ClassKinds() {
		// By its own type, as the provider reads it: then the provider sees what the watch has seen.
		class, err := mirror.NewClass(mgr.GetScheme(), kind)
		if err != nil {
			return fmt.Errorf("register %s: %w", controllerName, err)
		}
		classes[kind] = class
	}
	l := c.controller()
	l.Watch = func(b *builder.Builder) *builder.Builder {
		b = b.For(&karpenterv1.NodeClaim{}).
			Watches(&karpenterv1.NodePool{}, handler.EnqueueRequestsFromMapFunc(c.claimsOf), builder.WithPredicates(asks))
		for _, kind := range c.Cloud.ClassKinds() {
			b = b.Watches(classes[kind], handler.EnqueueRequestsFromMapFunc(c.claimsOfClass(kind)), builder.WithPredicates(classChanged()))
		}
		return b
	}
	return l.Register(mgr)
}

func (c *Controller) controller() *loop.Controller[*karpenterv1.NodeClaim] {
	if batcher, able := c.Cloud.(cloud.DriftBatcher); able {
		c.batches = &batches{DriftBatcher: batcher, client: c.Client, now: c.Now}
	}
	return &loop.Controller[*karpenterv1.NodeClaim]{Name: controllerName, Client: c.Client, AtOnce: claimsAtOnce, Do: c.judge}
}

// classChanged passes updates of a class that may make its nodes drift: of its spec, its
// annotations and its status, but not of its conditions alone.
func classChanged() predicate.Predicate {
	found := func(class client.Object) any {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(class)
		status, ok := content["status"].(map[string]any)
		if err != nil || !ok {
			return err
		}
		delete(status, "conditions")
		return status
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
			!reflect.DeepEqual(found(e.ObjectOld), found(e.ObjectNew))
	}}
}

// claimsOfClass returns a function that requests a reconcile of all claims of a class.
func (c *Controller) claimsOfClass(kind schema.GroupVersionKind) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		if c.batches != nil {
			c.batches.forget(cloud.ClassRef{Group: kind.Group, Kind: kind.Kind, Name: class.GetName()})
		}
		return c.requests(ctx, "class", class.GetName(), func(claim *karpenterv1.NodeClaim) bool {
			ref := claim.Spec.NodeClassRef
			return ref != nil && ref.Group == kind.Group && ref.Kind == kind.Kind && ref.Name == class.GetName()
		})
	}
}

// claimsOf requests a reconcile of all claims of a pool.
func (c *Controller) claimsOf(ctx context.Context, pool client.Object) []reconcile.Request {
	return c.requests(ctx, "pool", pool.GetName(), func(*karpenterv1.NodeClaim) bool { return true }, client.MatchingLabels{karpenterv1.NodePoolLabelKey: pool.GetName()})
}

// requests returns the requests for the claims for which meant returns true. owner and name say
// whose they are.
func (c *Controller) requests(ctx context.Context, owner, name string, meant func(*karpenterv1.NodeClaim) bool, list ...client.ListOption) []reconcile.Request {
	var claims karpenterv1.NodeClaimList
	if err := c.Client.List(ctx, &claims, append(list, client.UnsafeDisableDeepCopy)...); err != nil {
		c.Log.Error("listing claims", owner, name, "error", err)
		return nil
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		if meant(&claims.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: claims.Items[i].Name}})
		}
	}
	return requests
}

// judge writes on one NodeClaim whether its node is a candidate.
func (c *Controller) judge(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if claim.DeletionTimestamp != nil || !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	pool := &karpenterv1.NodePool{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpenterv1.NodePoolLabelKey]}, pool, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // a claim without a pool is not disrupted
	}
	now := c.Now()
	drifted, err := c.drifted(ctx, claim, pool, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	elapsed, wait := consolidateAfterElapsed(claim, pool, now)
	err = apply.SetCandidacy(ctx, c.Client, claim, apply.Candidacy{Drifted: drifted, IsConsolidatable: elapsed}, now)
	return reconcile.Result{RequeueAfter: min(wait, again)}, err
}

func (c *Controller) drifted(ctx context.Context, claim *karpenterv1.NodeClaim, pool *karpenterv1.NodePool, now time.Time) (string, error) {
	class := mirror.ClassOfClaim(claim)
	known, err := c.Types(class)
	if err != nil {
		known = nil // then nothing can be missed
	}
	view, err := translate.Drift(claim, pool, known, now)
	if err != nil {
		return "", nil //nolint:nilerr // the pool says itself that its requirements cannot be read
	}
	if view.Launched {
		view.Provider, err = c.providerDrift(ctx, class, claim.Status.ProviderID)
		if err != nil && !errors.Is(err, cloud.ErrNotFound) { // others look after what is gone
			return "", fmt.Errorf("ask whether %s drifted: %w", claim.Name, err)
		}
	}
	return drift.Reason(view), nil
}

// providerDrift returns in what way an instance differs for the provider from what its class would launch now.
func (c *Controller) providerDrift(ctx context.Context, class cloud.ClassRef, instanceID string) (reason string, err error) {
	if c.batches != nil && c.batches.DriftBatch(class) > 1 {
		return c.batches.drifted(ctx, class, instanceID)
	}
	if d, able := c.Cloud.(cloud.Drifter); able {
		return d.Drifted(ctx, class, instanceID)
	}
	return "", nil
}

// consolidateAfterElapsed reports whether consolidateAfter has elapsed since the last pod event of a
// NodeClaim's node, and else how long that takes.
func consolidateAfterElapsed(claim *karpenterv1.NodeClaim, pool *karpenterv1.NodePool, now time.Time) (elapsed bool, wait time.Duration) {
	if !translate.Initialized(claim) {
		return false, again
	}
	node, p := translate.Node(nil, claim, now), translate.Pool(pool, nil, now)
	at, ever := disrupt.ConsolidatableAt(&node, &p)
	if !ever {
		return false, again
	}
	if wait = at.Sub(now); wait <= 0 {
		return true, again
	}
	return false, wait
}
