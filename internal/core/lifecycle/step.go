package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// Act is one thing to do to the world.
type Act string

// The acts. Wait is to do nothing.
const (
	Wait            Act = ""
	AddFinalizer    Act = "add finalizer"
	Launch          Act = "launch"
	RecordLaunch    Act = "record launch"
	RecordAccepted  Act = "record accepted launch"
	FollowLaunch    Act = "follow launch"
	RegisterNode    Act = "register node"
	InitialiseNode  Act = "initialise node"
	DeleteClaim     Act = "delete claim"
	SetDeadline     Act = "set deadline"
	ClearDeadline   Act = "clear deadline"
	DeleteNodes     Act = "delete nodes"
	AskInstance     Act = "ask for instance"
	TaintNode       Act = "taint node"
	Terminate       Act = "terminate instance"
	RemoveFinalizer Act = "remove finalizer"
)

// The acts of a reboot. FailReboot gives the claim up, EndReboot keeps it.
const (
	RecordBootID     Act = "record boot id"
	AskReboot        Act = "reboot instance"
	UninitialiseNode Act = "uninitialise node"
	UntaintNode      Act = "untaint node"
	EndReboot        Act = "end reboot"
	FailReboot       Act = "fail reboot"
)

// Reasons for deleting a claim. They are label values of published metrics.
const (
	ReasonNoCapacity          = "insufficient_capacity"
	ReasonClassNotReady       = "nodeclass_not_ready"
	ReasonLaunchTimeout       = "launch_timeout"
	ReasonRegistrationTimeout = "registration_timeout"
	ReasonExpired             = "expired"
	ReasonUnhealthy           = "unhealthy"
)

// ReasonAwaiting is the reason of conditions of which nothing is known yet.
const ReasonAwaiting = "AwaitingReconciliation"

// ReasonAccepted is the reason for which a claim is not launched while the cloud works on its launch.
const ReasonAccepted = "LaunchAccepted"

// ReasonNodeRebooting is the reason for which a claim is not initialized while its instance is rebooted.
const ReasonNodeRebooting = "Rebooting"

const nodeRebooting = "node is rebooting"

// Step is the answer to one look. First Notes are written, then Act is done, then a new
// look is taken; when Act is Wait, not before Until or before something changes.
type Step struct {
	Notes []Note
	Act   Act
	// Node is that of RegisterNode and InitialiseNode.
	Node string
	// Reason is DeleteClaim's, and says how a reboot ended.
	Reason string
	// Deadline is SetDeadline's, and when a reboot gives up what is still to be evicted.
	Deadline time.Time
	// Why says what a wait is for, or why a reboot fails, in words; empty: there is nothing to wait for.
	Why string
	// Blocked are the things that a wait has been for too long, each with its name.
	Blocked []Blocker
	// Until is when to look again though nothing has changed; zero: never.
	Until time.Time
	// TaintMissing: the node joined without the taint that keeps pods away.
	TaintMissing bool
	// Evict are the pods that may be asked to leave now.
	Evict []Eviction
}

// Note is a condition that the claim should show.
type Note struct {
	Type            string
	Status          Status
	Reason, Message string
}

// Blocker is one thing that is waited for longer than usual. A person who removes it, or
// what is said of it, ends the wait.
type Blocker struct {
	// Kind and Name say what it is: "pod" and "default/web", "volume attachment" and "csi-1".
	Kind, Name string
	// Why says what keeps it; empty: it is not known.
	Why string
	// Since is when the wait for it began.
	Since time.Time
}

// Eviction is one pod that shall leave.
type Eviction struct {
	Pod cluster.PodRef
	// Force: it is deleted, because its node's deadline leaves it just the time to end.
	Force bool
	// Size is the pod's.
	Size int
}

// wait returns a step that only waits.
func wait(until time.Time, format string, args ...any) Step {
	return Step{Why: fmt.Sprintf(format, args...), Until: until}
}

// blockedBy returns the step with the names of what it waits for.
func (s Step) blockedBy(blockers ...Blocker) Step {
	s.Blocked = append(s.Blocked, blockers...)
	return s
}

// noting returns the step with a note in front.
func (s Step) noting(conditionType string, status Status, reason, message string) Step {
	s.Notes = append([]Note{{Type: conditionType, Status: status, Reason: reason, Message: message}}, s.Notes...)
	return s
}

// String returns the step as lines of text.
func (s Step) String() string {
	var b strings.Builder
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note %s\n", n)
	}
	for _, e := range s.Evict {
		verb := "evict"
		if e.Force {
			verb = "force"
		}
		fmt.Fprintf(&b, "%s %s\n", verb, e.Pod)
	}
	for _, x := range s.Blocked {
		fmt.Fprintf(&b, "blocked by %s\n", x)
	}
	if s.TaintMissing {
		b.WriteString("warn: the node joined without the unregistered taint\n")
	}
	switch {
	case s.Act != Wait:
		b.WriteString(strings.TrimSpace(fmt.Sprintf("%s %s%s", s.Act, s.Node, s.Reason)))
		if s.Why != "" {
			b.WriteString(": " + s.Why)
		}
	case s.Why != "":
		fmt.Fprintf(&b, "wait: %s", s.Why)
	default:
		b.WriteString("settled")
	}
	return b.String()
}

// BlockedText names the first few blockers, those of one reason together; empty: there
// are none.
func (s Step) BlockedText() string {
	var groups []Blocker // the names of each are joined
	names := map[Blocker][]string{}
	for _, b := range s.Blocked {
		name := b.Name
		b.Name = ""
		if len(names[b]) == 0 {
			groups = append(groups, b)
		}
		names[b] = append(names[b], name)
	}
	texts := make([]string, 0, namesMost+1)
	for i, g := range groups {
		if i == namesMost {
			texts = append(texts, fmt.Sprintf("and %d reasons more", len(groups)-namesMost))
			break
		}
		all := names[g]
		if len(all) > 1 {
			g.Kind += "s"
		}
		g.Name = listed(all)
		texts = append(texts, g.String())
	}
	return strings.Join(texts, "; ")
}

// String returns what it is, since when it is waited for, and why.
func (b Blocker) String() string {
	text := fmt.Sprintf("%s %s since %s", b.Kind, b.Name, b.Since.UTC().Format(time.RFC3339))
	if b.Why == "" {
		return text
	}
	return text + ": " + b.Why
}

// String returns Type=Status and why.
func (n Note) String() string {
	text := fmt.Sprintf("%s=%s", n.Type, n.Status)
	if n.Reason != "" {
		text += " " + n.Reason
	}
	if n.Message != "" {
		text += ": " + n.Message
	}
	return text
}
