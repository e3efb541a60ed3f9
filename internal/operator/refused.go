package operator

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// refused answers for views what the journal knows of refusals.
type refused struct{ kept *journal.Journal }

// newRefused returns nil for no journal.
func newRefused(kept *journal.Journal) view.Journal {
	if kept == nil {
		return nil
	}
	return refused{kept}
}

// Refused implements view.Journal.
func (r refused) Refused() map[cluster.PodRef]view.Refused {
	since := map[cluster.PodRef]view.Refused{}
	for _, e := range r.kept.Refusals() {
		pod := e.Pod()
		known := since[pod]
		if known.Times == 0 || e.First.Before(known.First) {
			known.First = e.First
		}
		known.Times += e.Times
		since[pod] = known
	}
	return since
}
