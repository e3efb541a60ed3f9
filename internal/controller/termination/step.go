package termination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// forcefulTermination is the reason of evictions when nobody chose to disrupt the node.
const forcefulTermination = "Forceful Termination"

// step decides one step and performs it.
func (p *reconciliation) step(ctx context.Context) (lifecycle.Step, error) {
	view, err := p.observe(ctx)
	if err != nil {
		return lifecycle.Step{}, err
	}
	step := lifecycle.Drain(view)
	if len(step.Notes) > 0 {
		turned, err := apply.WriteNotes(ctx, p.Client, p.claim, &step, view.At)
		if err != nil {
			return step, err
		}
		p.reportTurned(turned)
	}
	p.evict(&view, &step)
	p.reportWait(&view, &step)
	return step, p.perform(ctx, &step)
}

func (p *reconciliation) observe(ctx context.Context) (lifecycle.DrainView, error) {
	view := lifecycle.DrainView{
		At: p.Now(), Instance: p.instance,
		Node: lifecycle.DrainNode{
			Name: p.node.Name, Ready: translate.NodeReady(p.node), IsTainted: apply.IsClosed(p.node),
			DeletedAt: p.node.DeletionTimestamp.Time, Instance: p.node.Spec.ProviderID,
		},
	}
	if p.claim != nil {
		claim, err := translate.DrainClaim(p.claim)
		if err != nil {
			p.Events.Event(p.node, observe.FailedDraining(err.Error()))
			return view, err
		}
		view.Claim = claim
	}
	pods, err := mirror.PodsOn(ctx, p.Client, p.node.Name)
	if err != nil {
		return view, err
	}
	p.endings.see(p.node, pods, view.At)
	for i := range pods {
		if !translate.WaitingEviction(&pods[i], p.endings.clock(p.node, &pods[i], view.At)) {
			continue
		}
		waiting := translate.DrainPod(&pods[i], view.At)
		if waiting.BlockedBy == "" && waiting.DeletedAt.IsZero() && !view.At.Before(view.Node.DeletedAt.Add(lifecycle.NamedAfter)) {
			if waiting.BlockedBy, err = p.blocker(ctx, &pods[i]); err != nil {
				return view, err
			}
		}
		if p.reason() == disrupt.Underutilized {
			waiting.Size = lifecycle.SizeOf(translate.PodRequests(&pods[i]))
		}
		view.Pods = append(view.Pods, waiting)
		p.reportHeld(&pods[i])
	}
	// The cache has no order, and events must not change with it.
	slices.SortFunc(view.Pods, func(a, b lifecycle.DrainPod) int { return strings.Compare(a.String(), b.String()) })
	if len(view.Pods) == 0 {
		view.Volumes, err = p.volumes(ctx, pods)
	}
	return view, err
}

// blocker names the PodDisruptionBudgets that may block the eviction of a pod; empty: none.
func (p *reconciliation) blocker(ctx context.Context, pod *corev1.Pod) (string, error) {
	budgets, known := p.budgets[pod.Namespace]
	if !known {
		var err error
		if budgets, err = mirror.PDBsIn(ctx, p.Client, pod.Namespace); err != nil {
			return "", err
		}
		p.budgets[pod.Namespace] = budgets
	}
	var names []string
	for _, b := range budgets {
		if b.Selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, b.Name)
		}
	}
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return "PodDisruptionBudget " + names[0], nil
	default:
		return "PodDisruptionBudgets " + strings.Join(names, ", ") + ": the API server evicts no pod that several select", nil
	}
}

// volumes returns the attachments that must be gone before the instance is terminated: all but
// those of pods that are not drained.
func (p *reconciliation) volumes(ctx context.Context, pods []corev1.Pod) ([]string, error) {
	attachments, err := mirror.AttachmentsOn(ctx, p.Client, p.node.Name)
	if err != nil || len(attachments) == 0 {
		return nil, err
	}
	staying := map[string]bool{}
	for i := range pods {
		if translate.Drainable(&pods[i], p.endings.clock(p.node, &pods[i], p.Now())) {
			continue
		}
		for _, claim := range translate.VolumeClaims(&pods[i]) {
			var pvc corev1.PersistentVolumeClaim
			err := p.Client.Get(ctx, types.NamespacedName{Namespace: pods[i].Namespace, Name: claim}, &pvc, client.UnsafeDisableDeepCopy)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, fmt.Errorf("read volume claim %s/%s: %w", pods[i].Namespace, claim, err)
			default:
				staying[pvc.Spec.VolumeName] = true
			}
		}
	}
	var pending []string
	for i := range attachments {
		if volume := attachments[i].Spec.Source.PersistentVolumeName; volume != nil && !staying[*volume] {
			pending = append(pending, attachments[i].Name)
		}
	}
	slices.Sort(pending)
	return pending, nil
}

func (p *reconciliation) evict(view *lifecycle.DrainView, step *lifecycle.Step) {
	if len(step.Evict) == 0 {
		return
	}
	eviction := apply.Eviction{Node: p.node.Name, Reason: p.reason()}
	if p.claim != nil {
		eviction.Deadline = view.Claim.Deadline
	}
	for _, e := range step.Evict {
		eviction.Pod, eviction.Size = e.Pod, e.Size
		if e.Force {
			p.evictor.Force(eviction)
			continue
		}
		p.evictor.Add(eviction)
	}
}

// reason returns why the node is drained.
func (p *reconciliation) reason() string {
	if p.claim != nil {
		if c := condition.ForNodeClaim(p.claim).Get(karpenterv1.ConditionTypeDisruptionReason); c.Reason != "" {
			return c.Reason
		}
	}
	return forcefulTermination
}

func (p *reconciliation) perform(ctx context.Context, step *lifecycle.Step) error {
	switch step.Act {
	case lifecycle.DeleteClaim:
		return apply.Remove(ctx, p.Client, p.claim)
	case lifecycle.AskInstance:
		_, err := observe.ForPool(p.Cloud, p.pool()).Get(ctx, p.node.Spec.ProviderID)
		switch {
		case errors.Is(err, cloud.ErrNotFound):
			p.instance = lifecycle.InstanceGone
		case err != nil:
			p.Events.Event(p.node, observe.FailedDraining("the node is not ready, and the cloud does not report whether its instance exists: "+err.Error()))
			return fmt.Errorf("ask for instance %s of node %s: %w", p.node.Spec.ProviderID, p.node.Name, err)
		default:
			p.instance = lifecycle.InstanceThere
		}
		return nil
	case lifecycle.TaintNode:
		taint := karpenterv1.DisruptedTaint()
		observe.Logged(p.Log, observe.LogTainted, observe.Named("Node", p.node.Name), observe.Named("NodeClaim", p.claimName()),
			"taint.Key", taint.Key, "taint.Value", taint.Value, "taint.Effect", taint.Effect, "node", p.node.Name, "claim", p.claimName(), "pool", p.pool())
		return apply.CloseNode(ctx, p.Client, p.node)
	case lifecycle.Terminate:
		err := observe.ForPool(p.Cloud, p.pool()).Terminate(ctx, p.claim.Status.ProviderID)
		switch {
		case errors.Is(err, cloud.ErrNotFound):
			p.instance = lifecycle.InstanceGone
		case err != nil:
			p.Events.Event(p.claim, observe.FailedTermination(err.Error()))
			return fmt.Errorf("terminate instance %s of node %s: %w", p.claim.Status.ProviderID, p.node.Name, err)
		default:
			p.instance = lifecycle.InstanceGoing
		}
		return nil
	case lifecycle.RemoveFinalizer:
		if err := apply.RemoveFinalizer(ctx, p.Client, p.node); err != nil {
			return err
		}
		p.reportGone()
		return nil
	default:
		return nil
	}
}
