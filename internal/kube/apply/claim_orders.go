package apply

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// batchWait is how long the first order of a batch waits for others.
	batchWait = 20 * time.Millisecond
	// batchMost is how many orders go to the cloud in one call.
	batchMost = 500
	// answerKept is how long an answer is remembered that nobody has written down.
	answerKept = time.Hour
	// retryFirst and retryMost are the pauses after a launch failed.
	retryFirst = time.Second
	retryMost  = time.Minute
)

// errUnanswered is the answer to a request that a provider left out.
var errUnanswered = errors.New("the provider did not answer the request")

// Orders is what was ordered from the cloud and what it answered. Nobody waits for a
// cloud here: an order is placed, and when the answer has come Answered is called. So one
// slow call holds up nothing but its own claims. Orders made at about the same time go
// out in one call.
//
// The answers are remembered because the cache of claims may be older than our own
// writes. A restart forgets them, and the launch token finds the instance again.
type Orders struct {
	Cloud cloud.Provider
	Now   func() time.Time
	// Answered is called with the name of each claim whose order was answered.
	Answered func(claim string)
	// Short gets the offerings that had no capacity, and for how long not to use them; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
	// Later has something done after a pause, by another goroutine; nil: by a new one.
	Later func(pause time.Duration, do func())

	mu      sync.Mutex
	orders  map[string]*order // guarded by mu; by token
	waiting []cloud.LaunchRequest
}

type order struct {
	claim    string
	placed   time.Time
	pending  bool
	attempts int
	result   cloud.LaunchResult
	retryAt  time.Time
}

// Place orders an instance, unless one with this token is ordered or has come already.
// Build makes the request; it may take its time. The order lives as long as ctx, and no
// longer than a launch may take.
func (o *Orders) Place(ctx context.Context, token, claim string, build func(context.Context) (cloud.LaunchRequest, error)) {
	now := o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.orders == nil {
		o.orders = map[string]*order{}
	}
	o.forgetOld(now)
	had := o.orders[token]
	if had != nil && (had.pending || had.result.Err == nil) {
		return
	}
	if had == nil {
		had = &order{claim: claim}
		o.orders[token] = had
	}
	had.pending, had.placed = true, now
	o.later(0, func() {
		soon, cancel := context.WithTimeout(ctx, lifecycle.LaunchTimeout)
		defer cancel()
		request, err := build(soon)
		if err != nil {
			o.resolve(token, cloud.LaunchResult{Err: err})
			return
		}
		o.enqueue(ctx, request)
	})
}

func (o *Orders) later(pause time.Duration, do func()) {
	if o.Later != nil {
		o.Later(pause, do)
		return
	}
	time.AfterFunc(pause, do)
}

// Answer returns what the cloud said to the order with this token.
func (o *Orders) Answer(token string) (lifecycle.Answer, cloud.Instance) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := o.orders[token]
	switch {
	case had == nil:
		return lifecycle.Answer{}, cloud.Instance{}
	case had.pending:
		return lifecycle.Answer{State: lifecycle.AnswerPending, AskedAt: had.placed}, cloud.Instance{}
	case had.result.Err == nil:
		return lifecycle.Answer{State: lifecycle.AnswerLaunched, InstanceID: had.result.Instance.ID}, had.result.Instance
	default:
		return refusal(had), cloud.Instance{}
	}
}

// Forget drops an answer that was written down, or whose claim is gone.
func (o *Orders) Forget(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had := o.orders[token]; had != nil && !had.pending {
		delete(o.orders, token)
	}
}

func refusal(had *order) lifecycle.Answer {
	a := lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: string(cloud.Rejected), Message: had.result.Err.Error(), RetryAt: had.retryAt}
	var failure *cloud.Failure
	if !errors.As(had.result.Err, &failure) {
		return a
	}
	a.Message = failure.Message
	if failure.Reason != "" {
		a.Reason = failure.Reason
	}
	switch failure.Kind {
	case cloud.NoCapacity:
		a.State = lifecycle.AnswerNoCapacity
	case cloud.ClassNotReady:
		a.State = lifecycle.AnswerClassUnfit
	case cloud.Rejected:
	}
	return a
}

// enqueue adds a request to the batch that is being gathered. The first of a batch waits
// a moment for others and then sends them all; a full batch goes at once.
func (o *Orders) enqueue(ctx context.Context, request cloud.LaunchRequest) {
	o.mu.Lock()
	o.waiting = append(o.waiting, request)
	first, full := len(o.waiting) == 1, len(o.waiting) >= batchMost
	o.mu.Unlock()
	switch {
	case full:
		o.send(ctx)
	case first:
		o.later(batchWait, func() { o.send(ctx) })
	}
}

// send sends what has been gathered.
func (o *Orders) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.LaunchTimeout)
	defer cancel()
	o.mu.Lock()
	batch := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	if len(batch) == 0 {
		return // somebody else's batch was full and took all
	}
	results := o.Cloud.Launch(ctx, batch)
	for i, request := range batch {
		result := cloud.LaunchResult{Err: errUnanswered}
		if i < len(results) {
			result = results[i]
		}
		o.reportShort(&request, &result)
		o.resolve(request.Token, result)
	}
}

// shortKept is for how long a place is left alone that had nothing.
const shortKept = 3 * time.Minute

// reportShort passes on what the cloud was short of, whether or not it launched.
func (o *Orders) reportShort(request *cloud.LaunchRequest, result *cloud.LaunchResult) {
	places, keep := result.Short, result.Keep
	var failure *cloud.Failure
	failed := errors.As(result.Err, &failure)
	if failed && len(failure.Short) > 0 {
		places, keep = failure.Short, failure.Keep
	}
	if len(places) == 0 && failed && failure.Kind == cloud.NoCapacity {
		keep = failure.Keep
		for _, choice := range request.Choices {
			places = append(places, catalog.Place{Type: choice.Type.Name, Zone: choice.Offering.Zone, CapacityType: choice.Offering.CapacityType})
		}
	}
	if o.Short != nil && len(places) > 0 {
		o.Short(places, cmp.Or(keep, shortKept))
	}
}

func (o *Orders) resolve(token string, result cloud.LaunchResult) {
	now := o.Now()
	o.mu.Lock()
	had := o.orders[token]
	had.pending, had.result = false, result
	if result.Err != nil {
		had.retryAt = now.Add(min(retryMost, retryFirst<<min(had.attempts, 10)))
		had.attempts++
	}
	claim := had.claim
	o.mu.Unlock()
	if o.Answered != nil {
		o.Answered(claim)
	}
}

// forgetOld bounds the memory: by the claims of the last hour.
func (o *Orders) forgetOld(now time.Time) {
	for token, had := range o.orders {
		if !had.pending && now.Sub(had.placed) > answerKept {
			delete(o.orders, token)
		}
	}
}
