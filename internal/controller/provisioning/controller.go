// Package provisioning is the loop that gives pending pods nodes: gather what happened,
// take a snapshot, let pack decide, have the plan carried out, report it.
package provisioning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

const (
	controllerName = "provisioner"
	// syncPoll is how often the loop asks whether the mirror is whole at the start.
	syncPoll = 50 * time.Millisecond
	// slow is from how long on a decision is counted as slow: others wait for it.
	slow = 10 * time.Second
)

// Loop is the provisioner. Its fields are set once, before Register.
type Loop struct {
	Mirror   *mirror.Store
	Launcher *apply.Launcher
	Events   *observe.Recorder
	Metrics  *observe.Metrics
	Log      *slog.Logger
	Now      func() time.Time
	// Synced reports whether the mirror has everything there was at the start.
	Synced func() bool
	Pack   pack.Options
	// Quarantine is shared with the disruption loop.
	Quarantine *apply.Quarantine
	// Journal is given every decision; nil: nobody is.
	Journal *journal.Journal
	// Views is given every snapshot, with the pods that are refused; nil: nobody is.
	Views *live.Latest
	// Traces is given every decision; nil: nobody is.
	Traces *observe.Traces
	// Buffers is given where the chunks of capacity buffers are; nil: room is kept for none.
	Buffers Buffers
	// BatchIdle and BatchMax are the window in which triggers are gathered.
	BatchIdle, BatchMax time.Duration
	// Early says what is launched before a window ends; nil: nothing is.
	Early *Early

	batch    *batch
	started  time.Time
	opened   time.Time // when the window of this decision was opened
	synced   bool
	reported string // the refusals of the last decision, so that each is logged once
}

// Buffers is given what was planned for capacity buffers.
type Buffers interface {
	Planned(ctx context.Context, rooms []plan.BufferRoom)
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error {
	l.batch = newBatch(l.BatchIdle, l.BatchMax, l.Now)
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
	switch what {
	case nothing:
		return left
	case early:
		l.decideEarly(ctx)
		return l.pause()
	case complete:
		if l.Early.ComingCount() > 0 {
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

// pause returns how long to wait until there may be something to do.
func (l *Loop) pause() time.Duration { return max(l.batch.wait(), time.Millisecond) }

// reportZones says how many pods are pending for each zone.
func (l *Loop) reportZones(snap *cluster.Snapshot) {
	l.Metrics.SchedulerPendingPodsByZone.Reset()
	for zone, pods := range pendingByZone(snap) {
		l.Metrics.SchedulerPendingPodsByZone.WithLabelValues(controllerName, zone).Set(float64(pods))
	}
}

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
		refused = slices.DeleteFunc(refused, func(r plan.Refusal) bool { return due[r.Pod] })
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
	l.reportGivenUp(snap, &p, took)
	l.Mirror.AssignAll(p.Assignments)
	l.Mirror.Unassign(refusedWithGangs(&p))
	launched, err := l.Launcher.Launch(ctx, &p)
	l.trace(snap, &p, launched, began, decided)
	if errors.Is(err, apply.ErrOvertaken) {
		l.batch.trigger("overtaken")
		return others, nil
	}
	if len(snap.Pending)+len(snap.Excluded)+len(p.Launches) > 0 { // else it only says that buffers have their room
		l.keep(snap, nil, &p, launched, took, err)
	}
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

// solve solves the snapshot, before a window ends unless early is nil. pack.Decide leaves out pods that it panics
// about; a panic all the same is a bug of ours: the cycle is given up, counted, and the next one tries again.
func (l *Loop) solve(snap *cluster.Snapshot, early *pack.Window) (p plan.Plan, took time.Duration, err error) {
	start := l.Now()
	defer l.Metrics.SchedulerUnfinishedWork.Begin(controllerName, l.Now)()
	defer func() {
		took = l.Now().Sub(start)
		if r := recover(); r != nil {
			l.Metrics.Bugs.Inc()
			l.Journal.Add(&record.Decision{Loop: record.Provisioning, Snapshot: snap, Pack: l.Pack, Early: early, Took: took, Bug: fmt.Sprint(r)})
			err = fmt.Errorf("deciding about %d pods: bug: %v", len(snap.Pending), r)
		}
	}()
	if early != nil {
		return pack.DecideEarly(snap, *early, l.Pack), took, nil
	}
	return pack.Decide(snap, l.Pack), took, nil
}

// keep hands the decision to the journal, with what became of it. early is nil if it was made at the
// end of a window.
func (l *Loop) keep(snap *cluster.Snapshot, early *pack.Window, p *plan.Plan, launched []apply.Launched, took time.Duration, err error) {
	claims := make(map[*plan.Launch]string, len(launched))
	for _, done := range launched {
		claims[done.Launch] = done.Claim.Name
	}
	d := &record.Decision{Loop: record.Provisioning, Snapshot: snap, Pack: l.Pack, Early: early, Plan: *p, Took: took}
	for i := range p.Launches {
		d.Claims = append(d.Claims, claims[&p.Launches[i]])
	}
	if err != nil {
		d.Error = err.Error()
	}
	l.Journal.Add(d)
}

// trace follows what was launched.
func (l *Loop) trace(snap *cluster.Snapshot, p *plan.Plan, launched []apply.Launched, began, decided time.Time) {
	if l.Traces == nil {
		return
	}
	claims := make(map[string]*plan.Launch, len(launched))
	for _, done := range launched {
		claims[done.Claim.Name] = done.Launch
	}
	l.Traces.Decided(&observe.TracedDecision{Observed: l.opened, Planned: began, Decided: decided, Pods: len(snap.Pending), Plan: p, Claims: claims})
}

// reportGivenUp reports decisions that were given up, and of one that took long.
func (l *Loop) reportGivenUp(snap *cluster.Snapshot, p *plan.Plan, took time.Duration) {
	if took > slow {
		l.Metrics.DecisionsSlow.WithLabelValues(string(record.Provisioning)).Inc()
		l.Log.Warn("a decision took long", "pods", len(snap.Pending), "took", took, "effort", p.Effort)
	}
	l.Metrics.GaveUp(string(record.Provisioning), p.GivenUp)
	if len(p.GivenUp) == 0 {
		return
	}
	left := map[string]int{}
	for _, r := range p.Refusals {
		if r.Why.Reason == verdict.TooMuchEffort || r.Why.Reason == verdict.DecisionFailed {
			left[r.Pod.Namespace]++
		}
	}
	l.Log.Error("abandoned a decision and repeated it without some pods", "causes", slices.Compact(slices.Clone(p.GivenUp)),
		"times", len(p.GivenUp), "pods", len(snap.Pending), "left_out_by_namespace", left, "took", took)
}

func (l *Loop) report(snap *cluster.Snapshot, p *plan.Plan, launched []apply.Launched, took time.Duration) {
	l.Metrics.PlanSeconds.Observe(took.Seconds())
	l.Metrics.SchedulerSchedulingDurationSeconds.WithLabelValues(controllerName).Observe(took.Seconds())
	l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Set(float64(len(p.Refusals)))
	l.reportZones(snap)
	l.Metrics.ClusterStateNodeCount.Set(float64(len(snap.Nodes)))
	for i := range snap.Pending {
		if snap.Pending[i].Planned == "" {
			l.Metrics.PodsSchedulingDecisionDurationSeconds.Observe(snap.At.Sub(snap.Pending[i].Created).Seconds())
		}
	}
	if len(p.Launches) > 0 {
		l.Metrics.PlanPriceHourlyDollars.Set(p.PriceHourly())
		l.Metrics.PlanBoundHourlyDollars.Set(p.BoundHourly)
	}
	if len(launched) > 0 {
		observe.Logged(l.Log, observe.LogFoundPods, "Pods", podNames(snap.Pending), "duration", took)
		observe.Logged(l.Log, observe.LogComputed, "nodeclaims", len(launched), "pods", len(snap.Pending), "placed", len(p.Assignments),
			"refused", len(p.Refusals), "price_hourly", p.PriceHourly(), "bound_hourly", p.BoundHourly, "took", took)
	}
	l.reportLaunches(launched)
	for _, placed := range p.Assignments {
		node := placed.Node
		if node == placed.Claim {
			node = "" // the Node is still to come
		}
		l.nominate(placed.Pod, placed.Claim, node)
	}
	l.reportRefusals(p)
	for _, idle := range p.Idle {
		if np, ok := l.Mirror.PoolObject(idle.Subject); ok {
			l.Events.Event(np, observe.NoCompatibleInstanceTypes(idle.Detail))
		}
	}
}

// reportNone reports that no pod asks for a node.
func (l *Loop) reportNone() {
	l.Metrics.SchedulerUnschedulablePodsCount.WithLabelValues(controllerName).Set(0)
	l.Metrics.SchedulerPendingPodsByZone.Reset()
	l.Metrics.QuarantinedPods.Set(0)
	l.reported = ""
}

func (l *Loop) reportLaunches(launched []apply.Launched) {
	for _, done := range launched {
		l.reportLaunch(done)
	}
}

func (l *Loop) reportLaunch(done apply.Launched) {
	launch := done.Launch
	l.Metrics.NodeClaimsCreated.WithLabelValues(observe.ReasonProvisioned, launch.Pool, strconv.FormatBool(launch.MinValuesRelaxed)).Inc()
	observe.Logged(l.Log, observe.LogCreated, observe.Created(done.Claim.Name, launch)...)
	for _, pod := range launch.Pods {
		l.nominate(pod, done.Claim.Name, "")
	}
}

// podNames names the first few pods.
func podNames(pods []cluster.Pod) string {
	names := make([]string, 0, len(pods))
	for i := range pods {
		names = append(names, pods[i].String())
	}
	return observe.FirstAnd(names)
}

func (l *Loop) nominate(ref cluster.PodRef, claim, node string) {
	if pod, ok := l.Mirror.PodObject(ref); ok && pod.Spec.NodeName == "" {
		l.Events.Event(pod, observe.Nominated(claim, node))
	}
}

// reportRefusals writes an event on each refused pod and one log line for each reason that
// the last pass did not have.
func (l *Loop) reportRefusals(p *plan.Plan) {
	counts, order, ignored := map[string]int{}, []string{}, 0
	for _, r := range p.Refusals {
		if r.Why.Reason == verdict.PodError {
			ignored++
		}
		why := r.Why.String()
		if counts[why]++; counts[why] == 1 {
			order = append(order, why)
			l.Metrics.Refusals.WithLabelValues(string(r.Why.Reason)).Inc()
		}
		if pod, ok := l.Mirror.PodObject(r.Pod); ok && pod.Spec.NodeName == "" {
			l.Events.Event(pod, observe.FailedScheduling(why))
		}
	}
	l.Metrics.SchedulerIgnoredPodsCount.Set(float64(ignored))
	if reported := fmt.Sprint(order); reported != l.reported {
		l.reported = reported
		for _, why := range order {
			l.Log.Info("refused pods", "pods", counts[why], "reason", why)
		}
	}
}
