package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// rebootStory is the reboot of one node:
//
//	reboot [bound=DUR] [unreadable] [starting]   it is asked for at 0s; starting: its node never was initialized
//	node [boot=ID] [notready] [gone] [deleting]  what the Node is from now on; deleting: so is its claim
//	cloud reboot=accepted|failed|refused         what the cloud answers from now on
//	pod NAME [held] [blocked] [gone]
//	restart                                      the controller forgets what it knew
//	run at=DUR                                   steps are taken and performed until one waits
type rebootStory struct {
	view    lifecycle.RebootView
	pods    map[string]*lifecycle.DrainPod
	blocked map[string]bool
	answer  lifecycle.RebootAnswerState
}

func (s *rebootStory) play(t *testing.T, d *datadriven.TestData) string {
	words := options(d)
	has := func(word string) bool { _, ok := words[word]; return ok }
	switch d.Cmd {
	case "reboot":
		*s = rebootStory{pods: map[string]*lifecycle.DrainPod{}, blocked: map[string]bool{}, answer: lifecycle.RebootAnswerAccepted}
		s.view.Claim = lifecycle.RebootClaim{
			Requested: moment(t, "0s"), Message: "rebooting for GPUReady/XID46",
			Initialized: lifecycle.Condition{Status: lifecycle.True, Since: moment(t, "0s").Add(-time.Hour)},
		}
		s.view.Node = &lifecycle.RebootNode{Name: "n1", BootID: "first", Ready: true, IsInitialized: true}
		if has("starting") {
			s.view.Claim.Initialized.Status, s.view.Node.IsInitialized = lifecycle.Unknown, false
		}
		if has("unreadable") {
			s.view.Claim.Unreadable = "annotation reboot-termination-grace-period is \"soon\""
		}
		if has("bound") {
			s.view.Claim.Bound = cluster.Bound{IsSet: true, Within: span(t, words["bound"])}
		}
	case "node":
		s.view.Claim.IsDeleting = has("deleting")
		if has("gone") {
			s.view.Node = nil
			return "ok"
		}
		s.view.Node.Ready = !has("notready")
		if has("boot") {
			s.view.Node.BootID = words["boot"]
		}
	case "cloud":
		s.answer = lifecycle.RebootAnswerState(words["reboot"])
	case "pod":
		s.setPod(d.CmdArgs[0].Key, words)
	case "restart":
		s.view.Answer, s.view.Asked = lifecycle.RebootAnswer{}, time.Time{}
	case "run":
		return s.run(t, moment(t, words["at"]))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return "ok"
}

func (s *rebootStory) setPod(name string, words map[string]string) {
	p := &lifecycle.DrainPod{PodRef: cluster.PodRef{Namespace: "ns", Name: name, UID: name}, Grace: 30 * time.Second}
	_, p.IsHeld = words["held"]
	_, s.blocked[name] = words["blocked"]
	s.pods[name] = p
	if _, gone := words["gone"]; gone {
		delete(s.pods, name)
	}
}

func (s *rebootStory) run(t *testing.T, at time.Time) string {
	var lines []string
	for range stepsMost {
		s.view.At, s.view.Pods = at, nil
		for _, name := range slices.Sorted(maps.Keys(s.pods)) {
			s.view.Pods = append(s.view.Pods, *s.pods[name])
		}
		step := lifecycle.Reboot(s.view)
		text := step.String()
		if !step.Until.IsZero() {
			text += fmt.Sprintf(" (until %s)", step.Until.Sub(time.Unix(0, 0)))
		}
		lines = append(lines, text)
		s.write(step, at)
		over := step.Act == lifecycle.EndReboot || step.Act == lifecycle.FailReboot
		if over || step.Act == lifecycle.Wait && len(step.Notes) == 0 {
			return strings.Join(lines, "\n")
		}
		s.perform(step, at)
	}
	t.Fatalf("still at work after %d steps:\n%s", stepsMost, strings.Join(lines, "\n"))
	return ""
}

func (s *rebootStory) write(step lifecycle.Step, at time.Time) {
	for _, note := range step.Notes {
		switch note.Type {
		case lifecycle.Rebooting:
			s.view.Claim.IsIssued = note.Reason == lifecycle.RebootIssued
		case lifecycle.Initialized:
			if s.view.Claim.Initialized.Status != note.Status {
				s.view.Claim.Initialized = lifecycle.Condition{Status: note.Status, Since: at}
			}
		}
	}
	for _, e := range step.Evict {
		if !s.blocked[e.Pod.Name] {
			delete(s.pods, e.Pod.Name) // its time to end is over at the next look
		}
	}
}

func (s *rebootStory) perform(step lifecycle.Step, at time.Time) {
	switch step.Act {
	case lifecycle.TaintNode:
		s.view.Node.IsTainted = true
	case lifecycle.UntaintNode:
		s.view.Node.IsTainted = false
	case lifecycle.RecordBootID:
		s.view.Claim.BootID, s.view.Claim.HasBootID = s.view.Node.BootID, true
	case lifecycle.UninitialiseNode:
		s.view.Node.IsInitialized = false
	case lifecycle.AskReboot:
		if s.view.Asked.IsZero() {
			s.view.Asked = at
		}
		s.view.Answer = lifecycle.RebootAnswer{State: s.answer, Message: "the cloud says " + string(s.answer), RetryAt: at.Add(10 * time.Second)}
	default:
	}
}
