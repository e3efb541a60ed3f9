package lifecycle

import (
	"cmp"
	"strings"
	"time"
)

const (
	// terminatePoll is how often the cloud is asked again whether an instance is gone.
	terminatePoll = 5 * time.Second
	// instanceNamedAfter is how long an instance may take to end before it is named.
	instanceNamedAfter = 10 * time.Minute
)

// finalize takes a deleted claim's node and instance away, in that order, and lets the
// claim go when both are gone.
func finalize(v View) Step {
	c := &v.Claim
	if !c.HasFinalizer {
		return Step{}
	}
	if c.HasGrace && c.Deadline.IsZero() {
		return Step{Act: SetDeadline, Deadline: c.DeletedAt.Add(c.Grace)}
	}
	if v.Answer.State == AnswerPending && v.At.Before(v.Answer.AskedAt.Add(answerTimeout)) {
		// Whatever is being launched should be known before the claim may go. What a provider
		// that hangs may still launch is collected later.
		return awaitAnswer(v)
	}
	if step, deleting := removeNodes(v); deleting {
		return step
	}
	// A launch that this process knows nothing of, because it was restarted, is not waited
	// for: an instance that comes of it belongs to no claim then, and is collected.
	instance := cmp.Or(c.ProviderID, c.ProvisionalID, v.Answer.InstanceID)
	switch {
	case instance == "", v.Instance == InstanceGone:
		return Step{Act: RemoveFinalizer}
	case v.Instance == InstanceGoing:
		return awaitInstance(v.At, instance, c.InstanceTerminating)
	default:
		return Step{Act: Terminate}
	}
}

// awaitInstance waits until the cloud says that the instance is gone, and names it when
// that takes long.
func awaitInstance(at time.Time, instance string, terminating Condition) Step {
	step := wait(at.Add(terminatePoll), "instance %s is terminating", instance).noting(InstanceTerminating, True, "", "")
	if terminating.Status != True || at.Before(terminating.Since.Add(instanceNamedAfter)) {
		return step
	}
	return step.blockedBy(Blocker{Kind: "instance", Name: instance, Since: terminating.Since, Why: "the cloud has not ended it"})
}

// removeNodes deletes the Nodes that pods may be on and waits for their drain. A Node
// that was never registered has had no pods, and goes with its instance.
func removeNodes(v View) (step Step, deleting bool) {
	var left []string
	var kept []Blocker
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if v.Claim.Registered.Status != True && !n.IsRegistered && !n.HasFinalizer {
			continue
		}
		if !n.Deleting {
			return Step{Act: DeleteNodes}, true
		}
		left = append(left, n.Name)
		if !n.HasFinalizer && len(n.Finalizers) > 0 {
			kept = append(kept, Blocker{
				Kind: "node", Name: n.Name, Since: v.Claim.DeletedAt, Why: "it has finalizer " + strings.Join(n.Finalizers, ", "),
			})
		}
	}
	if len(left) == 0 {
		return Step{}, false
	}
	step = wait(time.Time{}, "node %s is draining", strings.Join(left, ", ")).blockedBy(kept...)
	if len(kept) > 0 {
		// The drain is over and the instance ended: only the object is left.
		step = step.noting(InstanceTerminating, True, "", step.BlockedText())
	}
	return step, true
}
