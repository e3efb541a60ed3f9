package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// The reasons to disrupt a node, as plans have them.
const (
	Empty         = plan.Empty
	Drifted       = plan.Drifted
	Underutilized = plan.Underutilized
	Expired       = plan.Expired
	Interrupted   = plan.Interrupted
	Unhealthy     = plan.Unhealthy
)

// BudgetReasons returns those that budgets may name, and that nodes are disrupted for.
func (o *Options) BudgetReasons() []string {
	reasons := []string{Empty, Drifted, Underutilized}
	if o.Repair.On {
		reasons = append(reasons, Unhealthy)
	}
	return reasons
}

// Repair are the options for unhealthy nodes.
type Repair struct {
	// On: unhealthy nodes are repaired.
	On bool
	// CanReboot: instances can be rebooted; else their nodes are replaced, and so are those of the
	// NodeClaims Escalated, which were rebooted often enough of late.
	CanReboot bool
	Escalated []string
}

// TerminateFirst says for which reasons a node may be removed before anything is launched in its
// place, if nothing can be as long as it is there.
type TerminateFirst struct {
	Drifted, Unhealthy bool
}

// allows reports whether that is so for a reason.
func (t TerminateFirst) allows(reason string) bool {
	return t.Drifted && reason == Drifted || t.Unhealthy && reason == Unhealthy
}

// Options are what the caller sets for a decision. The zero values are the defaults.
type Options struct {
	// Grace is how long a node must have had the disruption reason before it is deleted: by then
	// every pod that was bound before has been seen.
	Grace time.Duration
	// ReplaceWithin is how long replacements may take until they are initialized; 0: ten
	// minutes.
	ReplaceWithin time.Duration
	// ProbesMax is for how many nodes one decision works out replacements; 0: 32.
	ProbesMax int
	// Terms are the operator's settings of consolidation.
	Terms consolidate.Terms
	// Events are the counts of events that the snapshot has taken in.
	Events         Events
	Repair         Repair
	TerminateFirst TerminateFirst
	// Pack are the options for assigning pods to nodes.
	Pack pack.Options
}
