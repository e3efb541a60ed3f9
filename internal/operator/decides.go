package operator

import (
	"net/http"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// TermsPath is where the debug port answers by what the controller decides: a decision as package record writes
// it, without pods, nodes and plan. Its NodePools have what can be launched from them now; its options are those
// that are in force.
const TermsPath = "/debug/terms"

// terms answers TermsPath.
func terms(s *Settings, views *live.Views) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		state := views.Latest.State()
		if state == nil {
			http.Error(w, live.ErrNotYet.Error(), http.StatusServiceUnavailable)
			return
		}
		gates, _ := s.Gates() // Validate has read them
		d := &record.Decision{
			Loop: record.Disruption, Pack: s.packing(),
			Snapshot: &cluster.Snapshot{At: state.Snapshot.At, Pools: state.Snapshot.Pools, WellKnown: state.Snapshot.WellKnown, ReservationKey: state.Snapshot.ReservationKey},
			Disrupt: disrupt.Options{
				Terms: s.terms(), Repair: disrupt.Repair{On: gates["NodeRepair"] && !s.LegacyNodeRepair},
				TerminateFirst: disrupt.TerminateFirst{Drifted: gates["TerminateFirstDrift"], Unhealthy: gates["TerminateFirstRepair"]},
			},
		}
		text, err := d.Encode()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text) // whoever asked may be gone
	})
}
