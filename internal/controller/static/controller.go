// Package static are the loops that keep NodePools with spec.replicas at their number of nodes:
// one launches what is missing, the other removes what is too many. What core/static decides,
// they carry out.
package static

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	core "github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// checkEvery is how often a pool is looked at without an event, blockedEvery one that cannot
	// launch what is missing.
	checkEvery, blockedEvery = time.Minute, 30 * time.Second
	// soon is when a pool is looked at again that could not be decided about: the caches are not
	// synced, or another loop launched in the pool meanwhile.
	soon = time.Second
)

// Controllers are the two loops. Their fields are set once, before Register.
type Controllers struct {
	Client client.Client
	// Launcher launches and takes the snapshots. No other loop has the same.
	Launcher *apply.Launcher
	Synced   func() bool
	Metrics  *observe.Metrics
	Log      *slog.Logger
	// Journal keeps the decisions; nil: nobody does.
	Journal *journal.Journal

	removed map[string]bool   // claims that were deleted, until a snapshot shows it
	blocked map[string]string // by pool: why launches were blocked when it was last provisioned
}

// forget is called by provisioning with the name of a pool that is gone.
func (c *Controllers) forget(pool string) {
	c.Metrics.StaticMissingNodes.DeleteLabelValues(pool)
	delete(c.blocked, pool)
}

// Register adds the controllers to a manager.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	for _, l := range []*loop.Controller[*karpenterv1.NodePool]{
		{Name: "static.provisioning", Do: c.provision, Gone: c.forget},
		{Name: "static.deprovisioning", Do: c.deprovision},
	} {
		l.Client, l.AtOnce, l.Watch = c.Client, 1, watch
		if err := l.Register(mgr); err != nil {
			return err
		}
	}
	return nil
}

// watch triggers on NodePools, and on NodeClaims for the NodePool that they are of.
func watch(b *builder.Builder) *builder.Builder {
	return b.For(&karpenterv1.NodePool{}).Watches(&karpenterv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, claim client.Object) []reconcile.Request {
			pool := claim.GetLabels()[karpenterv1.NodePoolLabelKey]
			if pool == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: pool}}}
		}))
}

// provision launches what a pool has too few.
func (c *Controllers) provision(ctx context.Context, np *karpenterv1.NodePool) (reconcile.Result, error) {
	if !translate.Static(np) || np.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	snap := c.Launcher.Snapshot()
	next, ok := c.next(snap, np)
	if !ok {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if next.Pool == "" { // it is not of a class of ours
		return reconcile.Result{}, nil
	}
	c.Metrics.StaticMissingNodes.WithLabelValues(np.Name).Set(float64(next.Missing))
	c.reportBlocked(&next)
	said := c.identify(snap, &next, len(next.Launches) > 0 || !next.Blocked.IsYes())
	launched, err := c.Launcher.Launch(ctx, &plan.Plan{At: next.At, Launches: next.Launches}, said.id.String())
	if errors.Is(err, apply.ErrOvertaken) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	c.keep(said, launched, err)
	for _, l := range launched {
		c.Metrics.NodeClaimsCreated.WithLabelValues(observe.ReasonProvisioned, np.Name, "false").Inc()
		observe.Logged(observe.OfDecision(c.Log, said.id.String()), observe.LogCreated, observe.Created(l.Claim.Name, l.Launch)...)
	}
	switch {
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("launch the missing nodes of pool %s: %w", np.Name, err)
	case !next.Blocked.IsYes():
		return reconcile.Result{RequeueAfter: blockedEvery}, nil
	default:
		return reconcile.Result{RequeueAfter: checkEvery}, nil
	}
}

// reportBlocked logs why a pool stays short of nodes, when that changes.
func (c *Controllers) reportBlocked(next *plan.Scaling) {
	why := ""
	if !next.Blocked.IsYes() {
		why = next.Blocked.String()
	}
	if why != c.blocked[next.Pool] && why != "" {
		c.Log.Warn("static pool stays short of nodes", "pool", next.Pool, "missing", next.Missing, "reason", why)
	}
	if c.blocked == nil {
		c.blocked = map[string]string{}
	}
	c.blocked[next.Pool] = why
}

// deprovision removes what a pool has too many.
func (c *Controllers) deprovision(ctx context.Context, np *karpenterv1.NodePool) (reconcile.Result, error) {
	if !translate.Static(np) || np.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	snap := c.Launcher.Mirror.Snapshot()
	next, ok := c.next(snap, np)
	if !ok || c.isBehind(snap) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	said := c.identify(snap, &next, len(next.Removals) > 0)
	var errs []error
	for _, r := range next.Removals {
		errs = append(errs, c.remove(ctx, r, said.id.String()))
	}
	err := errors.Join(errs...)
	c.keep(said, nil, err)
	return reconcile.Result{RequeueAfter: checkEvery}, err
}

// identified is a decision about a pool with its ID; nil: it is not kept.
type identified struct {
	*record.Decision
	id journal.ID
}

// identify gives a decision about a pool its ID before it is carried out, if it is to be kept.
func (c *Controllers) identify(snap *cluster.Snapshot, next *plan.Scaling, isKept bool) identified {
	if !isKept || c.Journal == nil {
		return identified{}
	}
	d := &record.Decision{Loop: record.Static, Snapshot: core.Part(snap, next.Pool), Scaling: *next}
	return identified{d, c.Journal.Identify(d)}
}

// keep hands a decision to the journal, with what became of it.
func (c *Controllers) keep(d identified, launched []apply.Launched, err error) {
	if d.Decision == nil {
		return
	}
	claims := make(map[*plan.Launch]string, len(launched))
	for _, l := range launched {
		claims[l.Launch] = l.Claim.Name
	}
	for i := range d.Scaling.Launches {
		d.Claims = append(d.Claims, claims[&d.Scaling.Launches[i]])
	}
	if err != nil {
		d.Error = err.Error()
	}
	c.Journal.Add(d.Decision, d.id)
}

// next decides about a pool. It returns false if the mirror does not show yet what has changed.
func (c *Controllers) next(snap *cluster.Snapshot, np *karpenterv1.NodePool) (plan.Scaling, bool) {
	if !c.Synced() {
		return plan.Scaling{}, false
	}
	pool, managed := snap.PoolByName(np.Name)
	if managed && pool.Replicas != translate.Replicas(np) {
		return plan.Scaling{}, false
	}
	return core.Next(snap, np.Name), true
}

// isBehind reports whether the snapshot does not show yet that a claim is deleted: it would be
// counted as too many once more, and another go for it.
func (c *Controllers) isBehind(snap *cluster.Snapshot) bool {
	stays := map[string]bool{}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; c.removed[n.Claim] && !n.Deleting {
			stays[n.Claim] = true
		}
	}
	c.removed = stays
	return len(stays) > 0
}

// remove deletes the claim of a node that is too many. Its drain and the end of its instance
// follow from that.
func (c *Controllers) remove(ctx context.Context, r plan.Removal, decision string) error {
	claim := &karpenterv1.NodeClaim{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: r.Claim}, claim, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		return nil
	}
	if err := apply.RemoveAsSeen(ctx, c.Client, claim); err != nil {
		return err
	}
	c.removed[r.Claim] = true
	observe.Logged(observe.OfDecision(c.Log, decision), observe.LogDeleting, observe.Named("NodeClaim", r.Claim), "claim", r.Claim, "node", r.Node, "pool", r.Pool, "reason", "more nodes than spec.replicas")
	return nil
}
