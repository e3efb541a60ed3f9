package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

const (
	// LaunchTimeout is how long a claim may be without an instance.
	LaunchTimeout = 5 * time.Minute
	// RegistrationTimeout is how long a claim may be without a registered Node.
	RegistrationTimeout = 15 * time.Minute
	// NamedAfter is how long a wait lasts before what is waited for is named. Most are over
	// by then, and nobody wants to read of them.
	NamedAfter = 30 * time.Second
	// answerTimeout is how long a launch is waited for that the cloud does not answer. It is
	// more than the call may take, so only a provider that hangs is given up by it.
	answerTimeout = LaunchTimeout + time.Minute
	// messageMost bounds the text of a cloud's error in a condition, in bytes.
	messageMost = 1024
)

// Next returns what to do for a claim now: launch, register and initialize while it
// lives, give up when that takes too long, end it when its time is over, and take
// everything away again when it is deleted. A claim that needs nothing gets a step that
// waits for its time to be over.
func Next(v View) Step {
	if !v.Claim.DeletedAt.IsZero() {
		return finalize(v)
	}
	step := live(v)
	// Whatever is waited for, the end comes when it is due.
	if expires := v.Claim.Expires; step.Act == Wait && !expires.IsZero() && (step.Until.IsZero() || expires.Before(step.Until)) {
		step.Until = expires
	}
	return step
}

func live(v View) Step {
	switch {
	case !v.Claim.Expires.IsZero() && !v.At.Before(v.Claim.Expires):
		return Step{Act: DeleteClaim, Reason: cmp.Or(v.Claim.Reclaimed, ReasonExpired)}
	case !v.Claim.HasFinalizer:
		// Before the launch, so that no claim goes without its instance going first.
		return Step{Act: AddFinalizer}
	case v.Claim.Launched.Status != True:
		return launch(v)
	case v.Claim.Registered.Status != True:
		return register(v)
	case v.Claim.Initialized.Status != True:
		return initialize(v)
	default:
		return Step{}
	}
}

func launch(v View) Step {
	switch v.Answer.State {
	case AnswerPending:
		if !v.At.Before(v.Answer.AskedAt.Add(answerTimeout)) {
			return Step{Act: DeleteClaim, Reason: ReasonLaunchTimeout}
		}
		step := awaitAnswer(v)
		if len(step.Blocked) > 0 {
			return step.noting(Launched, Unknown, "LaunchPending", step.BlockedText())
		}
		return step.beginning(v)
	case AnswerLaunched:
		return Step{Act: RecordLaunch}
	case AnswerAccepted:
		return accepted(v, v.Answer.InstanceID)
	case AnswerNoCapacity, AnswerClassUnfit, AnswerRefused:
		step, _ := refused(v, &v.Answer, Launched)
		return step
	case AnswerFailed:
		// The time-out is looked at only here, so that a claim that waited for a controller
		// that was away gets its one try.
		timeout := v.Claim.Launched.Since.Add(LaunchTimeout)
		if !v.At.Before(timeout) {
			return Step{Act: DeleteClaim, Reason: ReasonLaunchTimeout}
		}
		if !v.At.Before(v.Answer.RetryAt) {
			return Step{Act: Launch}
		}
		message := verdict.Cut(v.Answer.Message, messageMost)
		return wait(earliest(v.Answer.RetryAt, timeout), "the launch failed (%s) and is tried again", v.Answer.Reason).
			noting(Launched, Unknown, v.Answer.Reason, message)
	case AnswerNone:
		if v.Claim.ProvisionalID != "" { // the controller was restarted
			return accepted(v, v.Claim.ProvisionalID)
		}
		return Step{Act: Launch}.beginning(v)
	default:
		panic("lifecycle: unknown answer " + string(v.Answer.State))
	}
}

// beginning returns the step with a note that nothing is known yet of a claim that has no conditions:
// what watches conditions sees Launched become true, and how long that took.
func (s Step) beginning(v View) Step {
	if !v.Claim.IsNew {
		return s
	}
	return s.noting(Launched, Unknown, ReasonAwaiting, "object is awaiting reconciliation")
}

// awaitAnswer waits for the cloud, and names it when it is slow.
func awaitAnswer(v View) Step {
	asked := v.Answer.AskedAt
	step := wait(asked.Add(NamedAfter), "the cloud has not answered the launch yet")
	if v.At.Before(step.Until) {
		return step
	}
	step.Until = asked.Add(answerTimeout)
	return step.blockedBy(Blocker{Kind: "launch", Name: "of the instance", Since: asked, Why: "the cloud has not answered"})
}

func register(v View) Step {
	if step, failed := refused(v, &v.Follow, Registered); failed {
		return step
	}
	timeout := v.registrationTimeout()
	node, blocked := onlyNode(v, timeout)
	switch {
	case node != nil && !(node.IsRegistered && node.HasFinalizer && !node.IsUnregistered):
		missing := !node.IsRegistered && !node.IsUnregistered
		return Step{Act: RegisterNode, Node: node.Name, TaintMissing: missing}
	case node != nil:
		return Step{Node: node.Name}.noting(Registered, True, "", "")
	case !v.At.Before(timeout):
		return Step{Act: DeleteClaim, Reason: ReasonRegistrationTimeout}
	case len(v.Nodes) > 1:
		return blocked.noting(Registered, False, "MultipleNodesFound", blocked.Why)
	default:
		if every := v.Patience.Follow; every > 0 {
			next := v.nextFollow(every)
			if !v.At.Before(next) {
				return Step{Act: FollowLaunch}
			}
			blocked.Until = earliest(blocked.Until, next)
		}
		return blocked.noting(Registered, Unknown, "NodeNotFound", blocked.Why)
	}
}

// initialize has no time-out: a node that is slow to be ready may have pods already.
func initialize(v View) Step {
	node, blocked := onlyNode(v, time.Time{})
	if node == nil {
		return blocked.noting(Initialized, Unknown, "NodeNotFound", blocked.Why)
	}
	if v.Claim.IsRebooting {
		return wait(time.Time{}, nodeRebooting).noting(Initialized, Unknown, ReasonNodeRebooting, nodeRebooting)
	}
	if reason, why := notYet(&v.Claim, node); reason != "" {
		return wait(time.Time{}, "%s", why).noting(Initialized, Unknown, reason, why)
	}
	// A driver that does not come must not keep the node for ever.
	if until := v.Claim.Registered.Since.Add(RegistrationTimeout); v.At.Before(until) {
		if driver := missingDriver(&v.Claim, node); driver != "" {
			why := "driver " + driver + " has not published all its ResourceSlices on node " + node.Name + " yet"
			return wait(until, "%s", why).noting(Initialized, Unknown, "DRADriverPoolsNotPublished", why)
		}
	}
	if !node.IsInitialized {
		return Step{Act: InitialiseNode, Node: node.Name}
	}
	return Step{}.noting(Initialized, True, "", "")
}

// notYet returns the condition reason for which the node may not take pods yet, and
// what it is in words; empty: it may.
func notYet(claim *Claim, node *Node) (reason, why string) {
	if !node.Ready {
		return "NodeNotReady", "node " + node.Name + " is not ready"
	}
	for _, startup := range claim.StartupTaints {
		for _, taint := range node.Taints {
			if taint.Key == startup.Key && taint.Effect == startup.Effect {
				return "StartupTaintsExist", "node " + node.Name + " has startup taint " + taint.String()
			}
		}
	}
	if len(node.Ephemeral) > 0 {
		return "KnownEphemeralTaintsExist", "node " + node.Name + " has taint " + node.Ephemeral[0].String()
	}
	for _, name := range claim.Requests.Names() {
		if claim.Requests[name] > 0 && node.Allocatable[name] == 0 {
			return "ResourceNotRegistered", "node " + node.Name + " does not report " + name + " yet"
		}
	}
	return "", ""
}

// missingDriver returns the first driver that has not published its devices; empty: all have.
func missingDriver(claim *Claim, node *Node) string {
	for _, driver := range claim.Drivers {
		if !slices.Contains(node.Published, driver) {
			return driver
		}
	}
	return ""
}

// onlyNode returns the claim's one Node, or what to wait for. A Node that is going, and
// that we have not registered, cannot be: its API server takes no more finalizers.
func onlyNode(v View, until time.Time) (*Node, Step) {
	switch {
	case len(v.Nodes) == 0:
		return nil, wait(until, "no node has provider ID %s yet", v.Claim.ProviderID)
	case len(v.Nodes) > 1:
		return nil, wait(until, "%d nodes have provider ID %s", len(v.Nodes), v.Claim.ProviderID)
	case v.Nodes[0].Deleting && !v.Nodes[0].HasFinalizer:
		return nil, wait(until, "node %s was deleted before it registered", v.Nodes[0].Name)
	default:
		return &v.Nodes[0], Step{}
	}
}

// earliest returns the first of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// latest returns the last of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
