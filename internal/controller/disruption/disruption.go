// Package disruption is the loop that removes and replaces nodes by our own choice:
// take a snapshot, let core/disrupt propose, have the plan carried out, report it. It decides
// nothing and remembers nothing: the Memory of core/disrupt goes from one decision to the
// next through its hands.
//
// Read Loop, then disruption.go (one decision), carry.go (a plan becomes writes), report.go (metrics, events, log).
package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

const (
	// busy is how long to wait for the caches.
	busy = time.Second
	// grace is how long a node stays marked before it goes: far longer than a watch lags.
	grace = 2 * time.Second
	// annotationsEvery is how often the do-not-disrupt annotations of pods are reported.
	annotationsEvery = time.Minute
	// slow is from how long on a decision is counted as slow.
	slow = 10 * time.Second
)

// Start looks until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	return loop.Run(ctx, l.Reconcile, nil)
}

// Reconcile decides once. The first look only waits, for others to begin.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	if !l.begun || !l.Synced() {
		l.begun = true
		return busy
	}
	if !l.memory.IsIdle(l.events(), l.Now()) && !l.isObserved() {
		end := l.Metrics.Reconcile("disruption", l.Now)
		err := l.pass(ctx)
		end(err)
		if err != nil && ctx.Err() == nil {
			l.Log.Error("carrying out disruption", "error", err)
		}
	}
	if l.Observe {
		return max(l.memory.Pause(l.Now()), busy)
	}
	return l.memory.Pause(l.Now())
}

// events returns how many events the watches have reported so far.
func (l *Loop) events() disrupt.Events {
	return disrupt.Events{Reported: l.Mirror.EventCount(), Initialized: l.Mirror.InitializedCount()}
}

// pass is one decision carried out.
func (l *Loop) pass(ctx context.Context) error {
	events := l.events()
	whole := l.Disrupter.Launcher.Snapshot()
	snap := l.Quarantine.Without(whole)
	asked := &record.Decision{
		Loop: record.Disruption, Snapshot: snap, Memory: l.memory,
		Disrupt: l.options(snap, events),
	}
	start := l.Now()
	next, err := l.decide(asked)
	if err != nil {
		l.memory.DecisionFailed()
		l.Views.Disrupted(whole, &asked.Disruption, &l.memory, err)
		return err
	}
	p := &asked.Disruption
	asked.Took = l.Now().Sub(start)
	l.observeDecision(asked)
	if l.Observe {
		l.observe(asked)
	} else {
		id := l.Journal.Identify(asked)
		l.decision = id.String()
		if err = l.carryOut(ctx, snap, p); err != nil {
			asked.Error = err.Error()
			next.WriteFailed()
		}
		l.Journal.Add(asked, id)
	}
	l.memory = next
	l.Views.Disrupted(whole, p, &next, err)
	l.reportPaused(snap)
	l.reportPools(snap)
	l.reportWaiting(snap)
	l.reportScores(p)
	l.reportBlocked(snap, p)
	l.reportAnnotations(snap)
	return err
}

// options are those of one decision.
func (l *Loop) options(snap *cluster.Snapshot, events disrupt.Events) disrupt.Options {
	return disrupt.Options{
		Grace: grace, Pack: l.Pack, Terms: l.Terms, Events: events,
		Repair:         disrupt.Repair{On: l.Repair, CanReboot: l.Reboots != nil, Escalated: l.escalated(snap)},
		TerminateFirst: l.TerminateFirst,
	}
}

// escalated returns the claims of unhealthy nodes that are to be replaced rather than rebooted again.
func (l *Loop) escalated(snap *cluster.Snapshot) (claims []string) {
	if l.Reboots == nil {
		return nil
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if nc, ok := l.Mirror.ClaimObject(n.Claim); ok && len(n.Ailments) > 0 && l.Reboots.IsEscalated(nc.UID) {
			claims = append(claims, n.Claim)
		}
	}
	return claims
}

// observeDecision counts and logs how a decision went.
func (l *Loop) observeDecision(d *record.Decision) {
	l.Metrics.GaveUp(string(record.Disruption), d.Disruption.GivenUp)
	if d.Took > slow {
		l.Metrics.DecisionsSlow.WithLabelValues(string(record.Disruption)).Inc()
		l.log().Warn("a decision about disruption took long", "nodes", len(d.Snapshot.Nodes), "took", d.Took)
	}
	if len(d.Disruption.GivenUp) > 0 {
		l.log().Error("gave up searches for nodes to disrupt", "causes", d.Disruption.GivenUp, "nodes", len(d.Snapshot.Nodes))
	}
}

// decide fills in the plan, and returns the memory for the next decision. A panic is a bug of
// ours: the decision is given up, counted, and the next one tries again.
func (l *Loop) decide(d *record.Decision) (next disrupt.Memory, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.Metrics.Bugs.Inc()
			d.Bug = fmt.Sprint(r)
			l.Journal.Add(d, journal.ID{})
			err = fmt.Errorf("deciding about disruption: bug: %v", r)
		}
	}()
	var searched time.Duration
	d.Disruption, next = disrupt.ProposeTimed(d.Snapshot, d.Memory, d.Disrupt, func(reason, kind string, search func()) {
		start := l.Now()
		search()
		took := l.Now().Sub(start)
		l.Metrics.VoluntaryDisruptionDecisionEvaluationDurationSeconds.WithLabelValues(label(reason), kind).Observe(took.Seconds())
		if reason == disrupt.Underutilized {
			searched = took
		}
	})
	next.SearchTook(d.Snapshot.At, searched)
	if next.Search == disrupt.DrainSearch {
		l.Metrics.VoluntaryDisruptionConsolidationTimeouts.WithLabelValues("multi").Inc()
	}
	return next, nil
}

// carryOut does what the plan says. One part that fails is no reason to leave out another.
func (l *Loop) carryOut(ctx context.Context, snap *cluster.Snapshot, p *plan.Disruption) error {
	end := l.Metrics.Reconcile("disruption.queue", l.Now)
	err := errors.Join(l.takeBack(ctx, p), l.finish(ctx, snap, p), l.taintSoftly(ctx, p), l.reboot(ctx, snap, p), l.begin(ctx, p))
	end(err)
	return err
}
