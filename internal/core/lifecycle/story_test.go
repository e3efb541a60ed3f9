package lifecycle_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestStories plays the files of testdata. Each is the life of one claim or one drain:
//
//	claim [grace=DUR] [startup=KEY] [expires=DUR] [driver=NAME] [launch=DUR] [registration=DUR] [follow=DUR]   a claim is created at 0s; the last three are the provider's patience
//	delete at=DUR                       somebody deletes it
//	cloud launch=STATE follow=STATE terminate=STATE  what the cloud answers from now on
//	node NAME [joined] [ready] [taint=KEY] [ephemeral=KEY] [allocatable=NAME] [published=DRIVER] [finalizer=NAME] [deleting] [drained] [gone]
//	drain [deadline=DUR] [claim=none]   a Node is deleted at 0s
//	pod NAME [daemon] [critical] [grace=DUR] [held] [blocked] [finalizer=NAME] [gone]   blocked: by a budget
//	volume NAME [gone]
//	restart                             the controller forgets what it knew
//	run at=DUR [steps=N]                steps are taken and performed until one waits, N at most
//
// The answer of run is each step in full. The files reboot_… are lives of one reboot: see rebootStory.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{}
		play := s.play
		if strings.HasPrefix(filepath.Base(path), "reboot_") {
			play = (&rebootStory{}).play
		}
		datadriven.RunTest(t, path, play)
	})
}

// story is a world of one claim or node, with a cloud that answers as the story says.
type story struct {
	view      lifecycle.View
	drain     *lifecycle.DrainView
	nodes     map[string]*lifecycle.Node
	pods      map[string]*lifecycle.DrainPod
	blocked   map[string]bool
	volumes   map[string]bool
	answer    lifecycle.AnswerState
	followed  lifecycle.AnswerState
	terminate lifecycle.Instance
}

// stepsMost is how many steps a look may lead to before it is taken for a bug.
const stepsMost = 20

func moment(t testing.TB, text string) time.Time {
	t.Helper()
	return time.Unix(0, 0).UTC().Add(span(t, text))
}

func span(t testing.TB, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// options returns the words of a command, each with what follows its "=".
func options(d *datadriven.TestData) map[string]string {
	words := map[string]string{}
	for _, arg := range d.CmdArgs {
		words[arg.Key] = strings.Join(arg.Vals, ",")
	}
	return words
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	words := options(d)
	has := func(word string) bool { _, ok := words[word]; return ok }
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "claim":
		*s = story{nodes: map[string]*lifecycle.Node{}, answer: lifecycle.AnswerLaunched, terminate: lifecycle.InstanceGone}
		start := lifecycle.Condition{Status: lifecycle.Unknown, Since: moment(t, "0s")}
		s.view.Claim = lifecycle.Claim{IsNew: true, Launched: start, Registered: start, Initialized: start, Requests: quantity.List{quantity.CPU: 1000}}
		if has("grace") {
			s.view.Claim.Grace, s.view.Claim.HasGrace = span(t, words["grace"]), true
		}
		if has("expires") {
			s.view.Claim.Expires, s.view.Claim.Reclaimed = moment(t, words["expires"]), words["reclaimed"]
		}
		for word, patience := range map[string]*time.Duration{"launch": &s.view.Patience.Launch, "registration": &s.view.Patience.Registration, "follow": &s.view.Patience.Follow} {
			if has(word) {
				*patience = span(t, words[word])
			}
		}
		if has("driver") {
			s.view.Claim.Drivers = []string{words["driver"]}
		}
		if has("startup") {
			s.view.Claim.StartupTaints = []cluster.Taint{{Key: words["startup"], Effect: cluster.NoSchedule}}
		}
	case "drain":
		*s = story{pods: map[string]*lifecycle.DrainPod{}, blocked: map[string]bool{}, volumes: map[string]bool{}, terminate: lifecycle.InstanceGone}
		s.drain = &lifecycle.DrainView{Node: lifecycle.DrainNode{Name: "n1", Instance: "i-1", Ready: !has("notready"), DeletedAt: moment(t, "0s")}}
		if words["claim"] != "none" {
			s.drain.Claim = &lifecycle.DrainClaim{}
		}
		if has("deadline") {
			s.drain.Claim.Deadline = moment(t, words["deadline"])
		}
	case "delete":
		s.view.Claim.DeletedAt = moment(t, words["at"])
	case "cloud":
		if has("launch") {
			s.answer = lifecycle.AnswerState(strings.ReplaceAll(words["launch"], "-", " "))
		}
		if has("follow") {
			s.followed = lifecycle.AnswerState(strings.ReplaceAll(words["follow"], "-", " "))
			if s.view.Follow.State == lifecycle.AnswerPending || words["follow"] == "refused" {
				s.view.Follow = s.asked(s.view.At)
			}
		}
		if has("terminate") {
			s.terminate = lifecycle.Instance(words["terminate"])
		}
		if s.view.Answer.State == lifecycle.AnswerPending {
			s.view.Answer = s.answered(s.view.At)
		}
	case "restart":
		s.view.Answer, s.view.Follow = lifecycle.Answer{}, lifecycle.Answer{}
	case "node":
		s.setNode(name, words)
	case "pod":
		s.setPod(t, name, words)
	case "volume":
		s.volumes[name] = !has("gone")
	case "run":
		most := stepsMost
		if has("steps") {
			d.ScanArgs(t, "steps", &most)
		}
		return s.run(t, moment(t, words["at"]), most)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return "ok"
}

func (s *story) setNode(name string, words map[string]string) {
	n := &lifecycle.Node{Name: name}
	if had, ok := s.nodes[name]; ok {
		n = had
	}
	n.Taints, n.Ephemeral = nil, nil
	for word, value := range words {
		taint := cluster.Taint{Key: value, Effect: cluster.NoSchedule}
		switch word {
		case "joined":
			n.IsUnregistered = true
		case "ready":
			n.Ready = true
		case "taint":
			n.Taints = append(n.Taints, taint)
		case "ephemeral":
			n.Ephemeral = append(n.Ephemeral, taint)
		case "allocatable":
			n.Allocatable = quantity.List{value: 1}
		case "published":
			n.Published = append(n.Published, value)
		case "deleting":
			n.Deleting = true
		case "drained":
			n.HasFinalizer = false
		case "finalizer":
			n.Finalizers = []string{value}
		}
	}
	s.nodes[name] = n
	if _, gone := words["gone"]; gone {
		delete(s.nodes, name)
	}
}

func (s *story) setPod(t *testing.T, name string, words map[string]string) {
	p := &lifecycle.DrainPod{PodRef: cluster.PodRef{Namespace: "ns", Name: name, UID: name}, Grace: 30 * time.Second}
	_, p.IsDaemon = words["daemon"]
	_, p.IsCritical = words["critical"]
	if _, p.IsHeld = words["held"]; p.IsHeld {
		p.BlockedBy = "annotation do-not-disrupt"
	}
	if _, blocked := words["blocked"]; blocked {
		p.BlockedBy = "disruption budget web"
	}
	if finalizer, has := words["finalizer"]; has {
		p.Finalizers = []string{finalizer}
	}
	if grace, has := words["grace"]; has {
		p.Grace = span(t, grace)
	}
	if had := s.pods[name]; had != nil {
		p.DeletedAt = had.DeletedAt
	}
	s.pods[name] = p
	_, s.blocked[name] = words["blocked"]
	if _, gone := words["gone"]; gone {
		delete(s.pods, name)
	}
}

// run takes steps until one waits. A story in which nothing ever waits is a bug.
func (s *story) run(t *testing.T, at time.Time, most int) string {
	var lines []string
	s.view.Instance = lifecycle.InstanceUnasked
	if s.drain != nil {
		s.drain.Instance = lifecycle.InstanceUnasked
	}
	for range most {
		step := s.observe(at)
		text := step.String()
		if !step.Until.IsZero() {
			text += fmt.Sprintf(" (until %s)", step.Until.Sub(time.Unix(0, 0)))
		}
		if !step.Deadline.IsZero() {
			text += fmt.Sprintf(" to %s", step.Deadline.Sub(time.Unix(0, 0)))
		}
		lines = append(lines, text)
		s.write(step, at)
		if step.Act == lifecycle.Wait && (step.Why != "" || len(step.Notes) == 0) || step.Act == lifecycle.RemoveFinalizer {
			return strings.Join(lines, "\n")
		}
		s.perform(step, at)
	}
	if most == stepsMost {
		t.Fatalf("still at work after %d steps:\n%s", most, strings.Join(lines, "\n"))
	}
	return strings.Join(lines, "\n") + "\n(cut off)"
}

func (s *story) observe(at time.Time) lifecycle.Step {
	if s.drain == nil {
		s.view.At, s.view.Nodes = at, nil
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			s.view.Nodes = append(s.view.Nodes, *s.nodes[name])
		}
		return lifecycle.Next(s.view)
	}
	s.drain.At, s.drain.Pods, s.drain.Volumes = at, nil, nil
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		s.drain.Pods = append(s.drain.Pods, *s.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		if s.volumes[name] {
			s.drain.Volumes = append(s.drain.Volumes, name)
		}
	}
	return lifecycle.Drain(*s.drain)
}

func (s *story) write(step lifecycle.Step, at time.Time) {
	conditions := map[string]*lifecycle.Condition{
		lifecycle.Launched: &s.view.Claim.Launched, lifecycle.Registered: &s.view.Claim.Registered,
		lifecycle.Initialized: &s.view.Claim.Initialized, lifecycle.InstanceTerminating: &s.view.Claim.InstanceTerminating,
	}
	if s.drain != nil && s.drain.Claim != nil {
		conditions[lifecycle.Drained] = &s.drain.Claim.Drained
		conditions[lifecycle.VolumesDetached] = &s.drain.Claim.VolumesDetached
		conditions[lifecycle.InstanceTerminating] = &s.drain.Claim.InstanceTerminating
	}
	s.view.Claim.IsNew = s.view.Claim.IsNew && len(step.Notes) == 0
	for _, note := range step.Notes {
		if c := conditions[note.Type]; c != nil && c.Status != note.Status {
			*c = lifecycle.Condition{Status: note.Status, Since: at}
		}
	}
	for _, e := range step.Evict {
		p := s.pods[e.Pod.Name]
		switch {
		case e.Force:
			p.DeletedAt = s.drain.Claim.Deadline
		case !s.blocked[e.Pod.Name]:
			p.DeletedAt = at.Add(p.Grace)
		}
	}
}

func (s *story) answered(at time.Time) lifecycle.Answer {
	a := lifecycle.Answer{State: s.answer, AskedAt: at}
	switch s.answer {
	case lifecycle.AnswerLaunched:
		a.InstanceID = "i-1"
	case lifecycle.AnswerAccepted:
		a.InstanceID = "order-1"
	case lifecycle.AnswerFailed:
		a.Reason, a.Message, a.RetryAt = "LaunchFailed", "the cloud is away", at.Add(time.Minute)
	default:
	}
	return a
}

// asked returns what the cloud says of a launch that it had accepted.
func (s *story) asked(at time.Time) lifecycle.Answer {
	a := lifecycle.Answer{State: s.followed, AskedAt: at, RetryAt: at.Add(10 * time.Second)}
	switch s.followed {
	case lifecycle.AnswerLaunched:
		a.InstanceID = "i-1"
	case lifecycle.AnswerRefused:
		a.Reason, a.Message = "BadTemplate", "there is no such image"
	default:
	}
	return a
}

func (s *story) perform(step lifecycle.Step, at time.Time) {
	c := &s.view.Claim
	node := s.nodes[step.Node]
	switch step.Act {
	case lifecycle.AddFinalizer:
		c.HasFinalizer = true
	case lifecycle.Launch:
		s.view.Answer = s.answered(at)
	case lifecycle.RecordAccepted:
		c.ProvisionalID = s.view.Answer.InstanceID
	case lifecycle.FollowLaunch:
		s.view.Follow = s.asked(at)
	case lifecycle.RecordLaunch:
		c.ProviderID = "i-1"
		c.Launched = lifecycle.Condition{Status: lifecycle.True, Since: at}
	case lifecycle.RegisterNode:
		node.HasFinalizer, node.IsRegistered, node.IsUnregistered = true, true, false
	case lifecycle.InitialiseNode:
		node.IsInitialized = true
	case lifecycle.DeleteClaim:
		c.DeletedAt = at
		if s.drain != nil {
			s.drain.Claim.IsDeleting = true
		}
	case lifecycle.SetDeadline:
		c.Deadline = step.Deadline
	case lifecycle.ClearDeadline:
		c.Deadline = time.Time{}
	case lifecycle.DeleteNodes:
		for _, n := range s.nodes {
			n.Deleting = true
		}
	case lifecycle.AskInstance:
		s.drain.Instance = lifecycle.InstanceThere
		if s.terminate == lifecycle.InstanceGone {
			s.drain.Instance = lifecycle.InstanceGone
		}
	case lifecycle.TaintNode:
		s.drain.Node.IsTainted = true
	case lifecycle.Terminate:
		s.view.Instance = s.terminate
		if s.drain != nil {
			s.drain.Instance = s.terminate
		}
	default:
	}
}
