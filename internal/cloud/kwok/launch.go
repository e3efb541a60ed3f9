package kwok

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// launchesAtOnce bounds the API requests of one call of Launch.
const launchesAtOnce = 16

// Launch makes the Nodes, or the records of Nodes that are to join later. Of the best
// offering and those of the same type at the same price, the token picks one, so that
// instances are spread over zones.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var group errgroup.Group
	group.SetLimit(launchesAtOnce)
	for i := range requests {
		group.Go(func() error {
			results[i].Instance, results[i].Err = p.launch(ctx, &requests[i])
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
	return results
}

func (p *Provider) launch(ctx context.Context, r *cloud.LaunchRequest) (cloud.Instance, error) {
	name := nodeName(r.Claim, r.Token)
	first, err := p.find(ctx, name)
	if err == nil {
		return first, nil
	}
	if !errors.Is(err, cloud.ErrNotFound) {
		return cloud.Instance{}, fmt.Errorf("launch %s: %w", r.Claim, err)
	}
	class, err := getClass(ctx, p.reader, r.Class)
	if errors.Is(err, cloud.ErrNotFound) {
		return cloud.Instance{}, &cloud.Failure{Kind: cloud.NoCapacity, Message: fmt.Sprintf("there is no node class %s", r.Class)}
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("launch %s: %w", r.Claim, err)
	}
	if err := usable(class); err != nil {
		return cloud.Instance{}, err
	}
	if len(r.Choices) == 0 {
		return cloud.Instance{}, &cloud.Failure{Kind: cloud.NoCapacity, Message: "no offerings to choose from"}
	}
	node := newNode(name, r)
	var delay time.Duration
	if d := class.Spec.NodeRegistrationDelay; d != nil {
		delay = d.Duration
	}
	instance, err := p.create(ctx, node, delay)
	if apierrors.IsAlreadyExists(err) { // the same request got here first
		instance, err = p.find(ctx, name)
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("launch %s: %w", r.Claim, err)
	}
	return instance, nil
}

// create makes the Node, or if it is to join later, its record. A Node that the API
// server refuses is an instance that runs and cannot join, so it gets a record too.
func (p *Provider) create(ctx context.Context, node *corev1.Node, delay time.Duration) (cloud.Instance, error) {
	if delay > 0 {
		return p.record(ctx, node, p.now().Add(delay))
	}
	created := node.DeepCopy()
	err := p.client.Create(ctx, created)
	if isRefusal(err) {
		p.log.Warn("node was refused by the API server", "node", node.Name, "error", err)
		return p.record(ctx, node, p.now().Add(refusedRetry))
	}
	if err != nil {
		return cloud.Instance{}, err
	}
	return p.instanceOf(created), nil
}
