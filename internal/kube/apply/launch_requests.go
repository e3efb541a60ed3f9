package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// batchWait is how long the first request of a batch waits for others.
	batchWait = 20 * time.Millisecond
	// batchMost is how many requests go to the cloud in one call.
	batchMost = 500
	// answerKept is how long an answer is remembered that was not written on its claim.
	answerKept = time.Hour
	// retryFirst and retryMost are the pauses after a launch failed.
	retryFirst = time.Second
	retryMost  = time.Minute
)

// errUnanswered is the answer to a request that a provider left out.
var errUnanswered = errors.New("the provider did not answer the request")

// LaunchRequests sends launch requests to the cloud and remembers its answers. No caller waits
// for the cloud: Request returns at once, and Answered is called when the answer has come. So a
// slow call holds up nothing but its own claims. Requests made at about the same time go out in
// one call.
//
// The answers are remembered because the cache of claims may be older than our own
// writes. A restart forgets them, and the launch token finds the instance again.
type LaunchRequests struct {
	Cloud cloud.Provider
	Now   func() time.Time
	// Answered is called with the name of each claim whose request was answered.
	Answered func(claim string)
	// Short gets the offerings that had no capacity, and for how long not to use them; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
	// Reserved is called for each class of which a launch from a reservation was answered, so that
	// less is left of the reservation than before; may be nil.
	Reserved func(class cloud.ClassRef)
	// Refused is called with each answer that there is no instance; may be nil.
	Refused func(claim string, at time.Time, answer lifecycle.Answer)
	// Later has something done after a pause, by another goroutine; nil: by a new one.
	Later func(pause time.Duration, do func())

	mu       sync.Mutex
	requests map[string]*launchRequest // guarded by mu; by token
	waiting  []cloud.LaunchRequest
}

type launchRequest struct {
	claim    string
	since    time.Time
	pending  bool
	attempts int
	result   cloud.LaunchResult
	retryAt  time.Time
}

// Request requests an instance for a claim, unless a request with this token is under way or was
// answered with an instance. It calls build in the background, which returns the request to
// send. The request lives as long as ctx, and no longer than a launch may take.
func (l *LaunchRequests) Request(ctx context.Context, token, claim string, build func(context.Context) (cloud.LaunchRequest, error)) {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil {
		l.requests = map[string]*launchRequest{}
	}
	l.forgetOld(now)
	had := l.requests[token]
	if had != nil && (had.pending || had.result.Err == nil) {
		return
	}
	if had == nil {
		had = &launchRequest{claim: claim}
		l.requests[token] = had
	}
	had.pending, had.since = true, now
	l.later(0, func() {
		soon, cancel := context.WithTimeout(ctx, lifecycle.LaunchTimeout)
		defer cancel()
		request, err := build(soon)
		if err != nil {
			l.resolve(token, cloud.LaunchResult{Err: err})
			return
		}
		l.enqueue(ctx, request)
	})
}

func (l *LaunchRequests) later(pause time.Duration, do func()) {
	if l.Later != nil {
		l.Later(pause, do)
		return
	}
	time.AfterFunc(pause, do)
}

// Answer returns the cloud's answer to the request with this token.
func (l *LaunchRequests) Answer(token string) (lifecycle.Answer, cloud.Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.requests[token]
	switch {
	case had == nil:
		return lifecycle.Answer{}, cloud.Instance{}
	case had.pending:
		return lifecycle.Answer{State: lifecycle.AnswerPending, AskedAt: had.since}, cloud.Instance{}
	case had.result.Err == nil && had.result.Instance.Provisional:
		return lifecycle.Answer{State: lifecycle.AnswerAccepted, InstanceID: had.result.Instance.ID}, had.result.Instance
	case had.result.Err == nil:
		return lifecycle.Answer{State: lifecycle.AnswerLaunched, InstanceID: had.result.Instance.ID}, had.result.Instance
	default:
		answer := refusal(had.result.Err)
		answer.RetryAt, answer.InstanceID = had.retryAt, had.result.Instance.ID
		return answer, cloud.Instance{}
	}
}

// Forget drops an answer that was written down, or whose claim is gone.
func (l *LaunchRequests) Forget(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had := l.requests[token]; had != nil && !had.pending {
		delete(l.requests, token)
	}
}

// refusal returns the answer that an error is.
func refusal(err error) lifecycle.Answer {
	a := lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: string(cloud.Rejected), Message: err.Error()}
	var failure *cloud.Failure
	if !errors.As(err, &failure) {
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

// enqueue adds a request to the waiting batch. The first of a batch waits a moment for others and
// then sends them all; a full batch is sent at once.
func (l *LaunchRequests) enqueue(ctx context.Context, request cloud.LaunchRequest) {
	l.mu.Lock()
	l.waiting = append(l.waiting, request)
	first, full := len(l.waiting) == 1, len(l.waiting) >= batchMost
	l.mu.Unlock()
	switch {
	case full:
		l.send(ctx)
	case first:
		l.later(batchWait, func() { l.send(ctx) })
	}
}

// send sends the waiting batch.
func (l *LaunchRequests) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lifecycle.LaunchTimeout)
	defer cancel()
	l.mu.Lock()
	batch := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return // the batch was full and is sent already
	}
	results := l.Cloud.Launch(ctx, batch)
	for i, request := range batch {
		result := cloud.LaunchResult{Err: errUnanswered}
		if i < len(results) {
			result = results[i]
		}
		if failure := result.Instance.Failed; result.Err == nil && failure != nil { // the launch was asked for before
			result.Err = lateFailure(failure, result.Instance.Labels)
		}
		l.reportShort(&request, &result)
		if l.Reserved != nil && slices.ContainsFunc(request.Choices, func(c catalog.Choice) bool { return c.Offering.Reservation != "" }) {
			l.Reserved(request.Class)
		}
		l.resolve(request.Token, result)
	}
}

// shortKept is for how long an offering that had no capacity is avoided.
const shortKept = 3 * time.Minute

// reportShort passes on which offerings had no capacity, whether or not an instance was launched.
func (l *LaunchRequests) reportShort(request *cloud.LaunchRequest, result *cloud.LaunchResult) {
	places, keep := result.Short, result.Keep
	var failure *cloud.Failure
	failed := errors.As(result.Err, &failure)
	if failed && len(failure.Short) > 0 {
		places, keep = failure.Short, failure.Keep
	}
	if len(places) == 0 && failed && failure.Kind == cloud.NoCapacity {
		keep = failure.Keep
		for _, choice := range request.Choices {
			if choice.Offering.Reservation != "" { // the provider says which are short, and counts what is left
				continue
			}
			places = append(places, choice.Offering.Place(choice.Type.Name))
		}
	}
	if l.Short != nil && len(places) > 0 {
		l.Short(places, cmp.Or(keep, shortKept))
	}
}

func (l *LaunchRequests) resolve(token string, result cloud.LaunchResult) {
	now := l.Now()
	l.mu.Lock()
	had := l.requests[token]
	had.pending, had.result = false, result
	if result.Err != nil {
		had.retryAt = now.Add(min(retryMost, retryFirst<<min(had.attempts, 10)))
		had.attempts++
	}
	claim, retryAt := had.claim, had.retryAt
	l.mu.Unlock()
	if l.Refused != nil && result.Err != nil {
		answer := refusal(result.Err)
		answer.RetryAt = retryAt
		l.Refused(claim, now, answer)
	}
	if l.Answered != nil {
		l.Answered(claim)
	}
}

// forgetOld forgets old answers, which bounds the memory by the claims of the last hour.
func (l *LaunchRequests) forgetOld(now time.Time) {
	for token, had := range l.requests {
		if !had.pending && now.Sub(had.since) > answerKept {
			delete(l.requests, token)
		}
	}
}
