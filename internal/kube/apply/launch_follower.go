package apply

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// followMost is how long one question may take.
	followMost = time.Minute
	// lateKept and lateKeptMost are for how long an offering is avoided whose lack of capacity was learned late:
	// so many times as long as that took. In a shorter time a pod that can be launched in several places
	// without capacity would be launched in the first again before the last was tried.
	lateKept     = 10
	lateKeptMost = time.Hour
)

// LaunchFollower asks the cloud what has become of launches that it has accepted, and remembers the answers
// until they were written on the claims. No caller waits for the cloud. A restart forgets the answers, and the
// cloud is asked again.
type LaunchFollower struct {
	Now func() time.Time
	// Short gets the offerings that had no capacity, and for how long not to use them; may be nil.
	Short func(places []catalog.Place, keep time.Duration)
	// Refused and Later are those of LaunchRequests.
	Refused func(claim string, at time.Time, answer lifecycle.Answer)
	Later   func(pause time.Duration, do func())

	mu       sync.Mutex
	launches map[string]*followed // guarded by mu; by token
	answered func(claim string)   // guarded by mu
}

// FollowedLaunch is a launch that was accepted.
type FollowedLaunch struct {
	Token, Claim string
	// Created is when the claim was.
	Created time.Time
	// Labels are those of the instance, as far as they are known.
	Labels map[string]string
}

type followed struct {
	FollowedLaunch
	answer   lifecycle.Answer
	instance cloud.Instance
	// notified is the failure of a notice that does not say which offering had no capacity. The cloud is asked for it.
	notified *cloud.Failure
}

// Ask asks for an instance with get, unless that is under way or its launch has failed. An answer is asked for
// again after every.
func (f *LaunchFollower) Ask(ctx context.Context, launch FollowedLaunch, every time.Duration, get func(context.Context) (cloud.Instance, error)) {
	now := f.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	had := f.entry(launch, now)
	if had.answer.State == lifecycle.AnswerPending || isDefinite(had.answer.State) {
		return
	}
	had.answer = lifecycle.Answer{State: lifecycle.AnswerPending, AskedAt: now}
	ask := func() {
		soon, cancel := context.WithTimeout(ctx, followMost)
		defer cancel()
		instance, err := get(soon)
		f.resolve(launch, every, &instance, err)
	}
	if f.Later != nil {
		f.Later(0, ask)
		return
	}
	time.AfterFunc(0, ask)
}

// Answer returns what is known of the launch with this token.
func (f *LaunchFollower) Answer(token string) (lifecycle.Answer, cloud.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if had := f.launches[token]; had != nil {
		return had.answer, had.instance
	}
	return lifecycle.Answer{}, cloud.Instance{}
}

// Failed takes note of a launch that has failed as a notice says. The same again changes nothing.
func (f *LaunchFollower) Failed(launch FollowedLaunch, failure *cloud.Failure) {
	f.mu.Lock()
	had := f.entry(launch, f.Now())
	had.notified = failure
	labels := had.instance.Labels
	f.mu.Unlock()
	if failure.Kind == cloud.NoCapacity && len(lateFailure(failure, labels, launch.Labels).Short) == 0 {
		f.Changed(launch)
		return
	}
	f.resolve(launch, 0, &cloud.Instance{Failed: failure, Labels: labels}, nil)
}

// Changed has the cloud asked again at once.
func (f *LaunchFollower) Changed(launch FollowedLaunch) {
	f.mu.Lock()
	had := f.entry(launch, f.Now())
	if had.answer.State != lifecycle.AnswerPending && !isDefinite(had.answer.State) {
		had.answer.State, had.answer.RetryAt = lifecycle.AnswerAccepted, f.Now()
	}
	f.mu.Unlock()
	f.report(launch.Claim)
}

// OnAnswer sets what is called with the name of each claim of whose launch something new is known.
func (f *LaunchFollower) OnAnswer(answered func(claim string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = answered
}

// report calls what OnAnswer has set.
func (f *LaunchFollower) report(claim string) {
	f.mu.Lock()
	answered := f.answered
	f.mu.Unlock()
	if answered != nil {
		answered(claim)
	}
}

// Forget drops what is known of a launch that is over.
func (f *LaunchFollower) Forget(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.launches, token)
}

// entry returns what is known of a launch. The memory is bounded by the claims of the last hour.
func (f *LaunchFollower) entry(launch FollowedLaunch, now time.Time) *followed {
	if f.launches == nil {
		f.launches = map[string]*followed{}
	}
	had := f.launches[launch.Token]
	if had == nil {
		for token, other := range f.launches {
			if now.Sub(other.answer.AskedAt) > answerKept {
				delete(f.launches, token)
			}
		}
		had = &followed{FollowedLaunch: launch, answer: lifecycle.Answer{AskedAt: now}}
		f.launches[launch.Token] = had
	}
	return had
}

// isDefinite reports whether a launch has failed for good.
func isDefinite(state lifecycle.AnswerState) bool {
	return state == lifecycle.AnswerNoCapacity || state == lifecycle.AnswerClassUnfit || state == lifecycle.AnswerRefused
}

// errVanished says that an instance went before its Node had registered.
var errVanished = &cloud.Failure{Kind: cloud.Rejected, Reason: "InstanceGone", Message: "the cloud has no such instance any more"}

// resolve takes note of an answer, and of which offerings had no capacity.
func (f *LaunchFollower) resolve(launch FollowedLaunch, every time.Duration, instance *cloud.Instance, err error) {
	now := f.Now()
	failure := instance.Failed
	if errors.Is(err, cloud.ErrNotFound) {
		failure = cmp.Or(f.notified(launch.Token), errVanished)
	}
	var answer lifecycle.Answer
	switch {
	case failure != nil:
		failure = lateFailure(failure, instance.Labels, launch.Labels)
		if answer = refusal(failure); answer.State == lifecycle.AnswerFailed {
			answer.State = lifecycle.AnswerRefused
		}
	case err != nil:
		answer = refusal(err)
	case instance.Provisional:
		answer.State = lifecycle.AnswerAccepted
	default:
		answer.State = lifecycle.AnswerLaunched
	}
	answer.AskedAt, answer.RetryAt = now, now.Add(every)
	if err == nil {
		answer.InstanceID = instance.ID
	}
	f.mu.Lock()
	had := f.entry(launch, now)
	known := isDefinite(had.answer.State)
	if !known {
		had.answer, had.instance = answer, *instance
	}
	f.mu.Unlock()
	if known {
		return
	}
	if f.Refused != nil && failure != nil {
		f.Refused(launch.Claim, now, answer)
	}
	if failure != nil && len(failure.Short) > 0 && f.Short != nil {
		took := min(lateKeptMost, lateKept*now.Sub(launch.Created))
		f.Short(failure.Short, cmp.Or(failure.Keep, shortKept+max(0, took)))
	}
	f.report(launch.Claim)
}

// notified returns the failure that a notice gave for a launch; nil: there was none.
func (f *LaunchFollower) notified(token string) *cloud.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if had := f.launches[token]; had != nil {
		return had.notified
	}
	return nil
}

// lateFailure returns the failure of a launch that was accepted. If it does not say which offering had no
// capacity, that is the one that the first of several sets of labels names.
func lateFailure(failure *cloud.Failure, labels ...map[string]string) *cloud.Failure {
	if failure.Kind != cloud.NoCapacity || len(failure.Short) > 0 {
		return failure
	}
	named := *failure
	for _, l := range labels {
		place := catalog.Place{Type: l[label.InstanceType], Zone: l[label.Zone], CapacityType: l[label.CapacityType]}
		if place.Type != "" && place.CapacityType != "" && place.CapacityType != label.Reserved { // of a reservation the provider says it
			named.Short = []catalog.Place{place}
			break
		}
	}
	return &named
}
