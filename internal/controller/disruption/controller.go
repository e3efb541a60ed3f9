package disruption

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// Loop is the disruption loop. Its fields are set once, before Register.
type Loop struct {
	Mirror    *mirror.Store
	Disrupter *apply.Disrupter
	Events    *observe.Recorder
	Metrics   *observe.Metrics
	Log       *slog.Logger
	Now       func() time.Time
	Synced    func() bool
	Pack      pack.Options
	Terms     consolidate.Terms
	// Repair: unhealthy nodes are repaired. TerminateFirst says which nodes go before others are there.
	Repair bool
	// Reboots has nodes rebooted; nil: they are replaced instead.
	Reboots        Reboots
	TerminateFirst disrupt.TerminateFirst
	// Quarantine has the pods that no decision of this loop is about.
	Quarantine *apply.Quarantine
	// Journal is given every decision; nil: nobody is.
	Journal *journal.Journal
	// Views is given every decision, with the snapshot; nil: nobody is.
	Views *live.Latest
	// Observe: what is decided is logged and kept, and not carried out.
	Observe bool

	begun bool
	// annotationsAt is when the do-not-disrupt annotations of pods were last reported.
	annotationsAt time.Time
	// paused is why disruption was paused at the last decision, by pool; empty: it was not.
	paused map[string]string
	// memory is the core's: it is handed in with one decision as the one before returned it.
	memory disrupt.Memory
	// decision is the ID of the decision that is carried out.
	decision string
	// observed is what was decided last, if it is not carried out, and observedAt when.
	observed   string
	observedAt time.Time
}

// Reboots has nodes rebooted in place.
type Reboots interface {
	// Request begins a reboot. It is an error if one is in progress, or the claim is being deleted.
	Request(ctx context.Context, r *plan.Reboot) error
	// IsEscalated reports whether a claim was rebooted so often of late that it is to be replaced.
	IsEscalated(claim types.UID) bool
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error { return mgr.Add(l) }

// NeedLeaderElection reports that one process at a time may disrupt.
func (l *Loop) NeedLeaderElection() bool { return true }
