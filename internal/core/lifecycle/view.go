package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Status is a condition's. The zero Status is that of a condition that is absent.
type Status string

// The statuses.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// Condition types that steps write. They are the API's words.
const (
	Launched            = "Launched"
	Registered          = "Registered"
	Initialized         = "Initialized"
	Drained             = "Drained"
	VolumesDetached     = "VolumesDetached"
	InstanceTerminating = "InstanceTerminating"
)

// Condition is what a claim says of itself under one type.
type Condition struct {
	Status Status
	Since  time.Time
}

// View is one claim at one instant.
type View struct {
	At    time.Time
	Claim Claim
	// Nodes are those that have the claim's provider ID.
	Nodes []Node
	// Answer is what the cloud said to the claim's launch.
	Answer Answer
	// Follow is what the cloud said later of a launch that it had accepted. AskedAt and RetryAt are
	// those of the question.
	Follow Answer
	// Patience is how long launches of the claim's class may take.
	Patience Patience
	// Instance is what the cloud said in this pass of the claim's instance.
	Instance Instance
}

// Claim is what a step depends on of a NodeClaim.
type Claim struct {
	// DeletedAt is zero while the claim is to live.
	DeletedAt    time.Time
	HasFinalizer bool
	// ProviderID is the instance; empty: none is known.
	ProviderID string
	// ProvisionalID is what the cloud calls the instance of a launch that it has accepted, before the
	// instance has a provider ID; empty: none is known.
	ProvisionalID string
	// IsNew: it has no conditions yet.
	IsNew bool

	Launched, Registered, Initialized, InstanceTerminating Condition
	// IsRebooting: its instance is rebooted, so that its node is not initialized before that is over.
	IsRebooting bool

	StartupTaints []cluster.Taint
	Requests      quantity.List
	// Drivers are those that must have published their devices on the node.
	Drivers []string
	// Expires is when the claim is removed because of its age, whoever minds; zero: never.
	Expires time.Time
	// Reclaimed is why the cloud ends the node then, as a reason for DeleteClaim; empty: it
	// does not.
	Reclaimed string
	// Grace bounds the drain, if HasGrace. Deadline is when it ends; zero: not set yet,
	// or there is no bound.
	Grace    time.Duration
	HasGrace bool
	Deadline time.Time
}

// Node is what a step depends on of a Node.
type Node struct {
	Name     string
	Deleting bool
	Ready    bool
	// HasFinalizer and IsRegistered are what registration leaves, IsInitialized what
	// initialisation does.
	HasFinalizer, IsRegistered, IsInitialized bool
	// Finalizers are those of others.
	Finalizers []string
	// IsUnregistered: it carries the taint that it had to join with.
	IsUnregistered bool
	Taints         []cluster.Taint
	// Ephemeral are those of Taints that go away by themselves while a node starts.
	Ephemeral   []cluster.Taint
	Allocatable quantity.List
	// Published are the drivers that have published all their devices.
	Published []string
}

// Patience is how long the launches of a class may take. The zero value is that of most clouds.
type Patience struct {
	// Launch is how long a claim may be without an instance after its launch was accepted, and
	// Registration without a registered Node; zero: LaunchTimeout and RegistrationTimeout.
	Launch, Registration time.Duration
	// Follow is how often the cloud is asked for an instance whose Node has not registered, because its
	// launch may still fail; zero: never, once its provider ID is known.
	Follow time.Duration
}

// Answer is the cloud's to a launch, as far as this process knows: after a restart it
// knows nothing and asks again, which finds the first instance.
type Answer struct {
	State AnswerState
	// AskedAt is when the launch was ordered, while State is AnswerPending.
	AskedAt time.Time
	// InstanceID is what the cloud calls the instance; it is set when State is AnswerLaunched or
	// AnswerAccepted, and after a failure if something of the instance may be left.
	InstanceID string
	// Reason and Message say why there is no instance.
	Reason, Message string
	// RetryAt is when to ask again after AnswerFailed, and in any state of View.Follow.
	RetryAt time.Time
}

// AnswerState is how far the cloud has come with a launch.
type AnswerState string

// The states of an answer.
const (
	AnswerNone     AnswerState = ""
	AnswerPending  AnswerState = "pending"
	AnswerLaunched AnswerState = "launched"
	// AnswerAccepted: the instance is to come, and has no provider ID yet.
	AnswerAccepted   AnswerState = "accepted"
	AnswerNoCapacity AnswerState = "no capacity"
	AnswerClassUnfit AnswerState = "class not ready"
	AnswerFailed     AnswerState = "failed"
	// AnswerRefused: the launch was accepted, and the cloud will not finish it.
	AnswerRefused AnswerState = "refused"
)

// Instance is what the cloud said of an instance in this pass.
type Instance string

// The states of an instance.
const (
	InstanceUnasked Instance = ""
	InstanceThere   Instance = "there"
	InstanceGoing   Instance = "going"
	InstanceGone    Instance = "gone"
)
