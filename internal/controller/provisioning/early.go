package provisioning

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
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
	d := &record.Decision{Snapshot: snap, Early: early, Plan: p, Took: took}
	id := l.identify(d)
	launched, err := l.Launcher.Launch(ctx, &p, l.decision)
	l.trace(&observe.TracedDecision{ID: id, Planned: began, Decided: decided, Pods: len(snap.Pending), Plan: &p}, launched)
	if errors.Is(err, apply.ErrOvertaken) {
		return // the next plan is made anew
	}
	l.keep(d, id, launched, err)
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
