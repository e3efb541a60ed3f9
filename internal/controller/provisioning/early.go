package provisioning

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// Early says what is launched before a batch window ends.
type Early struct {
	// Idle is after how long without a trigger the window ends if no pod is known to come.
	Idle time.Duration
	// Patience is for how long after that another pod shows that more would have come: its own window ends
	// after the idle time.
	Patience time.Duration
	// Premium is pack.Window.Premium.
	Premium float64
	// ComingCount returns how many pods are known to come.
	ComingCount func() int
}

// The defaults of Early, from docs/design/early.md.
const (
	EarlyIdle     = 100 * time.Millisecond
	EarlyPatience = 4 * time.Second
	EarlyPremium  = 0.005
)

// decideEarly makes a plan before the window ends, and launches what is certain. All else is left to the end
// of the window, and nothing else is reported.
func (l *Loop) decideEarly(ctx context.Context) {
	began, took := l.Now(), time.Duration(0)
	l.opened = l.batch.openedAt()
	defer func() { l.batch.decidedEarly(took) }()
	early := &pack.Window{Coming: l.Early.ComingCount(), Premium: l.Early.Premium}
	snap := disrupt.Reserve(l.Quarantine.Divide(l.Launcher.Snapshot()).Ordinary)
	if len(snap.Pending) == 0 {
		return
	}
	p, took, err := l.solve(snap, early)
	decided := l.Now()
	if err != nil || len(p.Launches) == 0 {
		return
	}
	launched, err := l.Launcher.Launch(ctx, &p)
	l.trace(snap, &p, launched, began, decided)
	if errors.Is(err, apply.ErrOvertaken) {
		return // the next plan is made anew
	}
	l.keep(snap, early, &p, launched, took, err)
	l.observeWaits(snap, &p)
	l.reportLaunches(launched)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("could not perform the plan", "error", err)
	}
}

// observeWaits measures how long the pods waited that are launched for.
func (l *Loop) observeWaits(snap *cluster.Snapshot, p *plan.Plan) {
	launched := map[cluster.PodRef]bool{}
	for i := range p.Launches {
		for _, pod := range p.Launches[i].Pods {
			launched[pod] = true
		}
	}
	for i := range snap.Pending {
		if pod := &snap.Pending[i]; launched[pod.PodRef] {
			l.Metrics.PodsSchedulingDecisionDurationSeconds.Observe(snap.At.Sub(pod.Created).Seconds())
		}
	}
}
