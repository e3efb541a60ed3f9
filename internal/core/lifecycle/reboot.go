package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

const (
	// RebootAskTimeout is for how long a reboot is asked for that the cloud does not accept.
	RebootAskTimeout = 5 * time.Minute
	// RebootTimeout is how long a node may take to come back from its reboot.
	RebootTimeout = 20 * time.Minute
	// rebootPoll is how often a reboot looks whether its pods have gone.
	rebootPoll = time.Second
)

// Rebooting is the type of the condition that says how far a reboot has come.
const Rebooting = "Rebooting"

// The reasons of the condition Rebooting, which is True with the first two.
const (
	RebootRequested = "RebootRequested"
	RebootIssued    = "RebootIssued"
	RebootSucceeded = "RebootSucceeded"
	RebootFailed    = "RebootFailed"
)

// RebootView is one claim whose instance is rebooted, at one instant.
type RebootView struct {
	At    time.Time
	Claim RebootClaim
	// Node is nil if there is none, or none that is known.
	Node *RebootNode
	// Pods are those on the node that are evicted before.
	Pods []DrainPod
	// Answer is what the cloud said, and Asked since when it is asked; zero: it was not.
	Answer RebootAnswer
	Asked  time.Time
}

// RebootClaim is what a reboot depends on of a NodeClaim.
type RebootClaim struct {
	IsDeleting bool
	// Requested is when the reboot was asked for. IsIssued: the cloud has accepted it.
	Requested time.Time
	IsIssued  bool
	// Message is the condition's.
	Message string
	// Bound is how long the drain may take; not set: as long as it takes. Unreadable says why it
	// cannot be read.
	Bound      cluster.Bound
	Unreadable string
	// BootID is what the node had before, if HasBootID: it is written down.
	BootID      string
	HasBootID   bool
	Initialized Condition
}

// RebootNode is what a reboot depends on of a Node.
type RebootNode struct {
	Name   string
	BootID string
	Ready  bool
	// IsTainted: pods are kept from it. IsInitialized: its label says so.
	IsTainted, IsInitialized bool
}

// RebootAnswer is what the cloud said to a reboot, as far as this process knows.
type RebootAnswer struct {
	State RebootAnswerState
	// Message says why there is no reboot.
	Message string
	// RetryAt is when to ask again after RebootAnswerFailed.
	RetryAt time.Time
}

// RebootAnswerState is how far the cloud has come with a reboot.
type RebootAnswerState string

// The states of an answer.
const (
	RebootAnswerNone     RebootAnswerState = ""
	RebootAnswerAccepted RebootAnswerState = "accepted"
	// RebootAnswerFailed: the cloud could not be asked, or could not do it now.
	RebootAnswerFailed RebootAnswerState = "failed"
	// RebootAnswerRefused: asking again would not help.
	RebootAnswerRefused RebootAnswerState = "refused"
)

// Reboot returns what to do for a claim whose instance is to be rebooted: keep new pods from its
// node, let the pods leave that can within the bound, ask the cloud, and wait until the node is back.
// Pods that stay are on the node through the reboot. If it fails, the claim is deleted.
func Reboot(v RebootView) Step {
	c := &v.Claim
	switch why := v.failure(); {
	case c.IsDeleting:
		return Step{} // its termination goes on
	case c.Unreadable != "":
		return v.keep()
	case why != "":
		return Step{Act: FailReboot, Why: why, Reason: v.result()}
	case c.IsIssued:
		return v.comeBack()
	default:
		return v.ask()
	}
}

// keep ends a reboot that nobody can carry out as it was asked for. The node stays.
func (v *RebootView) keep() Step {
	if v.Node != nil && v.Node.IsTainted {
		return Step{Act: UntaintNode}
	}
	return Step{Act: EndReboot, Reason: RebootFailed, Why: v.Claim.Unreadable}
}

// drained is when the drain ends, whoever is left; zero: it ends when nobody is.
func (v *RebootView) drained() time.Time {
	if !v.Claim.Bound.IsSet {
		return time.Time{}
	}
	if v.Claim.Bound.Within == 0 {
		return v.Claim.Requested
	}
	return v.Claim.Requested.Add(max(v.Claim.Bound.Within, minDrainTime))
}

// failure returns why the reboot has failed; empty: it has not.
func (v *RebootView) failure() string {
	switch {
	case v.Node == nil && !v.At.Before(latest(v.drained(), v.Claim.Requested.Add(minDrainTime))):
		return "the node is gone"
	case v.Claim.IsIssued && !v.isBack() && !v.At.Before(v.AwaitedSince().Add(RebootTimeout)):
		return "the node did not come back within " + RebootTimeout.String()
	case v.Claim.IsIssued || v.isRebooted():
		return ""
	case v.Answer.State == RebootAnswerRefused:
		return v.Answer.Message
	case !v.Asked.IsZero() && v.Answer.State != RebootAnswerAccepted && !v.At.Before(v.Asked.Add(RebootAskTimeout)):
		return "the cloud did not accept it within " + RebootAskTimeout.String() + ": " + v.Answer.Message
	default:
		return ""
	}
}

// AwaitedSince returns since when the node is to come back: since its claim is not initialized because
// it reboots. One that was not initialized before is awaited since the request or, if this process
// asked, since then.
func (v *RebootView) AwaitedSince() time.Time {
	return latest(v.Claim.Initialized.Since, latest(v.Claim.Requested, v.Asked))
}

// result returns the failure as a label value.
func (v *RebootView) result() string {
	if v.Claim.IsIssued || v.Node == nil {
		return RebootResultTimeout
	}
	return RebootResultProvider
}

// How a reboot has ended, as a label value of published metrics.
const (
	RebootResultSucceeded = "succeeded"
	RebootResultProvider  = "provider_error"
	RebootResultTimeout   = "recovery_timeout"
	RebootResultInvalid   = "invalid_request"
)

// isRebooted reports whether the node has booted since the boot that is written down.
func (v *RebootView) isRebooted() bool {
	return v.Node != nil && v.Claim.HasBootID && v.Node.BootID != "" && v.Node.BootID != v.Claim.BootID
}

// isBack reports whether the node has booted and is ready.
func (v *RebootView) isBack() bool { return v.isRebooted() && v.Node.Ready }

// ask drains the node, and asks the cloud.
func (v *RebootView) ask() Step {
	c := &v.Claim
	switch {
	case v.Node == nil:
		return wait(latest(v.drained(), c.Requested.Add(minDrainTime)), "the node is gone")
	case v.isRebooted(), v.Answer.State == RebootAnswerAccepted:
		return v.issued(Step{})
	case !v.Node.IsTainted:
		return Step{Act: TaintNode}
	}
	if step, isDraining := v.drain(); isDraining {
		return step
	}
	switch {
	case !c.HasBootID:
		return Step{Act: RecordBootID}
	case v.Answer.State == RebootAnswerFailed && v.At.Before(v.Answer.RetryAt):
		return wait(earliest(v.Answer.RetryAt, v.Asked.Add(RebootAskTimeout)), "the cloud could not reboot the instance (%s) and is asked again", v.Answer.Message)
	default:
		return Step{Act: AskReboot}
	}
}

// drain asks the pods to leave that may, as long as there is time.
func (v *RebootView) drain() (step Step, isDraining bool) {
	c := &v.Claim
	until := v.drained()
	isBounded := !until.IsZero()
	if isBounded && !v.At.Before(until) {
		return Step{}, false
	}
	if len(v.Pods) == 0 {
		if least := c.Requested.Add(minDrainTime); v.At.Before(least) {
			return wait(least, "the drain takes %s at least", minDrainTime), true
		}
		return Step{}, false
	}
	step = waitForPods(DrainView{At: v.At, Node: DrainNode{Name: v.Node.Name, DeletedAt: c.Requested}, Pods: v.Pods})
	step.Until, step.Deadline = v.At.Add(rebootPoll), until
	if isBounded {
		step.Until = earliest(step.Until, until)
	}
	return step, true
}

// issued returns the step with the notes that the cloud has accepted the reboot.
func (v *RebootView) issued(step Step) Step {
	return step.noting(Initialized, Unknown, ReasonNodeRebooting, nodeRebooting).
		noting(Rebooting, True, RebootIssued, v.Claim.Message)
}

// comeBack waits until the node has booted and is ready.
func (v *RebootView) comeBack() Step {
	timeout := v.AwaitedSince().Add(RebootTimeout)
	switch {
	case v.Node == nil:
		return wait(v.drained(), "the node is gone")
	case v.Claim.Initialized.Status != Unknown:
		return v.issued(Step{}) // it began after the cloud accepted, and was not written down
	case v.Node.IsInitialized:
		return Step{Act: UninitialiseNode}
	case v.isRebooted() && v.Node.IsTainted:
		return Step{Act: UntaintNode}
	case v.isBack():
		return Step{Act: EndReboot, Reason: RebootSucceeded}
	case v.isRebooted():
		return wait(timeout, "node %s has booted and is not ready yet", v.Node.Name)
	default:
		return wait(timeout, "node %s has not booted yet", v.Node.Name)
	}
}
