package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// compile states the snapshot in the solver's terms. The work, and all that the solver does
// later, is taken from the meter.
func compile(snap *cluster.Snapshot, opts Options, meter *effort.Meter) *solver {
	m := model.New(snap, model.SpaceOf(snap), opts, meter)
	for _, p := range m.Pools {
		p.LiftLimits(len(snap.Pending))
	}
	s := &solver{state: place.NewState(m), refused: make([]verdict.Verdict, len(snap.Pending))}
	s.before = s.state.Topology.Ledger.Clone()
	s.refuseTooLarge()
	return s
}
