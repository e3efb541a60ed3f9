package provisioning

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

const (
	controllerName = "provisioner"
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
	// Observe: what is decided is logged and kept, and not carried out.
	Observe bool
	// Begun is closed when the first decision has been made, or there was none to make; nil: nobody waits for it.
	Begun chan<- struct{}

	batch    *batch
	recent   pack.Recent
	started  time.Time
	opened   time.Time // when the window of this decision was opened
	synced   bool
	reported string                    // the refusals of the last decision, so that each is logged once
	decision string                    // the ID of the decision that is carried out
	observed map[cluster.PodRef]string // what was decided last about each pending pod, if it is not carried out
}

// Buffers is given what was planned for capacity buffers.
type Buffers interface {
	Planned(ctx context.Context, rooms []plan.BufferRoom)
}

// Early says what is launched before a batch window ends.
type Early struct {
	// Idle is after how long without a trigger the window ends if no pod is known to come.
	Idle time.Duration
	// Patience is for how long after that another pod has its own window wait for the idle time, while nodes have yet
	// to join.
	Patience time.Duration
	// Premium is pack.Window.Premium.
	Premium float64
	// ComingCount returns how many pods are known to come.
	ComingCount func() int
	// JoiningCount returns how many nodes have yet to join.
	JoiningCount func() int
}

// The defaults of Early, from docs/design/early.md.
const (
	EarlyIdle     = 100 * time.Millisecond
	EarlyPatience = 13 * time.Second
	EarlyPremium  = 0.005
)

// NewEarly returns the defaults, for the pods and nodes of the mirror.
func NewEarly(m *mirror.Store) *Early {
	return &Early{Idle: EarlyIdle, Patience: EarlyPatience, Premium: EarlyPremium, ComingCount: m.ComingCount, JoiningCount: m.JoiningCount}
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
			l.Journal.Add(&record.Decision{Loop: record.Provisioning, Snapshot: snap, Pack: l.Pack, Early: early, Took: took, Bug: fmt.Sprint(r)}, journal.ID{})
			err = fmt.Errorf("deciding about %d pods: bug: %v", len(snap.Pending), r)
		}
	}()
	if early != nil {
		return pack.DecideEarly(snap, *early, l.Pack), took, nil
	}
	return l.recent.Decide(snap, l.Pack), took, nil
}

// identify gives a decision its ID before it is carried out. One that only says that buffers have their room has
// none, and is not kept.
func (l *Loop) identify(d *record.Decision) (id journal.ID) {
	d.Loop, d.Pack = record.Provisioning, l.Pack
	if len(d.Snapshot.Pending)+len(d.Snapshot.Excluded)+len(d.Plan.Launches) > 0 {
		id = l.Journal.Identify(d)
	}
	l.decision = id.String()
	return id
}

// event writes an event that is about the decision.
func (l *Loop) event(obj runtime.Object, e observe.Event) {
	e.Decision = l.decision
	l.Events.Event(obj, e)
}

// log writes lines that are about the decision.
func (l *Loop) log() *slog.Logger { return observe.OfDecision(l.Log, l.decision) }

// keep hands the decision to the journal, with what became of it.
func (l *Loop) keep(d *record.Decision, id journal.ID, launched []apply.Launched, err error) {
	if id.IsZero() {
		return
	}
	claims := make(map[*plan.Launch]string, len(launched))
	for _, done := range launched {
		claims[done.Launch] = done.Claim.Name
	}
	for i := range d.Plan.Launches {
		d.Claims = append(d.Claims, claims[&d.Plan.Launches[i]])
	}
	if err != nil {
		d.Error = err.Error()
	}
	l.Journal.Add(d, id)
}

// trace follows what was launched.
func (l *Loop) trace(d *observe.TracedDecision, launched []apply.Launched) {
	if l.Traces == nil {
		return
	}
	d.Observed, d.Claims = l.opened, make(map[string]*plan.Launch, len(launched))
	for _, done := range launched {
		d.Claims[done.Claim.Name] = done.Launch
	}
	l.Traces.Decided(d)
}
