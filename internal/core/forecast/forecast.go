// Package forecast carries decisions out on a snapshot, in time that passes at once: what the controller
// would do about a cluster if nothing else happened to it.
//
// The one idea: decisions are functions of snapshots, so a forecast needs no model of the controller. It asks
// the core itself (pack.Decide, disrupt.Propose, static.Next), changes its own copy of the snapshot as the
// plan says, lets time pass, and asks again, until nothing is left to be done. What it presumes is how long nodes
// take to start and to drain, and that pods go to the nodes that the plans mean them for.
//
// Read Run, then state.go (the cluster as it becomes), carry.go (a plan carried out), clock.go (what happens
// next). It imports the core only.
package forecast

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
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
	EndQuiet   = "quiet"   // nothing is left to be done
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

// Run carries decisions about a snapshot out until nothing is left to be done. The snapshot does not change.
func Run(snap *cluster.Snapshot, opts Options) Result {
	s := newState(snap, opts.complete())
	end := snap.At.Add(s.opts.Horizon)
	for s.out.End = EndRounds; s.out.Decisions < roundsDefault; {
		if s.opts.Stop != nil && s.opts.Stop() {
			s.out.End = EndStopped
			break
		}
		acted := s.decide()
		s.out.PeakHourly = max(s.out.PeakHourly, s.price())
		next := s.next(acted)
		if next.IsZero() {
			s.out.End = EndQuiet
			break
		}
		if next.After(end) {
			s.out.End = EndHorizon
			break
		}
		s.elapse(next)
	}
	s.out.Rest = s.snap
	return s.out
}

// decide has each loop decide once, and carries out what it says. It reports whether anything changed.
func (s *state) decide() (acted bool) {
	acted = s.provision()
	for i := range s.snap.Pools {
		if p := &s.snap.Pools[i]; p.Static {
			scaling := static.Next(s.snapshot(), p.Name)
			acted = s.scale(&scaling) || acted
		}
	}
	s.out.Decisions++
	opts := s.opts.Disrupt
	opts.Events = disrupt.Events{Reported: s.events, Initialized: s.initialized}
	d, memory := disrupt.Propose(s.snapshot(), s.memory, opts)
	s.memory = memory
	disrupted := s.disrupt(&d)
	s.noteSearch(&d, disrupted)
	if disrupted { // pods of nodes that go are pending now
		s.provision()
	}
	return acted || disrupted
}

// provision decides about the pending pods.
func (s *state) provision() (acted bool) {
	s.out.Refusals = nil
	if len(s.snap.Pending)+len(s.snap.Excluded)+len(s.snap.Buffers) == 0 {
		return false
	}
	s.out.Decisions++
	p := pack.Decide(s.snapshot(), s.opts.Pack)
	s.out.Refusals = p.Refusals
	return s.assign(&p)
}

// noteSearch remembers what the last decision about all nodes said.
func (s *state) noteSearch(d *plan.Disruption, acted bool) {
	switch {
	case acted:
		s.searched = false
	case s.memory.Search == disrupt.FullSearch:
		s.searched = true
		s.out.Stays = d.Blocked
	}
}
