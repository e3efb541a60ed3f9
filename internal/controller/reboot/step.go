package reboot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// askAgain is the pause between two tries to have the cloud reboot an instance, askMost how long one may
// take.
const askAgain, askMost = 10 * time.Second, time.Minute

// step decides one step and performs it.
func (p *reconciliation) step(ctx context.Context) (core.Step, error) {
	view, err := p.observe(ctx)
	if err != nil {
		return core.Step{}, err
	}
	step := core.Reboot(view)
	if len(step.Notes) > 0 {
		if _, err := apply.WriteNotes(ctx, p.Client, p.claim, &step, view.At); err != nil {
			return step, err
		}
		p.Log.Info("instance is rebooting", "claim", p.claim.Name, "node", view.Node.Name, "pool", p.pool())
	}
	for _, e := range step.Evict {
		p.Evict(apply.Eviction{Pod: e.Pod, Node: view.Node.Name, Until: step.Deadline, Reason: plan.Unhealthy})
	}
	return step, p.perform(ctx, &view, &step)
}

func (p *reconciliation) observe(ctx context.Context) (core.RebootView, error) {
	known := p.known(p.claim.Name, p.token())
	view := core.RebootView{At: p.Now(), Claim: translate.RebootClaim(p.claim), Answer: known.answer, Asked: known.since}
	if p.node == nil {
		return view, nil
	}
	view.Node = translate.RebootNode(p.node)
	if view.Claim.IsIssued {
		return view, nil
	}
	pods, err := mirror.PodsOn(ctx, p.Client, p.node.Name)
	if err != nil {
		return view, err
	}
	for i := range pods {
		if translate.WaitingEviction(&pods[i], view.At) {
			view.Pods = append(view.Pods, translate.DrainPod(&pods[i], view.At))
		}
	}
	slices.SortFunc(view.Pods, func(a, b core.DrainPod) int { return strings.Compare(a.String(), b.String()) })
	return view, nil
}

func (p *reconciliation) perform(ctx context.Context, view *core.RebootView, step *core.Step) error {
	switch step.Act {
	case core.TaintNode:
		return apply.TaintRebooting(ctx, p.Client, p.node)
	case core.RecordBootID:
		return apply.RecordBootID(ctx, p.Client, p.claim, view.Node.BootID)
	case core.AskReboot:
		p.ask(ctx, view)
		return nil
	case core.UninitialiseNode:
		return apply.UninitializeNode(ctx, p.Client, p.node)
	case core.UntaintNode:
		if err := apply.UntaintRebooting(ctx, p.Client, p.node); err != nil {
			return err
		}
		if view.Claim.IsIssued {
			p.Events.Event(p.claim, observe.RebootObserved(p.token()))
		}
		return nil
	case core.EndReboot:
		if err := apply.EndReboot(ctx, p.Client, p.claim, step, view.At); err != nil {
			return err
		}
		p.reportEnd(view, step)
		return nil
	case core.FailReboot:
		if err := apply.FailReboot(ctx, p.Client, p.claim, p.node, view.At); err != nil {
			return err
		}
		p.reportFailed(view, step.Reason, step.Why)
		return nil
	default:
		return nil
	}
}

// ask has the cloud reboot the instance, and remembers what it answered.
func (p *reconciliation) ask(ctx context.Context, view *core.RebootView) {
	known := p.known(p.claim.Name, p.token())
	if known.since.IsZero() {
		known.since = view.At
	}
	ctx, cancel := context.WithTimeout(ctx, askMost)
	defer cancel()
	err := cloud.ErrRebootRefused
	if rebooter, able := observe.ForPool(p.Cloud, p.pool()).(cloud.Rebooter); able {
		err = rebooter.Reboot(ctx, cloud.RebootRequest{Token: known.token, InstanceID: p.claim.Status.ProviderID, Node: p.node.Name})
	}
	switch {
	case err == nil:
		known.answer = core.RebootAnswer{State: core.RebootAnswerAccepted}
	case errors.Is(err, cloud.ErrRebootRefused), errors.Is(err, cloud.ErrNotFound):
		known.answer = core.RebootAnswer{State: core.RebootAnswerRefused, Message: err.Error()}
	default:
		known.answer = core.RebootAnswer{State: core.RebootAnswerFailed, Message: err.Error(), RetryAt: p.Now().Add(askAgain)}
		p.Log.Error("could not reboot instance, will try again", "claim", p.claim.Name, "pool", p.pool(), "error", err)
	}
	p.remember(p.claim.Name, &known)
}

// clear removes what is left of a reboot that is over.
func (p *reconciliation) clear(ctx context.Context) error {
	p.forget(p.claim.Name)
	if _, has := p.claim.Annotations[karpenterv1.RebootBootIDAnnotationKey]; !has {
		return nil // the bound may be that of a reboot that is just being requested
	}
	return apply.ClearReboot(ctx, p.Client, p.claim)
}
