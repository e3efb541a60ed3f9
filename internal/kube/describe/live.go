package describe

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// Live returns a function that says what there is of a subject now.
func Live(store *mirror.Store, now func() time.Time) journal.Live {
	d := &describer{store, now}
	return func(s journal.Subject) []journal.State {
		var all []journal.State
		switch s.Kind {
		case journal.KindPod:
			all = d.pods(s)
		case journal.KindNode, journal.KindClaim:
			all = d.node(s)
		case journal.KindPool:
			all = d.pool(s)
		case "":
			all = append(d.pods(s), d.node(s)...)
		default:
			if journal.IsWorkload(s.Kind) {
				all = d.workload(s)
			}
		}
		return all
	}
}
