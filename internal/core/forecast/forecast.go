// Package forecast carries decisions out on a snapshot, in time that passes at once: what the controller
// would do about a cluster if nothing else happened to it.
//
// The one idea: decisions are functions of snapshots, so a forecast needs no model of the controller. It asks
// the core itself (pack.Decide, disrupt.Propose, static.Next), changes its own copy of the snapshot as the
// plan says, lets time pass, and asks again, until nothing is left to be done. What it presumes is how long nodes
// take to start and to drain, and that pods go to the nodes that the plans mean them for.
//
// Read result.go (question and answer), then Run, state.go (the cluster as it becomes), carry.go (a plan carried out), clock.go (what happens
// next). It imports the core only.
package forecast

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
)

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
			s.out.End = EndDone
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
