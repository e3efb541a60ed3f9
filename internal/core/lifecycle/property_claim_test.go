package lifecycle_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// life is one claim in a cloud that keeps tokens, and in which anything may go wrong.
type life struct {
	lifecycle.View

	instances int // launched for the claim's token, ended or not
	running   bool
	orders    int // on their way
	// late: the cloud accepts launches before it decides about them; outcome is what it has decided.
	late    bool
	outcome lifecycle.AnswerState
	done    bool
}

func newLife(t *rapid.T) *life {
	start := lifecycle.Condition{Status: lifecycle.Unknown, Since: epoch}
	l := &life{View: lifecycle.View{At: epoch, Claim: lifecycle.Claim{
		IsNew: true, Launched: start, Registered: start, Initialized: start, Requests: quantity.List{quantity.CPU: 1},
	}}}
	l.outcome = lifecycle.AnswerLaunched
	if l.late = rapid.Bool().Draw(t, "late"); l.late {
		l.outcome = lifecycle.AnswerAccepted
		l.Patience.Follow = seconds(rapid.IntRange(0, 60).Draw(t, "follow"))
	}
	if rapid.Bool().Draw(t, "expires") {
		l.Claim.Expires = epoch.Add(seconds(rapid.IntRange(1, 3000).Draw(t, "age")))
	}
	if rapid.Bool().Draw(t, "has grace") {
		l.Claim.HasGrace, l.Claim.Grace = true, seconds(rapid.IntRange(0, 100).Draw(t, "grace"))
	}
	return l
}

// happen lets one thing happen that is not ours to decide.
func (l *life) happen(t *rapid.T) {
	switch rapid.SampledFrom([]string{"time", "answer", "failure", "decision", "followed", "notice", "join", "ready", "leave", "delete", "restart"}).Draw(t, "event") {
	case "time":
		l.At = l.At.Add(seconds(rapid.IntRange(1, 400).Draw(t, "pass")))
	case "answer":
		l.answer()
	case "failure":
		if l.Answer.State == lifecycle.AnswerPending {
			l.orders = 0
			l.Answer = lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "LaunchFailed", AskedAt: l.Answer.AskedAt, RetryAt: l.At.Add(seconds(5))}
		}
	case "decision":
		if l.outcome == lifecycle.AnswerAccepted && l.instances > 0 {
			l.outcome = rapid.SampledFrom([]lifecycle.AnswerState{lifecycle.AnswerLaunched, lifecycle.AnswerNoCapacity, lifecycle.AnswerClassUnfit, lifecycle.AnswerRefused}).Draw(t, "outcome")
		}
	case "followed":
		l.followed()
	case "notice":
		if l.outcome != lifecycle.AnswerLaunched && l.outcome != lifecycle.AnswerAccepted && (l.Claim.ProvisionalID != "" || l.Claim.ProviderID != "") {
			l.Follow = lifecycle.Answer{State: l.outcome, RetryAt: l.At}
		}
	case "join":
		l.join()
	case "ready":
		l.ready()
	case "leave":
		l.leave()
	case "delete":
		if l.Claim.DeletedAt.IsZero() && rapid.IntRange(0, 3).Draw(t, "sure") == 0 {
			l.Claim.DeletedAt = l.At
		}
	case "restart":
		// What the process knew is lost. What it ordered may still arrive at the cloud.
		if l.orders > 0 && rapid.Bool().Draw(t, "arrives") {
			l.launch()
		}
		l.Answer, l.Follow, l.orders = lifecycle.Answer{}, lifecycle.Answer{}, 0
	}
}

// followed answers what has become of a launch.
func (l *life) followed() {
	if l.Follow.State == lifecycle.AnswerPending {
		l.Follow = lifecycle.Answer{State: l.outcome, AskedAt: l.Follow.AskedAt, RetryAt: l.At.Add(seconds(10))}
	}
}

func (l *life) launch() {
	if l.instances == 0 {
		l.instances, l.running = 1, true
	}
}

func (l *life) answer() {
	if l.Answer.State == lifecycle.AnswerPending {
		l.launch()
		l.orders = 0
		l.Answer = lifecycle.Answer{State: lifecycle.AnswerLaunched, InstanceID: "i-1", AskedAt: l.Answer.AskedAt}
		if l.late && l.outcome != lifecycle.AnswerLaunched {
			l.Answer.State, l.Answer.InstanceID = lifecycle.AnswerAccepted, "order-1"
		}
	}
}

func (l *life) join() {
	if l.running && len(l.Nodes) == 0 && l.Claim.ProviderID != "" && l.outcome == lifecycle.AnswerLaunched {
		l.Nodes = []lifecycle.Node{{Name: "n1", IsUnregistered: true}}
	}
}

func (l *life) ready() {
	for i := range l.Nodes {
		l.Nodes[i].Ready, l.Nodes[i].Allocatable = true, quantity.List{quantity.CPU: 1}
	}
}

// leave ends the drain of Nodes that are going.
func (l *life) leave() {
	if len(l.Nodes) > 0 && l.Nodes[0].Deleting {
		l.Nodes = nil
	}
}

// observe takes and performs one step, and returns it.
func (l *life) observe(t *rapid.T) lifecycle.Step {
	l.Instance = lifecycle.InstanceUnasked
	if (l.Claim.ProviderID != "" || l.Claim.ProvisionalID != "") && !l.running {
		l.Instance = lifecycle.InstanceGone
	}
	step := lifecycle.Next(l.View)
	l.Claim.IsNew = l.Claim.IsNew && len(step.Notes) == 0
	for _, n := range step.Notes {
		for name, c := range map[string]*lifecycle.Condition{
			lifecycle.Registered: &l.Claim.Registered, lifecycle.Initialized: &l.Claim.Initialized, lifecycle.InstanceTerminating: &l.Claim.InstanceTerminating,
		} {
			if n.Type == name && c.Status != n.Status {
				*c = lifecycle.Condition{Status: n.Status, Since: l.At}
			}
		}
	}
	c := &l.Claim
	switch step.Act {
	case lifecycle.AddFinalizer:
		c.HasFinalizer = true
	case lifecycle.Launch:
		if l.orders > 0 {
			t.Fatal("a launch is ordered while one is on its way")
		}
		if !c.HasFinalizer || !c.DeletedAt.IsZero() || c.ProviderID != "" {
			t.Fatalf("a launch is ordered for a claim that must not have one: %+v", c)
		}
		l.orders++
		l.Answer = lifecycle.Answer{State: lifecycle.AnswerPending, AskedAt: l.At}
	case lifecycle.RecordAccepted:
		c.ProvisionalID = l.Answer.InstanceID
	case lifecycle.FollowLaunch:
		if l.Follow.State == lifecycle.AnswerPending {
			t.Fatal("the cloud is asked again before it has answered")
		}
		l.Follow = lifecycle.Answer{State: lifecycle.AnswerPending, AskedAt: l.At}
	case lifecycle.RecordLaunch:
		if l.outcome != lifecycle.AnswerLaunched {
			t.Fatalf("a launch is recorded that is %s", l.outcome)
		}
		c.ProviderID, c.Launched = "i-1", lifecycle.Condition{Status: lifecycle.True, Since: l.At}
	case lifecycle.RegisterNode:
		l.Nodes[0].IsUnregistered, l.Nodes[0].IsRegistered, l.Nodes[0].HasFinalizer = false, true, true
	case lifecycle.InitialiseNode:
		l.Nodes[0].IsInitialized = true
	case lifecycle.DeleteClaim:
		c.DeletedAt = l.At
		l.done = !c.HasFinalizer
	case lifecycle.SetDeadline:
		c.Deadline = step.Deadline
	case lifecycle.DeleteNodes:
		l.Nodes[0].Deleting = true
	case lifecycle.Terminate:
		if len(l.Nodes) > 0 && l.Nodes[0].IsRegistered {
			t.Fatal("the instance of a Node that may have pods is terminated")
		}
		l.running, l.Nodes = false, nil
		l.Instance = lifecycle.InstanceGone
		if c.ProviderID == "" && c.ProvisionalID == "" {
			c.ProvisionalID = l.Answer.InstanceID // the pass remembers what it has just asked
		}
	case lifecycle.RemoveFinalizer:
		// One that only a process knew that is gone is collected later.
		if l.running && (c.ProviderID != "" || c.ProvisionalID != "" || l.Answer.InstanceID != "") {
			t.Fatal("the claim goes and its instance stays")
		}
		l.done = true
	case lifecycle.Wait:
	default:
		t.Fatalf("nobody performs %s", step.Act)
	}
	return step
}

// finish looks until nothing is to be done. A claim must not keep its loop busy.
func (l *life) finish(t *rapid.T) lifecycle.Step {
	for range stepsMost {
		step := l.observe(t)
		if l.done || step.Act == lifecycle.Wait && (step.Why != "" || len(step.Notes) == 0) {
			return step
		}
	}
	t.Fatalf("still at work after %d steps", stepsMost)
	return lifecycle.Step{}
}

// TestClaimsNeverLaunchTwiceAndAlwaysEnd lets anything happen to a claim, in any order.
// Then the faults stop and it is deleted: it must go, and its instance with it.
func TestClaimsNeverLaunchTwiceAndAlwaysEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			l.happen(t)
			if l.done || l.Claim.DeletedAt.Equal(l.At) && !l.Claim.HasFinalizer {
				return
			}
			step := l.finish(t)
			if l.done {
				return
			}
			if lives := l.Claim.DeletedAt.IsZero(); lives && step.Why == "" && l.Claim.Initialized.Status != lifecycle.True {
				t.Fatalf("neither initialized nor waiting for anything: %+v", l.View)
			}
			if at := step.Until; !at.IsZero() && !at.After(l.At) {
				t.Fatalf("waits for %s, which is over: %s", at, step)
			}
		}
		if l.Claim.DeletedAt.IsZero() {
			l.Claim.DeletedAt = l.At
		}
		for range 20 {
			l.answer()
			l.followed()
			if l.finish(t); l.done || !l.Claim.HasFinalizer {
				return
			}
			l.leave()
			l.At = l.At.Add(time.Minute)
		}
		t.Fatalf("the claim does not go: %+v", l.View)
	})
}
