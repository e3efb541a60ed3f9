// Package garbage is the loop that compares all NodeClaims with all instances: it deletes claims
// whose instance is gone, and terminates instances without a claim.
//
// The second is the only place where an instance is ended that nobody asked to end. So it reads
// without a cache before it acts.
package garbage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.garbagecollection"
	period         = 2 * time.Minute
	// afterMost is how long the first sweep waits for the first decision.
	afterMost = 10 * time.Second
	// orphanGrace is how old an instance must be before the lack of a claim counts.
	orphanGrace = 30 * time.Second
	// atOnce is how many claims or instances are worked on in parallel.
	atOnce = 20
)

// Loop is the collector. Its fields are set once, before Register.
type Loop struct {
	// Client reads from a cache, Uncached from the API server itself.
	Client   client.Client
	Uncached client.Reader
	Cloud    cloud.Provider
	Now      func() time.Time
	Metrics  *observe.Metrics
	Log      *slog.Logger
	// Reclaimed is called with the offering whose instance the cloud reclaimed; may be nil.
	Reclaimed func(place catalog.Place)
	// Period is the time between two sweeps; zero: two minutes.
	Period time.Duration
	// After is closed when the first sweep need not wait any longer, which it does for up to ten seconds: all instances
	// are read for it, and with thousands of them that takes CPU time which the first decision needs more. Nil: it
	// does not wait.
	After <-chan struct{}
	// OneByOne: one claim or instance is worked on at a time, so that a run can be repeated
	// exactly.
	OneByOne bool
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (l *Loop) Register(mgr ctrl.Manager) error {
	if err := mgr.Add(l); err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// Start sweeps soon, since much can have happened while no process ran, and then after every
// period until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	if l.After != nil {
		limit := time.NewTimer(afterMost)
		defer limit.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-l.After:
		case <-limit.C:
		}
	}
	return loop.Run(ctx, l.Reconcile, nil)
}

// Reconcile sweeps once.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	end := l.Metrics.Reconcile(controllerName, l.Now)
	err := l.Sweep(ctx)
	end(err)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("could not collect garbage, will try again", "error", err)
	}
	return cmp.Or(l.Period, period)
}

// group returns a group that runs up to atOnce functions in parallel, or one with OneByOne.
func (l *Loop) group() *errgroup.Group {
	var group errgroup.Group
	group.SetLimit(atOnce)
	if l.OneByOne {
		group.SetLimit(1)
	}
	return &group
}

// Sweep makes claims and instances agree once, in both directions.
func (l *Loop) Sweep(ctx context.Context) error {
	var gone []*karpenterv1.NodeClaim
	var orphans []*cloud.Instance
	// The cache may be behind. So it says no more than that there is nothing to do, as nearly always. If there is
	// something, everything is read again, and without the cache.
	for _, reader := range []client.Reader{l.Client, l.Uncached} {
		// The claims are read first. An instance launched between the two reads is then one
		// too many, and too young to count; the other way round it would be missing.
		var claims karpenterv1.NodeClaimList
		if err := reader.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil { // nothing is done to them here
			return fmt.Errorf("list claims: %w", err)
		}
		instances, err := l.Cloud.List(ctx)
		if err != nil {
			return fmt.Errorf("list instances: %w", err)
		}
		gone, orphans = l.gone(claims.Items, instances), l.orphans(claims.Items, instances)
		if len(gone)+len(orphans) == 0 {
			return nil
		}
	}
	group := l.group()
	for _, claim := range gone {
		group.Go(func() error { return l.collectClaim(ctx, claim) })
	}
	err := group.Wait()
	group = l.group()
	for _, instance := range orphans {
		group.Go(func() error { return l.collectInstance(ctx, instance) })
	}
	return errors.Join(err, group.Wait())
}

// gone returns the claims whose instance is gone.
func (l *Loop) gone(claims []karpenterv1.NodeClaim, instances []cloud.Instance) (gone []*karpenterv1.NodeClaim) {
	running := map[string]bool{} // by ID; by token while the ID is provisional, since the list may be behind
	for i := range instances {
		switch is := &instances[i]; {
		case is.Terminating:
		case is.Provisional:
			running[is.Token] = true
		default:
			running[is.ID] = true
		}
	}
	for i := range claims {
		claim := &claims[i]
		registered := condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeRegistered)
		if registered && claim.DeletionTimestamp == nil && !running[claim.Status.ProviderID] && !running[string(claim.UID)] && mirror.ManagesClaim(l.Cloud.ClassKinds(), claim) {
			gone = append(gone, claim)
		}
	}
	return gone
}

// collectClaim deletes a claim whose instance is gone, unless its Node is ready: the cloud's list may be behind.
func (l *Loop) collectClaim(ctx context.Context, claim *karpenterv1.NodeClaim) error {
	nodes, err := mirror.NodesOfClaim(ctx, l.Client, claim)
	if err != nil {
		return err
	}
	for i := range nodes {
		if translate.NodeReady(&nodes[i]) {
			return nil
		}
	}
	if err := apply.Remove(ctx, l.Client, claim); err != nil {
		return err
	}
	if ct := claim.Labels[karpenterv1.CapacityTypeLabelKey]; ct == karpenterv1.CapacityTypeSpot && l.Reclaimed != nil {
		l.Reclaimed(catalog.Place{Type: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone], CapacityType: ct})
	}
	l.Metrics.Disrupted(claim, observe.ReasonGarbageCollected, "", 0)
	l.Log.Info("deleted claim whose instance is gone", "claim", claim.Name, "pool", claim.Labels[karpenterv1.NodePoolLabelKey], "instance", claim.Status.ProviderID)
	return nil
}

// orphans returns the instances that belong to no claim. A claim knows its
// instance by ID or, before that is written down and while the list has a provisional one, by
// the token of its launch. Instances of unknown token are known by the claim's name.
func (l *Loop) orphans(claims []karpenterv1.NodeClaim, instances []cloud.Instance) (orphans []*cloud.Instance) {
	byToken, byName := map[string]*karpenterv1.NodeClaim{}, map[string]*karpenterv1.NodeClaim{}
	adopted := map[string]bool{} // whoever they were launched for
	for i := range claims {
		byToken[string(claims[i].UID)] = &claims[i]
		byName[claims[i].Name] = &claims[i]
		adopted[claims[i].Status.ProviderID] = true
	}
	for i := range instances {
		instance := &instances[i]
		claim := byToken[instance.Token]
		if instance.Token == "" {
			claim = byName[instance.Claim]
		}
		wanted := claim != nil && (claim.Status.ProviderID == "" || claim.Status.ProviderID == instance.ID || instance.Provisional)
		young := l.Now().Sub(instance.Created) < orphanGrace
		if !wanted && !young && !instance.Terminating && !adopted[instance.ID] {
			orphans = append(orphans, instance)
		}
	}
	return orphans
}

func (l *Loop) collectInstance(ctx context.Context, instance *cloud.Instance) error {
	draining, err := l.drainFirst(ctx, instance.ID)
	if err != nil || draining {
		return err
	}
	if err := l.Cloud.Terminate(ctx, instance.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return fmt.Errorf("terminate instance %s: %w", instance.ID, err)
	}
	l.Log.Info("terminated instance without a claim", "instance", instance.ID, "claim", instance.Claim,
		"age", l.Now().Sub(instance.Created).Round(time.Second).String())
	return nil
}

// drainFirst deletes the Nodes of an instance that we have registered, so that their pods
// are asked to leave. While there are any, the instance is not terminated: a later sweep does that.
func (l *Loop) drainFirst(ctx context.Context, id string) (draining bool, err error) {
	var nodes corev1.NodeList
	if err := l.Client.List(ctx, &nodes, client.MatchingFields{mirror.NodeProviderID: id}); err != nil {
		return false, fmt.Errorf("list nodes of instance %s: %w", id, err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !controllerutil.ContainsFinalizer(node, karpenterv1.TerminationFinalizer) {
			continue
		}
		draining = true
		if node.DeletionTimestamp != nil {
			continue
		}
		if err := apply.Remove(ctx, l.Client, node); err != nil {
			return true, err
		}
		l.Log.Info("deleted node without a claim", "node", node.Name, "instance", id)
	}
	return draining, nil
}
