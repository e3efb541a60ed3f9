package lifecycle

import (
	"fmt"
	"regexp"
	"time"
)

const (
	// repairRetry is how often a repair is tried that would make an outage worse.
	repairRetry = 5 * time.Minute
	// sickPart is the part of some Nodes that may be sick before repair stops: one in five.
	sickPart = 5
)

// RepairPolicy says that a Node whose condition has this status for this long is broken.
type RepairPolicy struct {
	Type, Status string
	// Reason is searched for in the condition's reason, as a regular expression; empty: any will do.
	Reason     string
	Toleration time.Duration
}

// NodeCondition is what a Node says of itself under one type.
type NodeCondition struct {
	Type, Status, Reason string
	Since                time.Time
}

// RepairView is one Node and how those around it are, at one instant.
type RepairView struct {
	At         time.Time
	Conditions []NodeCondition
	Policies   []RepairPolicy
	// UnhealthyCounts are of the Nodes that the Node is one of: those of its pool or, without one, of
	// the cluster. Where too many are sick, the reason lies elsewhere and new nodes would not be better.
	UnhealthyCounts []UnhealthyCount
	// IsDeleting and Deadline are the claim's.
	IsDeleting bool
	Deadline   time.Time
	// Static is the Node's pool, if that has a fixed number of nodes; empty: it has not.
	Static string
}

// UnhealthyCount is a number of Nodes and how many of them are sick, the one in question included.
type UnhealthyCount struct {
	Name        string
	Nodes, Sick int
}

// Ailment is a condition that makes a Node broken once Due has come.
type Ailment struct {
	NodeCondition
	Due time.Time
}

// Diagnose returns the ailment that is due first. A Node that has one is sick, though it
// is broken only when it is due.
func Diagnose(conditions []NodeCondition, policies []RepairPolicy) (first Ailment, sick bool) {
	for _, c := range conditions {
		for _, p := range policies {
			if c.Type != p.Type || c.Status != p.Status {
				continue
			}
			if is, err := regexp.MatchString(p.Reason, c.Reason); err != nil || !is {
				continue
			}
			if due := c.Since.Add(p.Toleration); !sick || due.Before(first.Due) {
				first, sick = Ailment{c, due}, true
			}
		}
	}
	return first, sick
}

// TooSick reports whether so many of the Nodes are sick that repair stops: more than a fifth,
// rounded up.
func (c UnhealthyCount) TooSick() bool { return c.Sick > (c.Nodes+sickPart-1)/sickPart }

// Repair returns what to do for a Node that may be broken: wait until that is sure, set
// its claim's deadline to now, since nobody knows whether its pods still run, and delete the
// claim. Budgets and do-not-disrupt are not asked. A Node that is well gets a step that waits
// for nothing.
//
// The deadline comes first: a claim that is being deleted has it then whatever becomes of the
// Node, so the drain ends. It would end the pods of a later drain too, so a claim that lives
// and whose Node is well loses it: the deletion did not reach the API server.
func Repair(v RepairView) Step {
	a, sick := Diagnose(v.Conditions, v.Policies)
	if !sick {
		return forget(v)
	}
	why := fmt.Sprintf("condition %s is %s", a.Type, a.Status)
	if v.At.Before(a.Due) {
		return wait(a.Due, "%s, which is tolerated until %s", why, a.Due.UTC().Format(time.RFC3339))
	}
	for _, count := range v.UnhealthyCounts {
		if count.TooSick() {
			why := fmt.Sprintf("%d of %d nodes are sick, more than a fifth", count.Sick, count.Nodes)
			return wait(v.At.Add(repairRetry), "%s: %s", count.Name, why).
				blockedBy(Blocker{Kind: "repair", Name: "of " + count.Name, Since: a.Due, Why: why})
		}
	}
	switch {
	case v.Static != "" && !v.IsDeleting:
		const why = "it has a fixed number of nodes, and nothing would replace this one"
		return wait(time.Time{}, "pool %s: %s", v.Static, why).
			blockedBy(Blocker{Kind: "repair", Name: "of pool " + v.Static, Since: a.Due, Why: why})
	case v.Deadline.IsZero() || v.Deadline.After(v.At):
		return Step{Act: SetDeadline, Deadline: v.At}
	case !v.IsDeleting:
		return Step{Act: DeleteClaim, Reason: ReasonUnhealthy}
	default:
		return Step{}
	}
}

// forget takes a deadline that is over from a claim that lives.
func forget(v RepairView) Step {
	if v.IsDeleting || v.Deadline.IsZero() || v.Deadline.After(v.At) {
		return Step{}
	}
	return Step{Act: ClearDeadline}
}
