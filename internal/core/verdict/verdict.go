// Package verdict holds the core's reasons for saying no, as values. Events, conditions,
// logs and screens all render the same verdict, so that a person reads one story
// wherever they look. The zero Verdict means yes.
package verdict

import (
	"fmt"
	"strings"
)

// Reason is the kind of a refusal. Its name is used as the reason of events.
type Reason string

// The reasons.
const (
	OK Reason = ""
	// For one pod against one node or pool.
	TaintNotTolerated    Reason = "TaintNotTolerated"
	RequirementUnmet     Reason = "RequirementUnmet"
	RequirementUndefined Reason = "RequirementUndefined"
	ResourceShort        Reason = "ResourceShort"
	// TooLarge: no instance type has as much of a resource.
	TooLarge          Reason = "TooLarge"
	HostPortTaken     Reason = "HostPortTaken"
	MinValuesUnmet    Reason = "MinValuesUnmet"
	SpreadUnmet       Reason = "SpreadUnmet"
	AffinityUnmet     Reason = "AffinityUnmet"
	AntiAffinityUnmet Reason = "AntiAffinityUnmet"
	NoOffering        Reason = "NoOffering"
	ReservationTaken  Reason = "ReservationTaken"
	SupplyUsedUp      Reason = "SupplyUsedUp"
	NoCompatibleType  Reason = "NoCompatibleInstanceTypes"
	PoolLimitReached  Reason = "PoolLimitReached"
	PoolUnready       Reason = "PoolUnready"
	// For one pod altogether.
	NoPool   Reason = "NoNodePools"
	NoPlace  Reason = "NoPlace"
	PodError Reason = "PodInvalid"
	// TooMuchEffort: a decision with the pod takes too long. DecisionFailed: it ends in a bug.
	TooMuchEffort  Reason = "DecisionTooLong"
	DecisionFailed Reason = "DecisionFailed"
	// GangUnknown: nothing is known of the pod's gang. GangIncomplete: it has too few pods.
	// GangShort: too few of its pods would have a node.
	GangUnknown    Reason = "GangUnknown"
	GangIncomplete Reason = "GangIncomplete"
	GangShort      Reason = "GangShort"
	// ScaleUpDelayed: the pod waits for a node, by its own annotation. Expendable: its priority is too
	// low for a node to be launched.
	ScaleUpDelayed Reason = "ScaleUpDelayed"
	Expendable     Reason = "Expendable"
	// For one node that is not removed.
	NodeBlocked                Reason = "DisruptionBlocked"
	BudgetExhausted            Reason = "BudgetExhausted"
	ConsolidateAfterNotElapsed Reason = "ConsolidateAfterNotElapsed"
	// Unconsolidatable: nothing is gained by removing it.
	Unconsolidatable Reason = "Unconsolidatable"
	// NoReplacement: its pods have nowhere to go.
	NoReplacement Reason = "NoReplacement"
	// PoolPaused: replacements from its pool failed a short time ago.
	PoolPaused Reason = "PoolPaused"
	// DisruptionPaused: a person has paused disruption, of the NodePool or of the cluster.
	DisruptionPaused Reason = "DisruptionPaused"
	// RepairBlocked: so many nodes are unhealthy that the cause lies elsewhere.
	RepairBlocked Reason = "NodeRepairBlocked"
	// HeldByBuffer: chunks of a capacity buffer are on it.
	HeldByBuffer Reason = "HeldByBuffer"
	// For a chunk of a capacity buffer. BufferWaits: no node is launched for it yet.
	BufferWaits Reason = "BufferWaits"
	// For a step under way.
	StepBroken Reason = "StepBroken"
)

// Verdict is one "no", and where it consists of several, those below it.
type Verdict struct {
	Reason Reason
	// Subject is the pool, node or other object that the verdict is about; may be empty.
	Subject string
	// Detail says what exactly, in words that follow the subject: "taint gpu not
	// tolerated", "200m cpu short on the largest type allowed".
	Detail string
	Causes []Verdict
}

// Of returns a verdict about a subject.
func Of(reason Reason, subject, format string, args ...any) Verdict {
	return Verdict{Reason: reason, Subject: subject, Detail: fmt.Sprintf(format, args...)}
}

// IsYes reports whether there is nothing to refuse.
func (v Verdict) IsYes() bool { return v.Reason == OK }

// About returns v with the subject it is about.
func (v Verdict) About(subject string) Verdict {
	v.Subject = subject
	return v
}

// String returns the verdict as a sentence without a full stop:
// "pool gpu: taint nvidia.com/gpu not tolerated; pool general: 200m cpu short".
func (v Verdict) String() string {
	var parts []string
	if v.Detail != "" {
		parts = append(parts, v.Detail)
	}
	for _, c := range v.Causes {
		parts = append(parts, c.String())
	}
	text := strings.Join(parts, "; ")
	switch {
	case v.Subject == "":
		return text
	case text == "":
		return v.Subject
	default:
		return v.Subject + ": " + text
	}
}
