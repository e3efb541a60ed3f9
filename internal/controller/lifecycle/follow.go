package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// errEnding says that a claim is still to be ended because of a notice.
var errEnding = errors.New("the claim is being ended")

// LaunchFailed ends a claim whose launch had been accepted, as if the failure had been the answer to the
// launch. It returns an error as long as the claim is not deleted, so that the notice is kept until then. A
// claim whose Node has registered is left alone: its launch has not failed.
func (c *Controller) LaunchFailed(claim *karpenterv1.NodeClaim, failure *cloud.Failure) error {
	if claim.DeletionTimestamp != nil || condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeRegistered) {
		return nil
	}
	if failure == nil {
		failure = &cloud.Failure{Kind: cloud.Rejected, Message: "the cloud does not say why"}
	}
	launch := followedLaunch(claim)
	if _, accepted := c.launches.Answer(launch.Token); accepted.Labels != nil {
		launch.Labels = accepted.Labels
	}
	c.follower.Failed(launch, failure)
	return fmt.Errorf("launch of claim %s failed: %w", claim.Name, errEnding)
}

// LaunchChanged has the cloud asked at once what has become of a launch that it had accepted.
func (c *Controller) LaunchChanged(claim *karpenterv1.NodeClaim) {
	if claim.DeletionTimestamp == nil && !condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeRegistered) {
		c.follower.Changed(followedLaunch(claim))
	}
}

func followedLaunch(claim *karpenterv1.NodeClaim) apply.FollowedLaunch {
	return apply.FollowedLaunch{Token: string(claim.UID), Claim: claim.Name, Created: claim.CreationTimestamp.Time, Labels: claim.Labels}
}

// followed returns what the cloud has said of the claim's launch since it accepted it, and the instance: the
// one of the answer to the launch if nothing is new.
func (p *reconciliation) followed(launched cloud.Instance) (core.Answer, cloud.Instance) {
	follow, instance := p.follower.Answer(string(p.claim.UID))
	if follow.State == core.AnswerLaunched {
		return follow, instance
	}
	return follow, launched
}

// follow asks the cloud for the claim's instance.
func (p *reconciliation) follow(ctx context.Context) {
	class := mirror.ClassOfClaim(p.claim)
	every := core.ProvisionalFollow
	if p.Patience != nil {
		every = cmp.Or(p.Patience(class).Follow, every)
	}
	id := cmp.Or(p.claim.Status.ProviderID, p.claim.Annotations[translate.ProvisionalIDAnnotationKey])
	provider := observe.ForPool(p.Cloud, p.pool())
	p.follower.Ask(ctx, followedLaunch(p.claim), every, func(ctx context.Context) (cloud.Instance, error) { return provider.Get(ctx, id) })
}
