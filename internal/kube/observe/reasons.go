package observe

import (
	"strings"
	"time"
	"unicode"
)

// ReasonProvisioned is the label reason of nodeclaims_created_total for a NodeClaim made
// for pending pods. One that replaces another has the reason of the disruption.
const ReasonProvisioned = "provisioned"

// Why a NodeClaim goes: label reason of nodeclaims_disrupted_total and
// pods_disruption_initiated_total.
const (
	ReasonEmpty                = "empty"
	ReasonUnderutilized        = "underutilized"
	ReasonDrifted              = "drifted"
	ReasonExpired              = "expired"
	ReasonUnhealthy            = "unhealthy"
	ReasonInsufficientCapacity = "insufficient_capacity"
	ReasonNodeClassNotReady    = "nodeclass_not_ready"
	ReasonLaunchTimeout        = "launch_timeout"
	ReasonRegistrationTimeout  = "registration_timeout"
	ReasonGarbageCollected     = "garbage_collected"
)

// What was decided about a node: label decision of voluntary_disruption_decisions_total.
const (
	DecisionDelete  = "delete"
	DecisionReplace = "replace"
	// DecisionTerminateFirst: the node goes before anything is launched for its pods.
	DecisionTerminateFirst = "terminate-first"
	// DecisionReboot: its instance is rebooted, and the node stays.
	DecisionReboot = "reboot"
)

// What pools that want balance decided about a step: label decision of consolidation_moves_total.
const (
	MoveApproved = "approved"
	MoveRejected = "rejected"
)

// Which error a cloud answered with: label error of cloudprovider_errors_total.
const (
	ErrorNotFound             = "NodeClaimNotFoundError"
	ErrorClassNotReady        = "NodeClassNotReadyError"
	ErrorInsufficientCapacity = "InsufficientCapacityError"
	errorOther                = "unknown"
)

// How pods leave a node: label termination_mode.
const (
	modeGraceful = "graceful" // no terminationGracePeriod
	modeEventual = "eventual"
	modeForceful = "forceful"
)

// TerminationMode returns the label termination_mode of a claim whose
// terminationGracePeriod is grace; nil: it has none.
func TerminationMode(grace *time.Duration) string {
	switch {
	case grace == nil:
		return modeGraceful
	case *grace <= 0:
		return modeForceful
	default:
		return modeEventual
	}
}

// PolicyLabel returns the label consolidation_policy of a consolidation policy:
// "when_empty_or_underutilized".
func PolicyLabel(policy string) string {
	var b strings.Builder
	for i, r := range policy {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ConditionLabel returns the label condition of a Node condition: disk_pressure of DiskPressure, and
// acme_broken of ACMEBroken.
func ConditionLabel(words string) string {
	var b strings.Builder
	runes := []rune(words)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
