// Package disruption is the loop that removes and replaces machines by our own choice:
// take a snapshot, let core/disrupt propose, have it carried out, tell about it.
//
// Read Loop, then carry.go (a plan becomes writes), memory.go (what is left alone for a
// while), tell.go (metrics, events, log).
package disruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

const (
	// calm is how often machines that could go are looked for, busy how often a step under way
	// is looked at.
	calm, busy = 5 * time.Second, time.Second
	// settle is how long a node stays marked before it goes: far longer than a watch lags.
	settle = 2 * time.Second
	// slow is from how long on a decision is counted as slow.
	slow = 10 * time.Second
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
	Terms     disrupt.Terms
	// Quarantine has the pods that no decision of this loop is about.
	Quarantine *apply.Quarantine
	// Journal is given every decision; nil: nobody is.
	Journal *journal.Journal

	begun  bool
	memory memory
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error { return mgr.Add(l) }

// NeedLeaderElection tells that one process at a time may disrupt.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start looks until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	return loop.Run(ctx, l.Look, nil)
}

// Look decides once. The first look only waits, for others to begin.
func (l *Loop) Look(ctx context.Context) (pause time.Duration) {
	if !l.begun || !l.Synced() {
		l.begun = true
		return busy
	}
	if !l.memory.isIdle(l.Mirror.EventCount(), l.Mirror.InitializedCount(), l.Now()) {
		if err := l.pass(ctx); err != nil && ctx.Err() == nil {
			l.Log.Error("carrying out disruption", "error", err)
		}
	}
	return l.memory.pause(l.Now())
}

// pass is one decision carried out.
func (l *Loop) pass(ctx context.Context) error {
	heard, initialised := l.Mirror.EventCount(), l.Mirror.InitializedCount()
	snap := l.Quarantine.Without(l.Disrupter.Launcher.Snapshot())
	opts := disrupt.Options{Settle: settle, Pack: l.Pack, Terms: l.Terms}
	l.memory.notice(snap)
	l.memory.recall(&opts, heard, snap.At)
	waiting := l.memory.isWaiting(snap)
	opts.SkipConsolidation = opts.SkipConsolidation || waiting
	start := l.Now()
	p, err := l.decide(snap, opts)
	if err != nil {
		l.memory.idle, l.memory.busy, l.memory.stepsAt = false, false, time.Time{}
		return err
	}
	took := l.Now().Sub(start)
	l.Metrics.GaveUp(string(record.Disruption), p.GivenUp)
	if took > slow {
		l.Metrics.DecisionsSlow.WithLabelValues(string(record.Disruption)).Inc()
		l.Log.Warn("a decision about disruption took long", "nodes", len(snap.Nodes), "took", took)
	}
	if len(p.GivenUp) > 0 {
		l.Log.Error("gave up searches for nodes to disrupt", "causes", p.GivenUp, "nodes", len(snap.Nodes))
	}
	kept := &record.Decision{Loop: record.Disruption, Snapshot: snap, Disrupt: opts, Plan: p, Took: took}
	err = l.carryOut(ctx, snap, &p)
	if err != nil {
		kept.Error = err.Error()
	}
	l.Journal.Add(kept)
	l.memory.learn(&opts, heard, &p)
	l.tellPools(snap)
	l.tellWaiting(snap)
	l.tellScores(&p)
	l.tellBlocked(snap, &p)
	changed := len(p.Undos)+len(p.Marks)+len(p.Unmarks)+len(p.Shuns)+len(p.Unshuns) > 0 || err != nil
	acted := changed || len(p.Steps)+len(p.Removals) > 0
	under := len(p.Steps) > 0 || !p.StepsAt.IsZero()
	l.memory.stepsAt, l.memory.initialised = p.StepsAt, initialised
	if settled := snap.At.Add(settle); len(p.Steps) > 0 && (p.StepsAt.IsZero() || p.StepsAt.After(settled)) {
		l.memory.stepsAt = settled
	}
	settling := l.memory.stepsAt.After(snap.At) && l.memory.stepsAt.Sub(snap.At) <= settle
	if changed {
		l.memory.stepsAt = time.Time{}
	}
	l.memory.looked(heard, !acted && !settling && (sawAll(&opts, under) || waiting))
	if !opts.UnderWayOnly {
		l.memory.searchedAt = snap.At
	}
	l.memory.next = disrupt.NextAt(snap)
	l.memory.busy = changed || under
	return err
}

// decide proposes. A panic is a bug of ours: the look is given up, counted, and the next
// one tries again.
func (l *Loop) decide(snap *cluster.Snapshot, opts disrupt.Options) (p plan.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.Metrics.Bugs.Inc()
			l.Journal.Add(&record.Decision{Loop: record.Disruption, Snapshot: snap, Disrupt: opts, Bug: fmt.Sprint(r)})
			err = fmt.Errorf("deciding about disruption: bug: %v", r)
		}
	}()
	return disrupt.ProposeTimed(snap, opts, func(reason, kind string, search func()) {
		start := l.Now()
		search()
		took := l.Now().Sub(start)
		l.Metrics.VoluntaryDisruptionDecisionEvaluationDurationSeconds.WithLabelValues(label(reason), kind).Observe(took.Seconds())
		if reason == disrupt.Underutilized {
			l.memory.searched(&opts, snap.At, took)
			if opts.DrainOnly {
				l.Metrics.VoluntaryDisruptionConsolidationTimeouts.WithLabelValues(kind).Inc()
			}
		}
	}), nil
}

// carryOut does what the plan says. One part that fails is no reason to leave out another.
func (l *Loop) carryOut(ctx context.Context, snap *cluster.Snapshot, p *plan.Plan) error {
	return errors.Join(l.takeBack(ctx, p), l.finish(ctx, snap, p), l.shun(ctx, p), l.begin(ctx, p))
}
