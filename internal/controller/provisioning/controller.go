// Package provisioning is the loop that gives pending pods nodes: gather what happened,
// take a snapshot, let pack decide, have the plan carried out, report it.
package provisioning

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// syncPoll is how often the loop asks whether the mirror is whole at the start.
const syncPoll = 50 * time.Millisecond

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error {
	l.batch = newBatch(l.BatchIdle, l.BatchMax, l.Now)
	if l.Observe {
		l.batch.recheck = observeEvery
	}
	return mgr.Add(l)
}

// NeedLeaderElection reports that one process at a time may decide.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start decides until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	defer l.Mirror.OnWork(func(string) {})
	return loop.Run(ctx, l.Reconcile, l.batch.triggers)
}

// Triggers opens a window, at the end of which there is something to decide.
func (l *Loop) Triggers() <-chan struct{} { return l.batch.triggers }

// Reconcile decides if a window has closed.
func (l *Loop) Reconcile(ctx context.Context) (pause time.Duration) {
	if l.started.IsZero() {
		l.started = l.Now()
		if l.Early != nil {
			l.batch.shortIdle, l.batch.patience = l.Early.Idle, l.Early.Patience
		}
		l.Mirror.OnWork(l.onWork)
	}
	if !l.synced && !l.sync() {
		return syncPoll
	}
	what, left := l.batch.next()
	if what != nothing {
		defer l.begin()
	}
	switch what {
	case nothing:
		return left
	case early:
		l.decideEarly(ctx)
		return l.pause()
	case complete:
		if l.Early.ComingCount() > 0 || l.batch.isPatient() && l.Early.JoiningCount() > 0 {
			return l.pause()
		}
	case end:
	}
	l.opened = l.batch.end(what == complete)
	if l.Mirror.PendingCount() == 0 && !l.Mirror.IsDraining() && !l.Mirror.Buffers().Any() {
		l.reportNone()
		return l.pause()
	}
	end := l.Metrics.Reconcile(controllerName, l.Now)
	err := l.pass(ctx)
	end(err)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("could not perform the plan", "error", err)
	}
	return l.pause()
}

// begin says that the first decision has been made.
func (l *Loop) begin() {
	if l.Begun != nil {
		close(l.Begun)
		l.Begun = nil
	}
}

// pause returns how long to wait until there may be something to do.
func (l *Loop) pause() time.Duration { return max(l.batch.wait(), time.Millisecond) }

// onWork counts what may call for a plan as Karpenter does, and opens a window for it. It is called
// with the mirror's lock held, so it takes no time and does not ask what time it is.
func (l *Loop) onWork(id string) {
	for prefix, controller := range map[string]string{"pod/": "provisioner.trigger.pod", "node/": "provisioner.trigger.node"} {
		if strings.HasPrefix(id, prefix) {
			l.Metrics.Reconcile(controller, func() time.Time { return time.Time{} })(nil)
		}
	}
	l.batch.trigger(id)
}

// sync reports whether the mirror is whole, and opens the first window when it is.
func (l *Loop) sync() bool {
	if !l.Synced() {
		l.Metrics.ClusterStateSynced.Set(0)
		l.Metrics.ClusterStateUnsyncedTimeSeconds.Set(l.Now().Sub(l.started).Seconds())
		return false
	}
	l.synced = true
	l.Metrics.ClusterStateSynced.Set(1)
	l.Metrics.ClusterStateUnsyncedTimeSeconds.Set(0)
	l.batch.trigger("start")
	return true
}

// pass decides about the pods that ask for a node: first about those that are not quarantined,
// then about those whose quarantine is over, so that nobody else waits for these.
func (l *Loop) pass(ctx context.Context) error {
	snap := l.Launcher.Snapshot()
	if l.Observe {
		l.forget(snap)
	}
	others := len(snap.Buffers) + len(snap.Excluded)
	if len(snap.Pending)+others == 0 {
		l.Views.Provisioned(snap, nil, nil)
		l.reportNone()
		return nil
	}
	parts := l.Quarantine.Divide(snap)
	l.Metrics.QuarantinedPods.Set(float64(len(parts.Due.Pending) + len(parts.Waiting)))
	refused, err := parts.Waiting, error(nil)
	if len(parts.Ordinary.Pending)+others > 0 {
		refused, err = l.passOf(ctx, parts.Ordinary, refused)
	}
	if len(parts.Ordinary.Pending)+others+len(parts.Due.Pending) == 0 {
		l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Set(float64(len(parts.Waiting)))
		l.reportRefusals(&plan.Plan{Refusals: parts.Waiting})
	}
	if len(parts.Due.Pending) > 0 && err == nil {
		again := *l.Launcher.Snapshot() // with what was launched just now
		again.Pending, again.Buffers, again.Excluded = stillPending(&again, parts.Due), nil, nil
		due := make(map[cluster.PodRef]bool, len(again.Pending))
		for i := range again.Pending {
			due[again.Pending[i].PodRef] = true
		}
		refused = slices.DeleteFunc(slices.Clone(refused), func(r plan.Refusal) bool { return due[r.Pod] }) // the journal keeps them
		refused, err = l.passOf(ctx, &again, refused)
	}
	l.Views.Provisioned(snap, refused, err)
	return err
}

// stillPending returns the pods of a part that are pending in the snapshot, and the others that a
// plan has a place for: they keep it. Gangs that have pods among those are there whole.
func stillPending(snap, part *cluster.Snapshot) (pods []cluster.Pod) {
	wanted := make(map[cluster.PodRef]bool, len(part.Pending))
	for i := range part.Pending {
		wanted[part.Pending[i].PodRef] = true
	}
	type gang struct{ namespace, name string }
	gangs := map[gang]bool{}
	for i := range snap.Pending {
		if p := &snap.Pending[i]; p.Gang != "" && (wanted[p.PodRef] || p.Planned != "") {
			gangs[gang{p.Namespace, p.Gang}] = true
		}
	}
	for i := range snap.Pending {
		if p := &snap.Pending[i]; wanted[p.PodRef] || p.Planned != "" || gangs[gang{p.Namespace, p.Gang}] {
			pods = append(pods, *p)
		}
	}
	return pods
}

// passOf makes, performs and reports one decision. others are pods that it is not about and that are
// refused; it returns them with those that it refuses.
func (l *Loop) passOf(ctx context.Context, snap *cluster.Snapshot, others []plan.Refusal) ([]plan.Refusal, error) {
	l.Metrics.SchedulerQueueDepth.WithLabelValues(controllerName, "").Set(float64(len(snap.Pending)))
	began := l.Now()
	snap, p, took, err := l.decideSparing(snap)
	decided := l.Now()
	l.Metrics.SchedulerQueueDepth.WithLabelValues(controllerName, "").Set(0)
	if err != nil {
		return others, err
	}
	l.Quarantine.Learn(snap, &p)
	d := &record.Decision{Snapshot: snap, Plan: p, Took: took}
	if l.Observe {
		return l.observe(d, others), nil
	}
	id := l.identify(d)
	l.reportGivenUp(snap, &p, took)
	l.Mirror.AssignAll(p.Assignments)
	l.Mirror.Unassign(refusedWithGangs(&p))
	launched, err := l.Launcher.Launch(ctx, &p, l.decision)
	l.trace(&observe.TracedDecision{ID: id, Planned: began, Decided: decided, Pods: len(snap.Pending), Plan: &p}, launched)
	if errors.Is(err, apply.ErrOvertaken) {
		l.batch.trigger("overtaken")
		return others, nil
	}
	l.keep(d, id, launched, err)
	if l.Buffers != nil {
		l.Buffers.Planned(ctx, p.Buffers)
	}
	p.Refusals = append(slices.Clip(p.Refusals), others...)
	l.report(snap, &p, launched, took)
	return p.Refusals, err
}

// refusedWithGangs returns the pods of gangs that can't start: no node is kept for them.
func refusedWithGangs(p *plan.Plan) (pods []cluster.PodRef) {
	for _, r := range p.Refusals {
		switch r.Why.Reason {
		case verdict.GangUnknown, verdict.GangIncomplete, verdict.GangShort:
			pods = append(pods, r.Pod)
		default:
		}
	}
	return pods
}

// decideSparing leaves the room of replacements to the pods of their steps, and keeps others
// from nodes that are to go later, if that costs no launch. It returns the snapshot that
// was decided about.
func (l *Loop) decideSparing(snap *cluster.Snapshot) (*cluster.Snapshot, plan.Plan, time.Duration, error) {
	snap = disrupt.Reserve(snap)
	sparing := disrupt.PreferOthers(snap)
	if sparing == snap {
		p, took, err := l.decide(snap)
		return snap, p, took, err
	}
	other, more, err := l.decide(sparing)
	if err == nil && len(other.Launches)+len(other.Refusals)+roomless(&other) == 0 { // no plan has fewer
		return sparing, other, more, nil
	}
	p, took, failed := l.decide(snap)
	if failed == nil && err == nil && len(other.Launches) <= len(p.Launches) && len(other.Refusals) <= len(p.Refusals) && roomless(&other) <= roomless(&p) {
		return sparing, other, took + more, nil
	}
	if failed == nil {
		failed = err
	}
	return snap, p, took + more, failed
}

// roomless returns for how many chunks of capacity buffers a plan has no room.
func roomless(p *plan.Plan) (n int) {
	for i := range p.Buffers {
		n += p.Buffers[i].Chunks - p.Buffers[i].HeldCount() - p.Buffers[i].Launched
	}
	return n
}

// decide solves the snapshot.
func (l *Loop) decide(snap *cluster.Snapshot) (plan.Plan, time.Duration, error) {
	return l.solve(snap, nil)
}
