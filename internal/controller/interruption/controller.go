// Package interruption is the loop that acts on a cloud's notices about its instances. If an
// instance will be reclaimed at a known time, the loop writes on its claim by when its drain must
// begin; the disruption loop launches a replacement before that, as far as the time allows. The
// claim of an instance that is gone or broken is deleted at once.
//
// Read controller.go, and conditions.go for notices that are conditions of Nodes.
package interruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "interruption"
	// drainMargin is how long a drain takes besides the grace period of its pods.
	drainMargin = 30 * time.Second
	// rebalanceWithin is within which time an instance is replaced that is likely to be reclaimed.
	rebalanceWithin = 10 * time.Minute
	// shortKept is for how long nothing is launched where a spot instance was reclaimed.
	shortKept = 3 * time.Minute
)

// Loop is the loop. Its fields are set once, before Register.
type Loop struct {
	Client client.Client
	// Watcher gets the notices; nil: there are none but conditions of Nodes.
	Watcher cloud.Watcher
	// Kinds are the node classes of the cloud.
	Kinds   []schema.GroupVersionKind
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger
	// ReplaceOnRebalance: an instance that is likely to be reclaimed is replaced.
	ReplaceOnRebalance bool
	// Queue is the name of the queue that notices come by, for log lines.
	Queue string
	// ReservationKey is the label that names the reservation of an instance; empty: there are none.
	ReservationKey string
	// Launches are those that the cloud has accepted.
	Launches Launches
	// Short is called with the offerings whose instances were reclaimed; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
}

// Launches gets notices about launches that the cloud has accepted.
type Launches interface {
	// LaunchFailed ends a claim whose launch has failed; an error asks for the notice again.
	LaunchFailed(claim *karpenterv1.NodeClaim, failure *cloud.Failure) error
	// LaunchChanged has the cloud asked what has become of the launch.
	LaunchChanged(claim *karpenterv1.NodeClaim)
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (l *Loop) Register(mgr ctrl.Manager) error {
	if err := mgr.Add(l); err != nil {
		return fmt.Errorf("register %s: %w", controllerName, err)
	}
	return nil
}

// Start acts on notices until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	l.Watcher.Watch(ctx, func(ctx context.Context, n cloud.Notice) error {
		end := l.Metrics.Reconcile(controllerName, l.Now)
		err := l.Act(ctx, n)
		end(err)
		return err
	})
	return nil
}

// errEarly says that a notice may be about an instance that its claim does not have yet.
var errEarly = errors.New("no claim has the instance yet")

// Act does what a notice calls for. It is safe to repeat. For an instance that no claim has
// there is nothing to do, unless a claim may have it soon: then Act returns an error, so that
// the notice is reported again.
func (l *Loop) Act(ctx context.Context, n cloud.Notice) error {
	if n.Kind == cloud.ZoneShifted || n.Kind == cloud.ZoneRestored {
		return l.reportPools(ctx, n)
	}
	var claims karpenterv1.NodeClaimList
	if err := l.Client.List(ctx, &claims, client.MatchingFields{mirror.ClaimProviderID: n.InstanceID}); err != nil {
		return fmt.Errorf("find the claim of instance %s: %w", n.InstanceID, err)
	}
	if len(claims.Items) == 0 {
		var err error
		if claims.Items, err = l.unlaunched(ctx, n); err != nil {
			return err
		}
	}
	for i := range claims.Items {
		if err := l.act(ctx, n, &claims.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// reportPools writes an event of a notice about a zone on the pools of the cloud.
func (l *Loop) reportPools(ctx context.Context, n cloud.Notice) error {
	var pools karpenterv1.NodePoolList
	if err := l.Client.List(ctx, &pools); err != nil {
		return fmt.Errorf("find the pools with nodes in zone %s: %w", n.Zone, err)
	}
	for i := range pools.Items {
		if ref := pools.Items[i].Spec.Template.Spec.NodeClassRef; ref != nil && slices.ContainsFunc(l.Kinds, func(k schema.GroupVersionKind) bool { return k.Group == ref.Group && k.Kind == ref.Kind }) {
			l.Events.Event(&pools.Items[i], observe.ZonalShift(n))
		}
	}
	l.Log.Info("zonal shift changed", "zone", n.Zone, "reason", n.Kind, "until", n.Ends)
	return nil
}

// ahead reports whether a kind of notice is about what is still to come, or must not be missed.
func ahead(kind cloud.NoticeKind) bool {
	return slices.Contains([]cloud.NoticeKind{cloud.Reclaimed, cloud.ReservationReclaimed, cloud.ReservationEnding, cloud.MaintenanceScheduled, cloud.LaunchFailed}, kind)
}

// unlaunched returns the claim whose launch the cloud has accepted as the notice's instance. It returns
// errEarly while a claim waits for the answer to its launch, which may be that.
func (l *Loop) unlaunched(ctx context.Context, n cloud.Notice) ([]karpenterv1.NodeClaim, error) {
	var claims karpenterv1.NodeClaimList
	if err := l.Client.List(ctx, &claims); err != nil {
		return nil, fmt.Errorf("find claims without an instance: %w", err)
	}
	isEarly := false
	for i := range claims.Items {
		id := claims.Items[i].Annotations[translate.ProvisionalIDAnnotationKey]
		if id != "" && id == n.InstanceID {
			return claims.Items[i : i+1], nil
		}
		isEarly = isEarly || claims.Items[i].Status.ProviderID == ""
	}
	if isEarly && ahead(n.Kind) {
		return nil, fmt.Errorf("notice about instance %s: %w", n.InstanceID, errEarly)
	}
	return nil, nil
}

func (l *Loop) act(ctx context.Context, n cloud.Notice, claim *karpenterv1.NodeClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	nodes, err := mirror.NodesOfClaim(ctx, l.Client, claim)
	if err != nil {
		return err
	}
	switch n.Kind {
	case cloud.LaunchFailed:
		return l.Launches.LaunchFailed(claim, n.Failure)
	case cloud.LaunchChanged:
		l.Launches.LaunchChanged(claim)
		return nil
	case cloud.RebalanceRecommended:
		l.report(n, claim, nodes)
		if !l.ReplaceOnRebalance {
			return nil
		}
		_, err := l.replaceBy(ctx, claim, l.Now().Add(rebalanceWithin), n.Kind)
		return err
	case cloud.InstanceBroken, cloud.SystemBroken: // nothing on it can be asked to leave
		if translate.IsRebooting(claim) {
			return nil // it fails the checks until it has booted, and is checked again after that
		}
		if err := apply.SetDeadline(ctx, l.Client, claim, l.Now()); err != nil {
			return err
		}
	case cloud.Reclaimed, cloud.ReservationReclaimed, cloud.ReservationEnding, cloud.MaintenanceScheduled:
		grace, err := l.longestGrace(ctx, nodes)
		if err != nil {
			return err
		}
		if by := n.Ends.Add(-grace - drainMargin); l.Now().Before(by) && !young(n, claim) {
			isNew, err := l.replaceBy(ctx, claim, by, n.Kind)
			if isNew {
				l.report(n, claim, nodes)
			}
			return err
		}
	case cloud.Stopped, cloud.Ended, cloud.ZoneShifted, cloud.ZoneRestored: // the last two never come here
	}
	if err := apply.Remove(ctx, l.Client, claim); err != nil {
		return err
	}
	l.report(n, claim, nodes)
	l.onInstance(observe.TerminatingOnInterruption(string(n.Kind)), claim, nodes)
	l.Metrics.Disrupted(claim, string(n.Kind), "", 0)
	observe.Logged(l.Log, observe.LogInterrupted, observe.Named("NodeClaim", claim.Name), "queue", l.Queue, "messageKind", n.Kind, "action", "CordonAndDrain", "claim", claim.Name, "instance", n.InstanceID, "reason", n.Kind)
	return nil
}

// young reports whether a node will go before pods use it. Its claim is deleted at once, so that
// its pods are soon planned for another node.
func young(n cloud.Notice, claim *karpenterv1.NodeClaim) bool {
	return n.Kind != cloud.MaintenanceScheduled && !meta.IsStatusConditionTrue(claim.Status.Conditions, karpenterv1.ConditionTypeInitialized)
}

// longestGrace returns how long the pods on nodes are given to end, the longest.
func (l *Loop) longestGrace(ctx context.Context, nodes []corev1.Node) (time.Duration, error) {
	longest := time.Duration(0)
	for i := range nodes {
		pods, err := mirror.PodsOn(ctx, l.Client, nodes[i].Name)
		if err != nil {
			return 0, err
		}
		for j := range pods {
			if translate.Reschedulable(&pods[j]) {
				longest = max(longest, translate.Grace(&pods[j]))
			}
		}
	}
	return longest, nil
}

// replaceBy writes on a claim by when its drain must begin and why, unless it has that time or an
// earlier one.
func (l *Loop) replaceBy(ctx context.Context, claim *karpenterv1.NodeClaim, by time.Time, kind cloud.NoticeKind) (isNew bool, err error) {
	by = by.UTC().Truncate(time.Second)
	had, err := time.Parse(time.RFC3339, claim.Annotations[translate.ReplaceByAnnotationKey])
	if err == nil && !by.Before(had) {
		return false, nil
	}
	before := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, translate.ReplaceByAnnotationKey, by.Format(time.RFC3339))
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, translate.InterruptionAnnotationKey, string(kind))
	if err := l.Client.Patch(ctx, claim, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("write the deadline of claim %s: %w", claim.Name, err)
	}
	l.Log.Info("replacing claim before its interruption", "claim", claim.Name, "by", by, "reason", kind)
	return true, nil
}

// report writes events about a notice on the claim and its nodes. If a spot instance or one of an
// interruptible reservation is reclaimed, it also marks its offering as short.
func (l *Loop) report(n cloud.Notice, claim *karpenterv1.NodeClaim, nodes []corev1.Node) {
	l.onInstance(observe.Interrupted(n.Kind, n.Ends), claim, nodes)
	short := catalog.Place{
		Type: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone], CapacityType: karpenterv1.CapacityTypeSpot,
	}
	if n.Kind == cloud.ReservationReclaimed {
		short.CapacityType, short.Reservation = karpenterv1.CapacityTypeReserved, claim.Labels[l.ReservationKey]
	}
	if l.Short != nil && (n.Kind == cloud.Reclaimed || short.Reservation != "") {
		l.Short([]catalog.Place{short}, shortKept)
	}
}

// onInstance writes an event on a claim and its nodes.
func (l *Loop) onInstance(e observe.Event, claim *karpenterv1.NodeClaim, nodes []corev1.Node) {
	l.Events.Event(claim, e)
	for i := range nodes {
		l.Events.Event(&nodes[i], e)
	}
}
