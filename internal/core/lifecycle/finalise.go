package lifecycle

import (
	"strings"
	"time"
)

// terminatePoll is how often the cloud is asked again whether an instance is gone.
const terminatePoll = 5 * time.Second

// finalise takes a deleted claim's node and instance away, in that order, and lets the
// claim go when both are gone.
func finalise(v View) Step {
	c := &v.Claim
	if !c.HasFinalizer {
		return Step{}
	}
	if c.HasGrace && c.Deadline.IsZero() {
		return Step{Act: SetDeadline, Deadline: c.DeletedAt.Add(c.Grace)}
	}
	if v.Answer.State == AnswerPending {
		// Whatever is being launched must be known before the claim may go.
		return wait(time.Time{}, "the cloud has not answered the launch yet")
	}
	if step, leaving := removeNodes(v); leaving {
		return step
	}
	// A launch that this process knows nothing of, because it was restarted, is not waited
	// for: an instance that comes of it belongs to no claim then, and is collected.
	instance := c.ProviderID
	if instance == "" {
		instance = v.Answer.InstanceID
	}
	switch {
	case instance == "", v.Instance == InstanceGone:
		return Step{Act: RemoveFinalizer}
	case v.Instance == InstanceGoing:
		return wait(v.At.Add(terminatePoll), "instance %s is terminating", instance).
			noting(InstanceTerminating, True, "", "")
	default:
		return Step{Act: Terminate}
	}
}

// removeNodes deletes the Nodes that pods may be on and waits for their drain. A Node
// that was never registered has had no pods, and goes with its instance.
func removeNodes(v View) (step Step, leaving bool) {
	var left []string
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if v.Claim.Registered.Status != True && !n.IsRegistered && !n.HasFinalizer {
			continue
		}
		if !n.Deleting {
			return Step{Act: DeleteNodes}, true
		}
		left = append(left, n.Name)
	}
	if len(left) == 0 {
		return Step{}, false
	}
	return wait(time.Time{}, "node %s is draining", strings.Join(left, ", ")), true
}
