package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Spread returns where the pending pods of a snapshot are bound if kube-scheduler decides alone, which
// prefers the emptiest of the initialized nodes. Nothing is launched, preferences of pods are ignored, and pods
// that fit nowhere are left out. ok is false if that took too much effort, or panicked.
func Spread(snap *cluster.Snapshot, opts Options) (bound []plan.Assignment, ok bool) {
	defer func() {
		if recover() != nil { // Decide says so of the same pods
			bound, ok = nil, false
		}
	}()
	opts.IgnorePreferences = true
	meter := effort.New(effortFor(opts, snap))
	ok = meter.Run(func() {
		s := compile(snap, opts, meter)
		s.state.SpreadOnExisting()
		for p, at := range s.state.Assignments {
			if at.Kind == model.OnExisting {
				n := s.state.Existing[at.Index].Node
				bound = append(bound, plan.Assignment{Pod: snap.Pending[p].PodRef, Node: n.Name, Claim: n.Claim})
			}
		}
	})
	return bound, ok
}
