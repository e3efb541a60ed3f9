// Package reservation is the loop that finds instances which are no longer in the capacity
// reservation they were launched into: it ended or was cancelled, and they run on and are
// billed as on-demand. The loop writes that on their claims and Nodes.
package reservation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	controllerName = "capacityreservation.capacitytype"
	period         = time.Minute
	// atOnce is how many claims are worked on in parallel.
	atOnce = 10
)

// Loop is the loop. Its fields are set once, before Register.
type Loop struct {
	Client  client.Client
	Cloud   cloud.Provider
	Metrics *observe.Metrics
	Now     func() time.Time
	Log     *slog.Logger
	// OneByOne: one claim is worked on at a time, so that a run can be repeated exactly.
	OneByOne bool
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (l *Loop) Register(mgr ctrl.Manager) error {
	if err := mgr.Add(l); err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// Start looks at every period until the context is over.
func (l *Loop) Start(ctx context.Context) error {
	return loop.Run(ctx, l.Reconcile, nil)
}

// Reconcile looks once.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	end := l.Metrics.Reconcile(controllerName, l.Now)
	err := l.Sweep(ctx)
	end(err)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("could not check for ended reservations, will try again", "error", err)
	}
	return period
}

// Sweep compares what claims say of their reservations with what the cloud says. Without a
// claim that is in one the cloud is not asked.
func (l *Loop) Sweep(ctx context.Context) error {
	var claims karpenterv1.NodeClaimList
	if err := l.Client.List(ctx, &claims, client.MatchingLabels{karpenterv1.CapacityTypeLabelKey: karpenterv1.CapacityTypeReserved}); err != nil {
		return fmt.Errorf("list claims in reservations: %w", err)
	}
	claims.Items = slices.DeleteFunc(claims.Items, func(c karpenterv1.NodeClaim) bool {
		return c.DeletionTimestamp != nil || c.Status.ProviderID == "" || !mirror.ManagesClaim(l.Cloud.ClassKinds(), &c)
	})
	if len(claims.Items) == 0 {
		return nil
	}
	instances, err := l.Cloud.List(ctx)
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	types := make(map[string]string, len(instances)) // by instance
	for i := range instances {
		types[instances[i].ID] = instances[i].Labels[karpenterv1.CapacityTypeLabelKey]
	}
	errs := make([]error, len(claims.Items))
	var group errgroup.Group
	group.SetLimit(atOnce)
	if l.OneByOne {
		group.SetLimit(1)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if is := types[claim.Status.ProviderID]; is != "" && is != karpenterv1.CapacityTypeReserved {
			group.Go(func() error {
				errs[i] = l.demote(ctx, claim, is)
				return nil
			})
		}
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// demote writes the capacity type on the Nodes of a claim and then on the claim. After a crash in
// between, the claim still has the old one, and demote is repeated.
func (l *Loop) demote(ctx context.Context, claim *karpenterv1.NodeClaim, capacityType string) error {
	nodes, err := mirror.NodesOfClaim(ctx, l.Client, claim)
	if err != nil {
		return err
	}
	objects := make([]client.Object, 0, len(nodes)+1)
	for i := range nodes {
		objects = append(objects, &nodes[i])
	}
	for _, before := range append(objects, claim) {
		obj := before.DeepCopyObject().(client.Object) // a Node is the cache's own
		labels := obj.GetLabels()
		for _, key := range l.Cloud.Vocabulary().ReservationKeys {
			delete(labels, key)
		}
		if labels[karpenterv1.CapacityTypeLabelKey] != "" { // else it has not been registered
			labels[karpenterv1.CapacityTypeLabelKey] = capacityType
		}
		obj.SetLabels(labels)
		if err := l.Client.Patch(ctx, obj, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("write on %s that its reservation has ended: %w", obj.GetName(), err)
		}
	}
	l.Log.Info("instance has left its capacity reservation", "claim", claim.Name, "instance", claim.Status.ProviderID, "capacity_type", capacityType,
		"zone", claim.Labels[corev1.LabelTopologyZone])
	return nil
}
