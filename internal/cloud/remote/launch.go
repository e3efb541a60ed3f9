package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// batchUsual and batchMost bound the items of one Launch call.
	batchUsual, batchMost = 100, 1000
	// offeringsMost bounds the offerings of one item; the dearest are left out.
	offeringsMost = 500
	// requestBytesMax bounds one Launch call, below what a message may have.
	requestBytesMax = 3 << 20
	// pauseMax bounds how long a provider can have launches wait that was asked too often.
	pauseMax = time.Minute
)

// asked is one launch request, its message, and where its answer goes.
type asked struct {
	request *cloud.LaunchRequest
	item    *providerv1.LaunchItem
	result  *cloud.LaunchResult
}

// Launch has the provider launch an instance for each request. Whatever is not a clear answer is an
// error that is no *cloud.Failure: the request is to be repeated with its token.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	err := p.may()
	if err == nil {
		err = p.client.ready(ctx)
	}
	if err == nil {
		err = p.paused()
	}
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	classes := map[cloud.ClassRef]*providerv1.Class{}
	var all []asked
	for i := range requests {
		item, err := p.item(ctx, &requests[i], classes)
		if err != nil {
			results[i].Err = err
			continue
		}
		all = append(all, asked{&requests[i], item, &results[i]})
	}
	var calls sync.WaitGroup
	for _, batch := range p.batches(all) {
		calls.Go(func() { p.launch(ctx, batch) })
	}
	calls.Wait()
	return results
}

// paused returns an error while the provider wants no launches.
func (p *Provider) paused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.pausedUntil.Sub(p.now()); left > 0 {
		return fmt.Errorf("Launch: the provider was asked too often and wants a pause of another %s", left.Round(time.Second))
	}
	return nil
}

// item returns the message for a request. The error is what the request is answered with.
func (p *Provider) item(ctx context.Context, r *cloud.LaunchRequest, classes map[cloud.ClassRef]*providerv1.Class) (*providerv1.LaunchItem, error) {
	class, ok := classes[r.Class]
	if !ok {
		var err error
		class, err = p.Class(ctx, r.Class)
		if errors.Is(err, cloud.ErrNotFound) {
			return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		classes[r.Class] = class
	}
	item := wire.Item(r)
	item.Class = class
	most := offeringsMost
	if n := p.known.Limits.Offerings; n > 0 {
		most = min(most, n)
	}
	for i, c := range r.Choices {
		if i == most {
			break
		}
		item.Offerings = append(item.Offerings, wire.OfferingRef(c.Type.Name, c.Offering))
	}
	return item, nil
}

// batches splits requests into calls.
func (p *Provider) batches(all []asked) (batches [][]asked) {
	most := batchUsual
	if n := p.known.Limits.Batch; n > 0 {
		most = min(n, batchMost)
	}
	start, bytes := 0, 0
	for i := range all {
		size := proto.Size(all[i].item)
		if i > start && (i-start == most || bytes+size > requestBytesMax) {
			batches = append(batches, all[start:i])
			start, bytes = i, 0
		}
		bytes += size
	}
	if start < len(all) {
		batches = append(batches, all[start:])
	}
	return batches
}

// launch makes one call. One that is too large for the provider is made in halves.
func (p *Provider) launch(ctx context.Context, batch []asked) {
	response, err := p.callLaunch(ctx, batch)
	if status.Code(err) == codes.ResourceExhausted && len(batch) > 1 {
		p.launch(ctx, batch[:len(batch)/2])
		p.launch(ctx, batch[len(batch)/2:])
		return
	}
	if err != nil {
		for _, a := range batch {
			a.result.Err = plain("Launch", err)
		}
		return
	}
	p.answer(batch, response)
}

func (p *Provider) callLaunch(ctx context.Context, batch []asked) (*providerv1.LaunchResponse, error) {
	select {
	case p.launching <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-p.launching }()
	request := &providerv1.LaunchRequest{Cluster: p.client.cluster()}
	for _, a := range batch {
		request.Items = append(request.Items, a.item)
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.Launch)
	defer cancel()
	response, err := p.client.rpc.Launch(ctx, request)
	p.client.called("Launch", err)
	return response, err
}

// answer gives each request the result of its token.
func (p *Provider) answer(batch []asked, response *providerv1.LaunchResponse) {
	byToken := map[string]*providerv1.LaunchResult{}
	twice, instances := map[string]bool{}, map[string]string{}
	for _, r := range response.GetResults() {
		if byToken[r.GetToken()] != nil {
			twice[r.GetToken()] = true
		}
		byToken[r.GetToken()] = r
		id := cmp.Or(r.GetInstance().GetId(), r.GetInstance().GetProvisionalId())
		if other, used := instances[id]; id != "" && used && other != r.GetToken() {
			twice[r.GetToken()], twice[other] = true, true
		}
		instances[id] = r.GetToken()
	}
	for _, a := range batch {
		r := byToken[a.item.GetToken()]
		switch {
		case r == nil:
			a.result.Err = errors.New("Launch: the answer has no result for the request, so it is not known whether an instance was launched")
		case twice[a.item.GetToken()]:
			a.result.Err = p.client.broke(RuleLaunch, fmt.Errorf("Launch: the answer has two results for a token, or one instance for two: %s", wire.Text(a.item.GetToken())))
		default:
			*a.result = p.result(a, r)
		}
	}
}

func (p *Provider) result(a asked, r *providerv1.LaunchResult) cloud.LaunchResult {
	if f := r.GetFailure(); f != nil {
		if f.GetKind() == providerv1.FailureKind_FAILURE_KIND_THROTTLED {
			p.pause(wire.Millis(f.GetRetryAfterMs(), pauseMax))
		}
		return cloud.LaunchResult{Err: wire.ParseFailure(f)}
	}
	if r.GetInstance() == nil {
		return cloud.LaunchResult{Err: p.client.broke(RuleLaunch, errors.New("Launch: a result has neither an instance nor a failure"))}
	}
	instance, err := p.parse(r.GetInstance())
	switch {
	case err != nil:
	case instance.Token != a.request.Token:
		err = fmt.Errorf("instance %s has the token %q, the request %q", instance.ID, instance.Token, a.request.Token)
	case instance.Claim != a.request.Claim:
		err = fmt.Errorf("instance %s is of claim %q, the request of %q", instance.ID, instance.Claim, a.request.Claim)
	}
	var short []catalog.Place
	if err == nil {
		short, err = wire.ParsePlaces(r.GetShort())
	}
	if err != nil {
		return cloud.LaunchResult{Err: p.client.broke(RuleInstance, fmt.Errorf("Launch: %w", err))}
	}
	p.accept(&instance)
	complete(&instance, a.request)
	return cloud.LaunchResult{Instance: instance, Short: short, Keep: wire.Keep(r.GetKeepMs())}
}

// complete adds the capacity that the type promises, where the provider left it out.
func complete(instance *cloud.Instance, r *cloud.LaunchRequest) {
	for _, c := range r.Choices {
		if c.Type.Name != instance.Labels[label.InstanceType] {
			continue
		}
		if len(instance.Capacity) == 0 {
			instance.Capacity = c.Type.Capacity
		}
		if len(instance.Allocatable) == 0 {
			instance.Allocatable = c.Type.Allocatable()
		}
		return
	}
}

// pause has launches wait.
func (p *Provider) pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.now().Add(d); until.After(p.pausedUntil) {
		p.pausedUntil = until
	}
}
