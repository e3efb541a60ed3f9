// Package disruption is the loop that removes machines which need not be there: take a
// snapshot, let core/disrupt propose, have it carried out, tell about it.
package disruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/apply"
	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/mirror"
	"github.com/dovetail-sh/dovetail/internal/observe"
	"github.com/dovetail-sh/dovetail/internal/record"
)

const (
	// calm is how often a cluster with nothing to remove is looked at, busy how often one
	// with a removal under way.
	calm, busy = 5 * time.Second, time.Second
	// settle is how long a node stays marked before it goes: far longer than a watch lags.
	settle = 2 * time.Second
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
	// Journal is given every decision; nil: nobody is.
	Journal *journal.Journal
}

// Register adds the loop to the manager; it runs on the leader only.
func (l *Loop) Register(mgr manager.Manager) error { return mgr.Add(l) }

// NeedLeaderElection tells that one process at a time may remove.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start looks until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	timer := time.NewTimer(busy)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next := busy
		if l.Synced() {
			acted, err := l.pass(ctx)
			if err != nil && ctx.Err() == nil {
				l.Log.Error("carrying out removals", "error", err)
			}
			if !acted {
				next = calm
			}
		}
		timer.Reset(next)
	}
}

// pass is one decision carried out; acted tells whether something is under way.
func (l *Loop) pass(ctx context.Context) (acted bool, err error) {
	snap := l.Mirror.Snapshot()
	start := l.Now()
	opts := disrupt.Options{Settle: settle}
	p, err := l.decide(snap, opts)
	if err != nil {
		return false, err
	}
	kept := &record.Decision{Loop: record.Disruption, Snapshot: snap, Disrupt: opts, Plan: p, Took: l.Now().Sub(start)}
	l.Metrics.VoluntaryDisruptionDecisionEvaluationDurationSeconds.WithLabelValues(observe.ReasonEmpty, observe.ReasonEmpty).Observe(l.Now().Sub(start).Seconds())
	l.Metrics.VoluntaryDisruptionEligibleNodes.WithLabelValues(observe.ReasonEmpty).Set(float64(len(p.Marks) + len(p.Removals)))
	for i := range snap.Pools {
		l.Metrics.NodePoolsAllowedDisruptions.WithLabelValues(snap.Pools[i].Name, disrupt.Empty).Set(float64(budget.Left(snap, &snap.Pools[i], disrupt.Empty)))
		l.Metrics.NodePoolsNodesConsumingBudgets.WithLabelValues(snap.Pools[i].Name, disrupt.Empty).Set(float64(budget.Used(snap, &snap.Pools[i])))
	}
	var errs []error
	for _, r := range p.Unmarks {
		errs = append(errs, harmless(l.Disrupter.Unmark(ctx, r)))
	}
	for _, r := range p.Marks {
		errs = append(errs, harmless(l.Disrupter.Mark(ctx, r)))
	}
	for _, r := range p.Removals {
		errs = append(errs, harmless(l.remove(ctx, snap, r)))
	}
	if err := errors.Join(errs...); err != nil {
		kept.Error = err.Error()
	}
	l.Journal.Add(kept)
	l.tellBlocked(snap, p.Blocked)
	marked := false
	for i := range snap.Nodes {
		marked = marked || snap.Nodes[i].Marked != "" && !snap.Nodes[i].Leaving
	}
	return marked || len(p.Marks)+len(p.Removals)+len(p.Unmarks) > 0, errors.Join(errs...)
}

func (l *Loop) decide(snap *cluster.Snapshot, opts disrupt.Options) (p plan.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.Metrics.Bugs.Inc()
			l.Journal.Add(&record.Decision{Loop: record.Disruption, Snapshot: snap, Disrupt: opts, Bug: fmt.Sprint(r)})
			err = fmt.Errorf("deciding about removals: bug: %v", r)
		}
	}()
	return disrupt.Propose(snap, opts), nil
}

func (l *Loop) remove(ctx context.Context, snap *cluster.Snapshot, r plan.Removal) error {
	nc, err := l.Disrupter.Remove(ctx, r)
	if err != nil || nc == nil {
		return err
	}
	labels := []string{r.Pool, observe.DecisionDelete, observe.ReasonEmpty, observe.ReasonEmpty}
	l.Metrics.VoluntaryDisruptionDecisions.WithLabelValues(labels[1:]...).Inc()
	l.Metrics.VoluntaryDisruptionDecisionsByNodePool.WithLabelValues(labels...).Inc()
	how := []string{observe.ReasonEmpty, r.Pool, nc.Labels[karpenterv1.CapacityTypeLabelKey], "", terminationMode(nc)}
	l.Metrics.NodeClaimsDisrupted.WithLabelValues(how...).Inc()
	idle := time.Duration(0)
	for i := range snap.Nodes {
		if snap.Nodes[i].Claim == r.Claim {
			idle = snap.At.Sub(snap.Nodes[i].QuietSince).Round(time.Second)
			for _, pods := range snap.Nodes[i].Pods {
				l.Metrics.PodsDisruptionInitiated.WithLabelValues(how...).Add(float64(pods.Count))
			}
		}
	}
	l.Log.Info("removed empty node", "node", r.Node, "claim", r.Claim, "pool", r.Pool, "quiet_for", idle, "reason", r.Reason)
	why := observe.DisruptionTerminating(r.Reason)
	l.Events.Event(nc, why)
	if node, ok := l.Mirror.NodeObject(r.Node); ok {
		l.Events.Event(node, why)
	}
	return nil
}

// tellBlocked says on each node that would be removed but for something what that is;
// where it is the pool's budgets, it is said on the pool.
func (l *Loop) tellBlocked(snap *cluster.Snapshot, blocked []verdict.Verdict) {
	poolOf := map[string]string{}
	for i := range snap.Nodes {
		poolOf[snap.Nodes[i].Name] = snap.Nodes[i].Pool
	}
	for _, why := range blocked {
		node, isNode := l.Mirror.NodeObject(why.Subject)
		pool, isPool := l.Mirror.PoolObject(poolOf[why.Subject])
		switch {
		case why.Reason == verdict.NodeBlocked && isNode:
			l.Events.Event(node, observe.DisruptionBlocked(why.Detail))
		case why.Reason == verdict.BudgetExhausted && isPool:
			l.Events.Event(pool, observe.PoolDisruptionBlocked(why.Detail))
		}
	}
}

func terminationMode(nc *karpenterv1.NodeClaim) string {
	if nc.Spec.TerminationGracePeriod == nil {
		return observe.TerminationMode(nil)
	}
	return observe.TerminationMode(&nc.Spec.TerminationGracePeriod.Duration)
}

// harmless drops the error of having looked at an old state: the next look is soon.
func harmless(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
