package termination

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

func (p *reconciliation) pool() string { return p.node.Labels[karpenterv1.NodePoolLabelKey] }

func (p *reconciliation) claimName() string {
	if p.claim == nil {
		return ""
	}
	return p.claim.Name
}

// reportTurned reports the conditions that became True.
func (p *reconciliation) reportTurned(turned []string) {
	if slices.Contains(turned, lifecycle.Drained) {
		p.Metrics.NodesDrained.WithLabelValues(p.pool()).Inc()
		p.Log.Info("drained node", "node", p.node.Name, "claim", p.claimName(), "pool", p.pool(), "took", p.since(p.node.DeletionTimestamp.Time))
	}
}

// reportWait says on the Node what its end waits for.
func (p *reconciliation) reportWait(view *lifecycle.DrainView, step *lifecycle.Step) {
	if view.Claim != nil && !view.Claim.Deadline.IsZero() {
		p.Events.Event(p.node, observe.TerminationGracePeriodExpiring(view.Claim.Deadline))
	}
	switch {
	case step.Act != lifecycle.Wait:
	case len(view.Pods) > 0 && len(step.Blocked) > 0:
		named := observe.FailedDraining(step.BlockedText())
		named.DedupeValues = []string{"named"} // an event with the number alone came before
		p.Events.Event(p.node, named)
	case len(view.Pods) > 0:
		p.Events.Event(p.node, observe.FailedDraining(step.Why))
	case len(view.Volumes) > 0 && (view.Claim == nil || slices.ContainsFunc(step.Notes, isAboutVolumes)):
		p.Events.Event(p.node, observe.AwaitingVolumeDetachment(view.Volumes))
	case len(step.Blocked) > 0 && p.claim != nil:
		p.Events.Event(p.claim, observe.FailedTermination(step.BlockedText()))
	}
}

// isAboutVolumes reports whether a wait is for volumes, not for the drain's shortest time.
func isAboutVolumes(n lifecycle.Note) bool { return n.Type == lifecycle.VolumesDetached }

func (p *reconciliation) reportGone() {
	pool := p.pool()
	p.Metrics.NodesTerminated.WithLabelValues(pool, p.node.Labels[corev1.LabelTopologyZone]).Inc()
	p.Metrics.NodesTerminationDurationSeconds.WithLabelValues(pool).Observe(p.Now().Sub(p.node.DeletionTimestamp.Time).Seconds())
	p.Metrics.NodesLifetimeDurationSeconds.WithLabelValues(pool).Observe(p.Now().Sub(p.node.CreationTimestamp.Time).Seconds())
	observe.Logged(p.Log, observe.LogDeletedNode, observe.Named("Node", p.node.Name), observe.Named("NodeClaim", p.claimName()), "node", p.node.Name, "claim", p.claimName(), "pool", pool, "took", p.since(p.node.DeletionTimestamp.Time))
}

// since returns how long ago a time was, for people.
func (p *reconciliation) since(at time.Time) string {
	return p.Now().Sub(at).Round(time.Millisecond).String()
}

// reportEviction reports one try of the eviction queue.
func (c *Controller) reportEviction(ctx context.Context, o apply.EvictionOutcome) {
	if o.Code != 0 {
		c.Metrics.PodsEvictionRequests.WithLabelValues(strconv.Itoa(o.Code)).Inc()
	}
	switch o.Result {
	case apply.Evicted:
		c.Metrics.PodsDrained.WithLabelValues(o.Reason).Inc()
		c.Events.Event(o.Object, observe.Evicted(o.Reason))
		c.reportNotHeld(o.Object)
		c.Log.Info("evicted pod", "pod", o.Pod.String(), "node", o.Node, "reason", o.Reason)
	case apply.Forced:
		c.Events.Event(o.Object, observe.Disrupted("Deleted the pod to meet the deadline of its node, "+o.Deadline.UTC().Format(time.RFC3339)))
		c.Log.Info("deleted pod by force", "pod", o.Pod.String(), "node", o.Node, "deadline", o.Deadline)
	case apply.Blocked:
		c.reportBlocked(ctx, &o)
	case apply.Held:
		c.reportHeld(o.Object)
	case apply.Failed:
		c.Log.Error("could not evict pod, will try again", "pod", o.Pod.String(), "node", o.Node, "error", o.Err)
	case apply.Gone, apply.Left:
	}
}

func (c *Controller) reportBlocked(ctx context.Context, o *apply.EvictionOutcome) {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: o.Node}, node, client.UnsafeDisableDeepCopy); err != nil && !apierrors.IsConflict(err) {
		return // the Node is gone, so there is no object for the event
	}
	c.Events.Event(node, observe.FailedDraining(o.Err.Error()))
}

// reportHeld says on a pod until when it holds its node.
func (c *Controller) reportHeld(pod *corev1.Pod) {
	if e, is := observe.DoNotDisrupt(pod, c.Now()); is {
		c.Events.Event(pod, e)
	}
}

// reportNotHeld says of a pod that was evicted though it has a do-not-disrupt annotation
// why that did not hold it.
func (c *Controller) reportNotHeld(pod *corev1.Pod) {
	if e, is := observe.DoNotDisrupt(pod, c.Now()); is {
		c.Events.Event(pod, e)
	}
}
