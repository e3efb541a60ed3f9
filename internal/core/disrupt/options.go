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
)

// BudgetReasons returns those that budgets may name.
func BudgetReasons() []string { return []string{Empty, Drifted, Underutilized} }

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
	Events Events
	// Pack are the options for assigning pods to nodes.
	Pack pack.Options
}
