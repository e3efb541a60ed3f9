// Package view answers what a person asks about a cluster: what it costs, which nodes there are and why
// they stay, what pods wait for, what happens next. Each answer is a function from State to a plain
// struct with JSON tags; a terminal, a browser and a pipe only draw it differently.
//
// Every figure is the core's: prices are those of cluster.Prices, what is held is what disrupt.Holds
// says, budgets are those of package budget. Money is dollars an hour, cpu millicores, memory bytes.
// Lists are sorted, and nothing in an answer refers to the snapshot.
//
// It may import the core. Read State first, then overview.go; fleet.go and status.go (nodes),
// pending.go, pools.go, pool.go, blockers.go, offerings.go, cost.go, next.go; workload.go says whose a pod is. Package table draws
// the answers as text, package web as pages, package serve answers over HTTP.
package view

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Format is the version of the answers' form. Fields may be added within a version.
const Format = "dovetail-view/1"

// Head begins every answer.
type Head struct {
	Format string `json:"format"`
	Kind   string `json:"kind"`
	// At is the instant of the snapshot.
	At time.Time `json:"at"`
	// Observes: the controller only observes. What is next is what would be done.
	Observes bool `json:"observes,omitempty"`
	// Scope says which nodes or pods the answer is about, if not about all.
	Scope string `json:"scope,omitempty"`
}

// ObservesText says of a controller that it only observes.
const ObservesText = "this controller only observes (--mode=observe): it launches and removes no node; what is next is what it would do"

// State is what answers are made from: the newest snapshot of a loop, and what was decided lately.
type State struct {
	Snapshot *cluster.Snapshot
	// Scope says which nodes or pods of the cluster are in Snapshot; empty: all.
	Scope string
	// Refusals are those of the newest plan for pending pods.
	Refusals []plan.Refusal
	// Memory is what disruption remembers.
	Memory disrupt.Memory
	// Stays are the newest verdicts about nodes that were not disrupted, by node.
	Stays map[string]Stay
	// Bound is the newest lower bound on the price of all nodes; the zero Bound: none is known.
	Bound Bound
	// Shortages are what is remembered of offerings.
	Shortages []catalog.Shortage
	// BudgetChanges has, for each pool by name, when each of its budgets becomes active or ceases to
	// be, in their order; zero: not within a week.
	BudgetChanges map[string][]time.Time
	// BudgetSchedule returns the budgets of a pool over time; nil, or a nil schedule: they are not known.
	BudgetSchedule func(pool string) BudgetSchedule
	// Faults are what went wrong in the last decisions.
	Faults []string
	// Journal knows more about refusals; nil: nobody does.
	Journal Journal
	// Observes: what is decided is not carried out. Commands are those of the newest decision about disruption then.
	Observes bool
	Commands []plan.Command

	scope scope
}

// Stay is why a node was not disrupted, and when that was decided last.
type Stay struct {
	Why verdict.Verdict
	At  time.Time
}

// BudgetSchedule returns the budgets of a pool at an instant, and when they change next; zero: not within a week.
type BudgetSchedule func(at time.Time) (budgets []cluster.Budget, next time.Time)

// Journal is what is asked of the journal of decisions.
type Journal interface {
	// Refused returns since when pods are refused, as far as it is known.
	Refused() map[cluster.PodRef]Refused
}

// Refused is since when a pod is refused, and how many decisions have said so.
type Refused struct {
	First time.Time
	Times int64
}

// Bound is a lower bound on what nodes for all pods cost, and what it presumes.
type Bound struct {
	// At is when it was computed. The nodes cost PriceHourly then.
	At          time.Time `json:"at"`
	LeastHourly float64   `json:"leastHourlyDollars"`
	PriceHourly float64   `json:"priceHourlyDollars"`
	// NodesHeld are nodes that were not to be touched, and that the bound counts at their price.
	NodesHeld  int     `json:"nodesHeld"`
	HeldHourly float64 `json:"heldHourlyDollars"`
}

// Gap returns how far the price was above the bound, as a share of the price.
func (b *Bound) Gap() float64 {
	if b.PriceHourly <= 0 {
		return 0
	}
	return max(0, b.PriceHourly-b.LeastHourly) / b.PriceHourly
}

// BoundOf returns the bound that a decision of disruption found with a search of all nodes; false: it
// says nothing about the nodes of the snapshot. That is so too while nodes come or go, or pods wait: it is about the
// cluster as it will be.
func BoundOf(snap *cluster.Snapshot, d *plan.Disruption, search disrupt.Search) (Bound, bool) {
	if search != disrupt.FullSearch || d.FleetBound() <= 0 || len(snap.Pending) > 0 {
		return Bound{}, false
	}
	prices := cluster.NewPrices(snap)
	b := Bound{At: snap.At, LeastHourly: d.FleetBound()}
	held := map[string]bool{}
	for _, v := range d.Blocked {
		switch v.Reason {
		case verdict.NodeBlocked, verdict.ConsolidateAfterNotElapsed, verdict.PoolPaused, verdict.DisruptionPaused, verdict.HeldByBuffer:
			held[v.Subject] = true
		default:
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Claim == "" {
			continue
		}
		if n.InFlight != nil || n.Deleting || !n.Initialized || n.DisruptionReason != "" || n.Step != "" {
			return Bound{}, false
		}
		price, known := prices.Of(n)
		if !known {
			return Bound{}, false
		}
		b.PriceHourly += price
		if held[n.Name] {
			b.NodesHeld++
			b.HeldHourly += price
		}
	}
	return b, true
}

// head returns the beginning of an answer.
func (s *State) head(kind string) Head { return Head{Format, kind, s.Snapshot.At, s.Observes, s.Scope} }
