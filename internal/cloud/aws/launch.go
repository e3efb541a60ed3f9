package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// templateTries is how often a launch is tried whose launch templates somebody deletes.
const templateTries = 3

// launcher puts launch requests with equal fleetSpecs into one fleet.
type launcher struct {
	client client.Client
	fleets *fleets
	ledger *ledger
	types  *instanceTypes
}

// launch starts instances for the requests, those with equal fleetSpecs by one fleet. It waits
// for EC2's answer, not for boots.
func (l *launcher) launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	left := make([]int, len(requests))
	for i := range left {
		left[i] = i
	}
	for try := 1; len(left) > 0; try++ {
		left = l.try(ctx, requests, left, results)
		if try == templateTries {
			break
		}
	}
	for i := range results {
		if errors.Is(results[i].Err, errTemplateGone) {
			results[i].Err = &cloud.Failure{Kind: cloud.Rejected, Reason: "LaunchTemplateNotFound", Message: "somebody deletes the launch templates as soon as they are made"}
		}
	}
	return results
}

// try answers the requests at these indices and returns the indices of those to be tried again.
func (l *launcher) try(ctx context.Context, requests []cloud.LaunchRequest, at []int, results []cloud.LaunchResult) (again []int) {
	batches := make([]*batch, len(requests))
	drafts := map[string]*draft{}
	for _, i := range at {
		b, err := l.batchFor(ctx, &requests[i], drafts)
		if err != nil {
			results[i] = cloud.LaunchResult{Err: err}
			continue
		}
		batches[i] = b
	}
	attempts := map[*batch]<-chan struct{}{}
	for _, b := range batches { // when all have joined
		if b != nil && attempts[b] == nil {
			attempts[b] = l.ledger.begin(ctx, b)
		}
	}
	reported := map[*batch]bool{}
	for _, i := range at {
		if batches[i] == nil {
			continue
		}
		m, err := l.ledger.answer(ctx, batches[i], attempts[batches[i]], requests[i].Token)
		if !reported[batches[i]] { // once is enough
			short, keep := l.ledger.shortOf(batches[i])
			results[i].Short, results[i].Keep = append(results[i].Short, short...), max(results[i].Keep, keep)
			reported[batches[i]] = true
		}
		if errors.Is(err, errTemplateGone) {
			l.fleets.templates.forget(&batches[i].request)
			again = append(again, i)
		}
		if results[i].Err = err; err == nil {
			results[i].Instance = instanceOf(&m, l.types.ofLaunched(ctx, &m, requests[i].Class))
		}
	}
	return again
}

// batchFor returns the batch of a request: the one that has its token already, or the one that
// it joins now.
func (l *launcher) batchFor(ctx context.Context, r *cloud.LaunchRequest, drafts map[string]*draft) (*batch, error) {
	if err := l.ledger.ready(ctx); err != nil {
		return nil, fmt.Errorf("launch %s: %w", r.Claim, err)
	}
	if b := l.ledger.holding(r.Token); b != nil {
		return b, nil
	}
	class, err := l.usable(ctx, r.Class)
	if err != nil {
		return nil, err
	}
	s, err := newFleetSpec(class, r)
	if err != nil {
		return nil, err
	}
	s.efa = s.efa || l.fleets.opts.EFADevices && claimsEFA(r)
	key := s.key()
	if drafts[key] == nil {
		if drafts[key], err = l.fleets.draft(ctx, s); err != nil {
			return nil, fmt.Errorf("launch %s: %w", r.Claim, err)
		}
	}
	return l.ledger.join(key, member{r.Token, r.Claim}, drafts[key].request), nil
}

// usable returns the class of a launch, or the failure to answer it with.
func (l *launcher) usable(ctx context.Context, ref cloud.ClassRef) (*awsv1.EC2NodeClass, error) {
	class, err := getClass(ctx, l.client, ref)
	if errors.Is(err, cloud.ErrNotFound) || (err == nil && class.DeletionTimestamp != nil) {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: fmt.Sprintf("there is no node class %s", ref)}
	}
	if err != nil {
		return nil, err
	}
	ready := meta.FindStatusCondition(class.Status.Conditions, "Ready")
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "NodeClassReadinessUnknown", Message: fmt.Sprintf("it is not known yet whether node class %s can be used", class.Name)}
	case ready.Status == metav1.ConditionFalse:
		return nil, &cloud.Failure{Kind: cloud.ClassNotReady, Reason: ready.Reason, Message: fmt.Sprintf("node class %s is not ready: %s", class.Name, cmp.Or(ready.Message, ready.Reason))}
	case ready.ObservedGeneration != class.Generation:
		return nil, &cloud.Failure{Kind: cloud.ClassNotReady, Message: fmt.Sprintf("node class %s was changed and has not been looked at since", class.Name)}
	}
	return class, nil
}
