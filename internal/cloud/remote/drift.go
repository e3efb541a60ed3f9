package remote

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
)

// driftBatchUsual and driftBatchMost bound the IDs of one Drift.
const driftBatchUsual, driftBatchMost = 500, 1000

// Drifted asks in what way an instance differs from what its class would launch now.
func (p *Provider) Drifted(ctx context.Context, ref cloud.ClassRef, instanceID string) (reason string, err error) {
	if !p.client.can(providerv1.Capability_CAPABILITY_DRIFT) {
		return "", nil
	}
	if p.DriftBatch(ref) > 0 {
		all, err := p.DriftedOf(ctx, ref, []string{instanceID})
		if err != nil {
			return "", err
		}
		answer, known := all[instanceID]
		if !known {
			return "", fmt.Errorf("the answer to Drift does not say whether %s has drifted", instanceID)
		}
		return answer.Reason, answer.Err
	}
	response, err := p.drift(ctx, ref, []string{instanceID})
	switch {
	case !p.client.can(providerv1.Capability_CAPABILITY_DRIFT): // as has turned out
		return "", nil
	case status.Code(err) == codes.NotFound:
		return "", fmt.Errorf("drift of %s: %w", instanceID, cloud.ErrNotFound)
	case err != nil:
		return "", err
	}
	if slices.Contains(response.GetNotFound(), instanceID) {
		return "", fmt.Errorf("drift of %s: %w", instanceID, cloud.ErrNotFound)
	}
	reason = response.GetReasons()[instanceID] // none: it has not drifted
	if reason != "" && !wire.IsReason(reason) {
		return "", p.client.broke(RuleDrift, fmt.Errorf("answer of Drift: %q cannot be the reason of a condition", wire.Text(reason)))
	}
	return reason, nil
}

// DriftBatch returns how many instances the provider can be asked about at once.
func (p *Provider) DriftBatch(cloud.ClassRef) int {
	if !p.client.can(providerv1.Capability_CAPABILITY_DRIFT) || !p.client.can(providerv1.Capability_CAPABILITY_DRIFT_BATCH) {
		return 0
	}
	if n := p.known.Limits.Drift; n > 0 {
		return min(n, driftBatchMost)
	}
	return driftBatchUsual
}

// DriftedOf asks about some instances of a class.
func (p *Provider) DriftedOf(ctx context.Context, ref cloud.ClassRef, instanceIDs []string) (map[string]cloud.Drift, error) {
	response, err := p.drift(ctx, ref, instanceIDs)
	if err != nil {
		return nil, fmt.Errorf("drift of %d instances: %w", len(instanceIDs), err)
	}
	all, err := drifts(response, instanceIDs)
	if err != nil {
		return nil, p.client.broke(RuleDrift, err)
	}
	return all, nil
}

// drift makes one call. The error is gRPC's own if it has the code NOT_FOUND.
func (p *Provider) drift(ctx context.Context, ref cloud.ClassRef, instanceIDs []string) (*providerv1.DriftResponse, error) {
	class, err := p.Class(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := p.client.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.Drift)
	defer cancel()
	response, err := p.client.rpc.Drift(ctx, &providerv1.DriftRequest{Class: class, Ids: instanceIDs})
	p.client.called("Drift", err)
	if err == nil {
		return response, nil
	}
	if status.Code(err) == codes.NotFound {
		return nil, err
	}
	if status.Code(err) == codes.Unimplemented {
		p.client.lacks(providerv1.Capability_CAPABILITY_DRIFT)
	}
	return nil, plain("Drift", err)
}

// drifts reads an answer about instances. An ID that the answer does not have is not in what is returned.
func drifts(in *providerv1.DriftResponse, asked []string) (map[string]cloud.Drift, error) {
	waiting := make(map[string]bool, len(asked))
	for _, id := range asked {
		waiting[id] = true
	}
	all := make(map[string]cloud.Drift, len(asked))
	add := func(id string, answer cloud.Drift) error {
		if !waiting[id] {
			return fmt.Errorf("answer of Drift: instance %s is there twice, or nobody asked about it", wire.Text(id))
		}
		waiting[id], all[id] = false, answer
		return nil
	}
	for id, reason := range in.GetReasons() {
		if !wire.IsReason(reason) {
			return nil, fmt.Errorf("answer of Drift: %q cannot be the reason of a condition", wire.Text(reason))
		}
		if err := add(id, cloud.Drift{Reason: reason}); err != nil {
			return nil, err
		}
	}
	for _, id := range in.GetNotFound() {
		if err := add(id, cloud.Drift{Err: fmt.Errorf("drift of %s: %w", id, cloud.ErrNotFound)}); err != nil {
			return nil, err
		}
	}
	for _, id := range in.GetNotDrifted() {
		if err := add(id, cloud.Drift{}); err != nil {
			return nil, err
		}
	}
	return all, nil
}
