package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// step decides one step and performs it.
func (p *reconciliation) step(ctx context.Context) (core.Step, error) {
	if id := p.claim.Status.ProviderID; id != p.listed {
		nodes, err := mirror.NodesOfClaim(ctx, p.Client, p.claim)
		if err != nil {
			return core.Step{}, err
		}
		p.nodes, p.listed = nodes, id
	}
	token := string(p.claim.UID)
	answer, launched := p.launches.Answer(token)
	view := core.View{At: p.Now(), Claim: translate.LifecycleClaim(p.claim), Answer: answer, Instance: p.instance}
	if p.Patience != nil {
		view.Patience = p.Patience(mirror.ClassOfClaim(p.claim))
	}
	view.Follow, launched = p.followed(launched)
	answer.Message = cmp.Or(view.Follow.Message, answer.Message)
	stays, askAgain, err := p.outlives(ctx, view.Claim.Expires, view.At)
	if err != nil {
		return core.Step{}, err
	}
	if stays {
		view.Claim = translate.LifecycleClaim(translate.Ageless(p.claim))
	}
	for i := range p.nodes {
		view.Nodes = append(view.Nodes, translate.LifecycleNode(&p.nodes[i]))
		if p.Published != nil {
			view.Nodes[i].Published = p.Published(p.nodes[i].Name)
		}
	}
	if p.Published == nil {
		view.Claim.Drivers = nil
	}
	if view.Claim.Launched.Status == core.True {
		p.launches.Forget(token)
	}
	if view.Claim.Registered.Status == core.True {
		p.follower.Forget(token)
	}
	step := core.Next(view)
	if step.Act == core.Wait && !askAgain.IsZero() && (step.Until.IsZero() || askAgain.Before(step.Until)) {
		step.Until = askAgain
	}
	if step.Act == core.Launch { // at once: nothing that is noted is needed for it
		if err := p.perform(ctx, &step, answer, &launched); err != nil {
			return step, err
		}
	}
	if len(step.Notes) > 0 {
		p.reportLaunchFailed(step.Notes)
		turned, err := apply.WriteNotes(ctx, p.clientFor(&view), p.claim, &step, view.At)
		if err != nil {
			return step, err
		}
		p.reportTurned(ctx, turned)
	}
	p.reportWait(&step)
	if step.Act == core.Launch {
		return step, nil
	}
	if step.Act == core.RegisterNode && p.Opener != nil && view.Nodes[0].IsUnregistered {
		node := p.node(step.Node)
		if err := apply.AdoptNode(ctx, p.Client, node, p.claim); err != nil {
			return step, err
		}
		if !p.Opener.MayOpen(p.claim.Name, node) {
			return core.Step{Why: "node " + step.Node + " waits to be opened to pods", Until: view.At.Add(turnRetry)}, nil
		}
	}
	return step, p.perform(ctx, &step, answer, &launched)
}

// clientFor returns the client that writes on the claim. Until it is registered that is the one for launches, which
// has a rate of its own: while writes wait for the other one, so do the launches behind them.
func (p *reconciliation) clientFor(view *core.View) client.Client {
	if view.Claim.Registered.Status != core.True {
		return p.Launches
	}
	return p.Client
}

// outlives reports whether the claim stays although its time is over: disruption of its pool is paused, or
// nothing would replace it. It returns when to ask again unless the claim changes; zero: need not be.
func (p *reconciliation) outlives(ctx context.Context, expires, now time.Time) (stays bool, askAgain time.Time, err error) {
	switch {
	case expires.IsZero() || now.Before(expires):
		return false, time.Time{}, nil
	case p.Paused != nil && p.Paused(p.pool()) != "":
		return true, now.Add(pausedRetry), nil
	case p.StaticCapacity:
		return false, time.Time{}, nil
	}
	stays, err = p.isStatic(ctx)
	return stays, time.Time{}, err
}

// isStatic reports whether the claim is of a pool with a fixed number of nodes.
func (p *reconciliation) isStatic(ctx context.Context) (bool, error) {
	np := &karpenterv1.NodePool{}
	err := p.Client.Get(ctx, client.ObjectKey{Name: p.pool()}, np, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return translate.Static(np), nil
}

func (p *reconciliation) perform(ctx context.Context, step *core.Step, answer core.Answer, launched *cloud.Instance) error {
	switch step.Act {
	case core.AddFinalizer:
		return apply.AdoptClaim(ctx, p.Client, p.claim)
	case core.Launch:
		claim := p.claim.DeepCopy()
		p.launches.Request(ctx, string(claim.UID), claim.Name, func(ctx context.Context) (cloud.LaunchRequest, error) {
			return p.request(ctx, claim)
		})
		return nil
	case core.RecordAccepted:
		return apply.RecordAccepted(ctx, p.Client, p.claim, answer.InstanceID)
	case core.FollowLaunch:
		p.follow(ctx)
		return nil
	case core.RecordLaunch:
		p.overlay(launched)
		if err := apply.RecordLaunch(ctx, p.Launches, p.claim, launched, p.Now()); err != nil {
			return err
		}
		p.reportLaunched(launched)
		return nil
	case core.RegisterNode:
		if step.TaintMissing {
			p.reportTaintMissing(step.Node)
		}
		return apply.RegisterNode(ctx, p.Client, p.node(step.Node), p.claim)
	case core.InitialiseNode:
		return apply.InitializeNode(ctx, p.Client, p.node(step.Node))
	case core.DeleteClaim:
		planned := p.plannedPods(step.Reason) // nobody knows them any more when the claim goes
		if err := apply.RemoveAsSeen(ctx, p.Client, p.claim); err != nil {
			return err
		}
		for _, pod := range planned {
			p.Events.Event(pod, observe.PodLaunchFailed(p.claim.Name, answer.Message))
		}
		p.reportDeleted(ctx, step.Reason, answer)
		return nil
	case core.SetDeadline:
		if err := apply.SetDeadline(ctx, p.Client, p.claim, step.Deadline); err != nil {
			return err
		}
		p.reportDeadline(step.Deadline)
		return nil
	case core.DeleteNodes:
		return p.deleteNodes(ctx)
	case core.Terminate:
		return p.terminate(ctx, answer.InstanceID)
	case core.RemoveFinalizer:
		if err := apply.RemoveFinalizer(ctx, p.Client, p.claim); err != nil {
			return err
		}
		p.launches.Forget(string(p.claim.UID))
		p.follower.Forget(string(p.claim.UID))
		p.reportGone()
		return nil
	case core.Wait, core.AskInstance, core.TaintNode:
		return nil
	default:
		return fmt.Errorf("claim %s: nobody performs %q", p.claim.Name, step.Act)
	}
}

// request returns the launch request of a claim: every offering that the claim allows and
// that holds what it needs, the cheapest first.
func (p *reconciliation) request(ctx context.Context, claim *karpenterv1.NodeClaim) (cloud.LaunchRequest, error) {
	class := mirror.ClassOfClaim(claim)
	want, err := translate.ClaimRequirements(claim)
	if err != nil {
		return cloud.LaunchRequest{}, &cloud.Failure{Kind: cloud.Rejected, Message: err.Error()}
	}
	types, err := observe.ForPool(p.Cloud, claim.Labels[karpenterv1.NodePoolLabelKey]).Types(ctx, class)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return cloud.LaunchRequest{}, &cloud.Failure{Kind: cloud.NoCapacity, Message: class.String() + " does not exist"}
	case err != nil:
		return cloud.LaunchRequest{}, fmt.Errorf("list instance types of %s: %w", class, err)
	}
	repriced := false
	if p.Overlays != nil {
		types, repriced = p.Overlays.Overlaid(claim.Labels[karpenterv1.NodePoolLabelKey], types)
	}
	if p.Available != nil && p.Patience != nil && p.Patience(class).Follow > 0 {
		types = p.Available(types)
	}
	requests := translate.Quantities(claim.Spec.Resources.Requests)
	choices := catalog.Choices(types, want, requests)
	if len(choices) == 0 {
		return cloud.LaunchRequest{}, &cloud.Failure{
			Kind:    cloud.NoCapacity,
			Message: fmt.Sprintf("none of %d instance types is available that satisfies the claim and holds its requests", len(types)),
		}
	}
	unregistered := karpenterv1.UnregisteredTaint()
	return cloud.LaunchRequest{
		Token: string(claim.UID), Claim: claim.Name, Class: class,
		Choices: choices, Repriced: repriced, Requirements: want, Requests: requests,
		Labels: claim.Labels, Annotations: claim.Annotations,
		Taints: []cluster.Taint{{Key: unregistered.Key, Effect: string(unregistered.Effect)}},
	}, nil
}

// overlay adds to what an instance has the resources that NodeOverlays say its node will have.
func (p *reconciliation) overlay(launched *cloud.Instance) {
	if p.Overlays == nil {
		return
	}
	if extra := p.Overlays.OverlaidCapacity(p.pool(), launched.Labels[label.InstanceType]); len(extra) > 0 {
		launched.Capacity, launched.Allocatable = launched.Capacity.Plus(nil), launched.Allocatable.Plus(nil)
		maps.Copy(launched.Capacity, extra)
		maps.Copy(launched.Allocatable, extra)
	}
}

// terminate asks for the end of the claim's instance: the recorded one, or the one of an answer
// that could not be recorded before the claim was deleted.
func (p *reconciliation) terminate(ctx context.Context, answered string) error {
	id := cmp.Or(p.claim.Status.ProviderID, p.claim.Annotations[translate.ProvisionalIDAnnotationKey], answered)
	err := observe.ForPool(p.Cloud, p.pool()).Terminate(ctx, id)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		p.instance = core.InstanceGone
	case err != nil:
		p.Events.Event(p.claim, observe.FailedTermination(err.Error()))
		return fmt.Errorf("terminate instance %s of claim %s: %w", id, p.claim.Name, err)
	default:
		p.instance = core.InstanceGoing
	}
	return nil
}

func (p *reconciliation) deleteNodes(ctx context.Context) error {
	for i := range p.nodes {
		if p.nodes[i].DeletionTimestamp != nil {
			continue
		}
		if err := apply.Remove(ctx, p.Client, &p.nodes[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (p *reconciliation) node(name string) *corev1.Node {
	for i := range p.nodes {
		if p.nodes[i].Name == name {
			return &p.nodes[i]
		}
	}
	panic("lifecycle: the core named node " + name + ", which it was not shown")
}
