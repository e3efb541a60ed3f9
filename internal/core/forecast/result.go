package forecast

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// The defaults of Options.
const (
	StartDefault   = time.Minute
	DrainDefault   = 30 * time.Second
	HorizonDefault = 24 * time.Hour
	roundsDefault  = 4000
)

// Options are what the caller sets. The zero values are the defaults.
type Options struct {
	// Pack are the options for assigning pods, Disrupt those of disruption but for Pack and Events.
	Pack    pack.Options
	Disrupt disrupt.Options
	// BudgetsAt returns the budgets of a NodePool at an instant, and when one of them next becomes active or
	// ceases to be (zero: not known); nil: they are always as in the snapshot.
	BudgetsAt func(pool string, at time.Time) (budgets []cluster.Budget, changes time.Time)
	// Start is how long it takes from a launch until the node is initialized; 0: a minute. Drain is how
	// long it takes from the deletion of a node until its pods have ended and it is gone; 0: half a minute.
	Start, Drain time.Duration
	// Horizon is how far it is looked ahead; 0: a day.
	Horizon time.Duration
	// Stop is asked before each round whether to stop; nil: never.
	Stop func() bool
}

func (o Options) complete() Options {
	if o.Start == 0 {
		o.Start = StartDefault
	}
	if o.Drain == 0 {
		o.Drain = DrainDefault
	}
	if o.Horizon == 0 {
		o.Horizon = HorizonDefault
	}
	o.Disrupt.Pack = o.Pack
	return o
}

// How a forecast ended.
const (
	EndDone    = "done"    // nothing is left to be done
	EndHorizon = "horizon" // what comes next is further ahead than was asked for
	EndStopped = "stopped" // the caller stopped it
	EndRounds  = "rounds"  // it took too many decisions
)

// Result is what becomes of a cluster.
type Result struct {
	// Rest is the cluster at the end.
	Rest *cluster.Snapshot
	// Steps are what was done, in order.
	Steps []Step
	// Refusals are the pods that nothing can take at the end.
	Refusals []plan.Refusal
	// Stays says why nodes stayed that would be removed otherwise, as the last decision about all said.
	Stays []verdict.Verdict
	// PeakHourly is what all nodes cost together at most, in dollars an hour.
	PeakHourly float64
	// Decisions is how many were made.
	Decisions int
	// End is how it ended.
	End string
}

// Step is a command of disruption, a launch for pending pods, or the scaling of a static pool.
type Step struct {
	At time.Time
	// Reason is the disruption reason; empty: nodes were launched for pods. Static: for a NodePool's replicas.
	Reason string
	Remove []Node
	Launch []Node
	// Evictions is how many pods go elsewhere, Assigned how many pending pods nodes were launched for.
	Evictions, Assigned int
	// DoneAt is when the last of the removed nodes was gone; zero: not yet. Undone says why it was undone.
	DoneAt time.Time
	Undone string

	id string
}

// Static is the reason of a step that brings a static pool to its number of nodes.
const Static = "Static"

// Node is a node that came or went.
type Node struct {
	Name, Pool               string
	Type, Zone, CapacityType string
	PriceHourly              float64
	HasPrice                 bool
}
