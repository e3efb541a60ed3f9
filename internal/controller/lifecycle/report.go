package lifecycle

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func (p *reconciliation) pool() string { return p.claim.Labels[karpenterv1.NodePoolLabelKey] }

// named returns the claim as log lines name it.
func (p *reconciliation) named() slog.Attr { return observe.Named("NodeClaim", p.claim.Name) }

func (p *reconciliation) reportLaunched(got *cloud.Instance) {
	p.Traces.Launched(p.claim.Name, p.Now())
	observe.Logged(p.Log, observe.LogLaunched, p.named(), observe.Named("NodePool", p.pool()), "provider-id", got.ID,
		"instance-type", p.claim.Labels[corev1.LabelInstanceTypeStable], "zone", p.claim.Labels[corev1.LabelTopologyZone],
		"capacity-type", p.claim.Labels[karpenterv1.CapacityTypeLabelKey], observe.Amounts("allocatable", got.Allocatable),
		"claim", p.claim.Name, "pool", p.pool(), "took", p.age())
}

// reportLaunchFailed reports why there is no instance yet, once for each reason.
func (p *reconciliation) reportLaunchFailed(notes []core.Note) {
	for _, n := range notes {
		if n.Type == core.Launched && n.Reason != core.ReasonAwaiting && n.Reason != core.ReasonAccepted && n.Message != condition.ForNodeClaim(p.claim).Get(n.Type).Message {
			p.Log.Error("launch failed, will try again", "claim", p.claim.Name, "pool", p.pool(), "reason", n.Reason, "error", n.Message)
		}
	}
}

// reportTurned reports the conditions that became True.
func (p *reconciliation) reportTurned(ctx context.Context, turned []string) {
	for _, t := range turned {
		switch t {
		case core.Registered:
			p.Traces.Registered(p.claim.Name, p.Now())
			p.Metrics.NodesCreated.WithLabelValues(p.pool(), p.claim.Labels[corev1.LabelTopologyZone]).Inc()
			p.record(ctx, true)
			observe.Logged(p.Log, observe.LogRegistered, p.named(), observe.Named("Node", p.claim.Status.NodeName), "provider-id", p.claim.Status.ProviderID, "claim", p.claim.Name, "node", p.claim.Status.NodeName, "took", p.age())
		case core.Initialized:
			p.Traces.Initialized(p.claim.Name, p.Now())
			observe.Logged(p.Log, observe.LogInitialized, p.named(), observe.Named("Node", p.claim.Status.NodeName), "provider-id", p.claim.Status.ProviderID, "claim", p.claim.Name, "node", p.claim.Status.NodeName, "took", p.age())
		default:
		}
	}
}

func (p *reconciliation) reportTaintMissing(node string) {
	p.Events.Event(p.claim, observe.UnregisteredTaintMissing())
	p.Log.Error("node joined without the taint that keeps pods away until it is registered", "claim", p.claim.Name, "node", node)
}

// reportDeleted reports a claim that was deleted, because it did not become a node or
// because its time was over.
func (p *reconciliation) reportDeleted(ctx context.Context, reason string, answer core.Answer) {
	p.Traces.Removed(p.claim.Name, reason, p.Now())
	switch reason {
	case translate.Reclaimed(p.claim):
		p.onClaimAndNodes(observe.TerminatingOnInterruption(reason))
	case core.ReasonNoCapacity:
		p.Events.Event(p.claim, observe.InsufficientCapacityError(answer.Message))
	case core.ReasonClassNotReady:
		p.Events.Event(p.claim, observe.NodeClassNotReady(answer.Message))
	case core.ReasonExpired:
		p.onClaimAndNodes(observe.DisruptionTerminating("Expired"))
	default:
		p.record(ctx, false)
	}
	observe.Logged(p.Log, observe.LogDeleting, p.named(), "claim", p.claim.Name, "pool", p.pool(), "reason", reason, "message", answer.Message)
	pods := 0
	for i := range p.nodes {
		on, err := mirror.PodsOn(ctx, p.Client, p.nodes[i].Name)
		if err != nil {
			p.Log.Error("could not count pods", "node", p.nodes[i].Name, "error", err)
		}
		pods += translate.CountReschedulable(on)
	}
	p.Metrics.Disrupted(p.claim, reason, "", pods)
}

// plannedPods returns the pods that get an event when the claim is deleted because it got no instance.
func (p *reconciliation) plannedPods(reason string) []*corev1.Pod {
	if reason != core.ReasonNoCapacity || p.Planned == nil {
		return nil
	}
	return p.Planned(p.claim.Name)
}

// onClaimAndNodes writes an event on the claim and on its Nodes.
func (p *reconciliation) onClaimAndNodes(e observe.Event) {
	p.Events.Event(p.claim, e)
	for i := range p.nodes {
		p.Events.Event(&p.nodes[i], e)
	}
}

func (p *reconciliation) reportDeadline(deadline time.Time) {
	p.Events.Event(p.claim, observe.TerminationGracePeriodExpiring(deadline))
	observe.Logged(p.Log, observe.LogAnnotated, p.named(), karpenterv1.NodeClaimTerminationTimestampAnnotationKey, deadline.UTC().Format(time.RFC3339), "claim", p.claim.Name)
}

// reportWait says on the claim what its end has waited for too long.
func (p *reconciliation) reportWait(step *core.Step) {
	if p.claim.DeletionTimestamp != nil && len(step.Blocked) > 0 {
		p.Events.Event(p.claim, observe.FailedTermination(step.BlockedText()))
	}
}

func (p *reconciliation) reportGone() {
	now := p.Now()
	p.Traces.Removed(p.claim.Name, "deleted", now)
	labels := p.claim.Labels
	p.Metrics.NodeClaimsTerminated.WithLabelValues(p.pool(), labels[karpenterv1.CapacityTypeLabelKey], labels[corev1.LabelTopologyZone]).Inc()
	p.Metrics.NodeClaimsTerminationDurationSeconds.WithLabelValues(p.pool()).Observe(now.Sub(p.claim.DeletionTimestamp.Time).Seconds())
	if p.instance == core.InstanceGone {
		took := time.Duration(0)
		if c := condition.ForNodeClaim(p.claim).Get(core.InstanceTerminating); !c.LastTransitionTime.IsZero() {
			took = now.Sub(c.LastTransitionTime.Time)
		}
		p.Metrics.NodeClaimsInstanceTerminationDurationSeconds.WithLabelValues(p.pool()).Observe(took.Seconds())
	}
	observe.Logged(p.Log, observe.LogDeletedClaim, p.named(), observe.Named("Node", p.claim.Status.NodeName), "provider-id", p.claim.Status.ProviderID, "claim", p.claim.Name, "pool", p.pool(),
		"took", now.Sub(p.claim.DeletionTimestamp.Time).String())
}

func (p *reconciliation) record(ctx context.Context, registered bool) {
	if p.Health != nil {
		p.Health.Record(ctx, p.claim, registered)
	}
}

// age returns how long ago the claim was created, for people.
func (p *reconciliation) age() string {
	return p.Now().Sub(p.claim.CreationTimestamp.Time).Round(time.Millisecond).String()
}
