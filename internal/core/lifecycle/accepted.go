package lifecycle

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// ProvisionalFollow is how often the cloud is asked for the provider ID of an instance that has none yet.
const ProvisionalFollow = 10 * time.Second

// accepted waits for an instance whose launch the cloud has accepted and that it calls id: until it has a
// provider ID, or the launch fails.
func accepted(v View, id string) Step {
	if v.Claim.ProvisionalID != id {
		// Before anything else, so that the instance is found again after a crash.
		return Step{Act: RecordAccepted}
	}
	if v.Follow.State == AnswerLaunched {
		return Step{Act: RecordLaunch}
	}
	if step, failed := refused(v, &v.Follow, Launched); failed {
		return step
	}
	timeout := v.Claim.Launched.Since.Add(cmp.Or(v.Patience.Launch, LaunchTimeout))
	if v.Follow.State == AnswerPending {
		timeout = latest(timeout, v.Follow.AskedAt.Add(answerTimeout))
	}
	next := v.nextFollow(cmp.Or(v.Patience.Follow, ProvisionalFollow))
	switch {
	case !v.At.Before(next):
		// Before the time-out is looked at, so that a claim that waited for a controller that was away
		// is not given up for it.
		return Step{Act: FollowLaunch}
	case !v.At.Before(timeout):
		return Step{Act: DeleteClaim, Reason: ReasonLaunchTimeout}
	}
	step := wait(earliest(timeout, next), "the cloud has accepted the launch as %s, which has no provider ID yet", id)
	return step.noting(Launched, Unknown, ReasonAccepted, step.Why)
}

// nextFollow returns when to ask the cloud again for an instance that it is asked for every so often; while it
// has not answered that is never.
func (v *View) nextFollow(every time.Duration) time.Time {
	switch v.Follow.State {
	case AnswerPending:
		return v.At.Add(answerTimeout)
	case AnswerNone:
		return v.Claim.Launched.Since.Add(every)
	default:
		return v.Follow.RetryAt
	}
}

// refused returns what to do about a definite failure of a launch, if the cloud's answer is one. Without
// capacity, other nodes are launched for the pods at once. Any other failure would repeat itself then, so
// it is shown under the condition for as long as launches are tried again that fail at once.
func refused(v View, answer *Answer, condition string) (step Step, failed bool) {
	switch answer.State {
	case AnswerNoCapacity:
		return Step{Act: DeleteClaim, Reason: ReasonNoCapacity}, true
	case AnswerClassUnfit:
		return Step{Act: DeleteClaim, Reason: ReasonClassNotReady}, true
	case AnswerRefused:
		timeout := v.Claim.Registered.Since.Add(LaunchTimeout) // since the claim was created
		if !v.At.Before(timeout) {
			return Step{Act: DeleteClaim, Reason: ReasonLaunchTimeout}, true
		}
		step = wait(timeout, "the cloud has accepted the launch, which then failed (%s)", answer.Reason)
		return step.noting(condition, Unknown, answer.Reason, verdict.Cut(answer.Message, messageMost)), true
	default:
		return Step{}, false
	}
}

// registrationTimeout returns until when the claim's Node must have registered. It is counted from the
// claim's creation. A launch that came later than it should still leaves the node what a timely one would.
func (v *View) registrationTimeout() time.Time {
	launch, registration := cmp.Or(v.Patience.Launch, LaunchTimeout), cmp.Or(v.Patience.Registration, RegistrationTimeout)
	boot := max(registration-launch, RegistrationTimeout-LaunchTimeout)
	return latest(v.Claim.Registered.Since.Add(registration), v.Claim.Launched.Since.Add(boot))
}
