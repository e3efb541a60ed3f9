// Package repair is the loop that removes broken Nodes as Karpenter 1.14 did: at once, without regard
// to budgets. It runs only with the setting legacy-node-repair; else core/disrupt replaces broken
// nodes. If many Nodes of a NodePool are unhealthy at once it stops and reports it.
package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "node.health"
	nodesAtOnce    = 10
	// pausedRetry is when to look again at a broken node while disruption of its pool is paused.
	pausedRetry = time.Minute
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client   client.Client
	Cloud    cloud.Provider
	Policies []cloud.RepairPolicy
	Now      func() time.Time
	Events   *observe.Recorder
	Metrics  *observe.Metrics
	Log      *slog.Logger
	// StaticCapacity: nodes of pools with replicas are repaired; else they are kept, for nothing
	// would replace them.
	StaticCapacity bool
	// Paused returns why disruption of a pool is paused; empty: it is not. None of its nodes is repaired then. May be nil.
	Paused func(pool string) string
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	return c.controller().Register(mgr)
}

func (c *Controller) controller() *loop.Controller[*corev1.Node] {
	return &loop.Controller[*corev1.Node]{Name: controllerName, Client: c.Client, AtOnce: nodesAtOnce, Do: c.repair}
}

// repair looks after one Node.
func (c *Controller) repair(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	if !mirror.ManagesNode(c.Cloud.ClassKinds(), node) {
		return reconcile.Result{}, nil
	}
	claim, err := mirror.ClaimOfNode(ctx, c.Client, node)
	if errors.Is(err, mirror.ErrDuplicate) || err == nil && claim == nil {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	view := lifecycle.RepairView{At: c.Now(), Conditions: translate.NodeConditions(node), Policies: c.policies(), IsDeleting: claim.DeletionTimestamp != nil}
	view.Deadline, _ = translate.Deadline(claim) // one that cannot be read is replaced
	ailment, sick := lifecycle.Diagnose(view.Conditions, view.Policies)
	if sick && !view.At.Before(ailment.Due) {
		pool := node.Labels[karpenterv1.NodePoolLabelKey]
		if why := c.pausedBy(pool); why != "" && !view.IsDeleting {
			c.Events.Event(node, observe.DisruptionBlocked("disruption of pool "+pool+" is paused: "+why))
			return reconcile.Result{RequeueAfter: pausedRetry}, nil
		}
		if view.UnhealthyCounts, err = c.unhealthyCounts(ctx, pool); err != nil {
			return reconcile.Result{}, err
		}
		if view.Static, err = c.static(ctx, pool); err != nil {
			return reconcile.Result{}, err
		}
	}
	step := lifecycle.Repair(view)
	if step.Act == lifecycle.SetDeadline {
		if err := c.setDeadline(ctx, claim, step.Deadline); err != nil {
			return reconcile.Result{}, err
		}
		// The decision is performed at once, before the Node can be healthy again.
		view.Deadline = step.Deadline
		step = lifecycle.Repair(view)
	}
	return c.perform(ctx, node, claim, &step, ailment)
}

// pausedBy returns why disruption of a pool is paused; empty: it is not.
func (c *Controller) pausedBy(pool string) string {
	if c.Paused == nil {
		return ""
	}
	return c.Paused(pool)
}

// setDeadline writes the deadline of a claim. If another loop has written the claim since it was
// read, it reads the claim again at once: a second later the Node may be healthy.
func (c *Controller) setDeadline(ctx context.Context, claim *karpenterv1.NodeClaim, deadline time.Time) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := apply.SetDeadline(ctx, c.Client, claim, deadline)
		if !apierrors.IsConflict(err) {
			return err
		}
		current := &karpenterv1.NodeClaim{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return fmt.Errorf("read claim %s again: %w", claim.Name, err)
		}
		if current.UID == claim.UID {
			*claim = *current
		}
		return err
	})
}

func (c *Controller) perform(
	ctx context.Context, node *corev1.Node, claim *karpenterv1.NodeClaim, step *lifecycle.Step, ailment lifecycle.Ailment,
) (reconcile.Result, error) {
	switch step.Act {
	case lifecycle.DeleteClaim:
		if err := apply.Remove(ctx, c.Client, claim); err != nil {
			return reconcile.Result{}, err
		}
		c.reportRepaired(ctx, node, claim, ailment)
		return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
	case lifecycle.ClearDeadline:
		return reconcile.Result{}, apply.ClearDeadline(ctx, c.Client, claim)
	default:
	}
	if len(step.Blocked) > 0 {
		c.Events.Event(node, observe.NodeRepairBlocked(step.Why))
		c.Events.Event(claim, observe.NodeRepairBlocked(step.Why))
	}
	if step.Until.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(step.Until.Sub(c.Now()), time.Millisecond)}, nil
}

// static returns the name of the pool if it has a fixed number of nodes that nothing keeps up.
func (c *Controller) static(ctx context.Context, pool string) (string, error) {
	np := &karpenterv1.NodePool{}
	if c.StaticCapacity {
		return "", nil
	}
	err := c.Client.Get(ctx, client.ObjectKey{Name: pool}, np, client.UnsafeDisableDeepCopy)
	if err != nil || !translate.Static(np) {
		return "", client.IgnoreNotFound(err)
	}
	return pool, nil
}

// unhealthyCounts counts the unhealthy Nodes in the Node's pool or, if it has none, in the cluster.
func (c *Controller) unhealthyCounts(ctx context.Context, pool string) ([]lifecycle.UnhealthyCount, error) {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	count := lifecycle.UnhealthyCount{Name: "pool " + pool}
	if pool == "" {
		count.Name = "the cluster"
	}
	policies := c.policies()
	for i := range nodes.Items {
		if pool != "" && nodes.Items[i].Labels[karpenterv1.NodePoolLabelKey] != pool {
			continue
		}
		count.Nodes++
		if _, sick := lifecycle.Diagnose(translate.NodeConditions(&nodes.Items[i]), policies); sick {
			count.Sick++
		}
	}
	return []lifecycle.UnhealthyCount{count}, nil
}

func (c *Controller) policies() []lifecycle.RepairPolicy {
	policies := make([]lifecycle.RepairPolicy, 0, len(c.Policies))
	for _, p := range c.Policies {
		if p.Action != cloud.RebootNode {
			policies = append(policies, lifecycle.RepairPolicy{Type: p.ConditionType, Status: p.ConditionStatus, Reason: p.ReasonRegex, Toleration: p.Toleration})
		}
	}
	return policies
}

func (c *Controller) reportRepaired(ctx context.Context, node *corev1.Node, claim *karpenterv1.NodeClaim, ailment lifecycle.Ailment) {
	pods, err := mirror.PodsOn(ctx, c.Client, node.Name)
	if err != nil {
		c.Log.Error("could not count pods", "node", node.Name, "error", err)
	}
	c.Metrics.Disrupted(claim, observe.ReasonUnhealthy, "", translate.CountReschedulable(pods))
	pool := claim.Labels[karpenterv1.NodePoolLabelKey]
	c.Metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues(observe.ConditionLabel(ailment.Type), pool,
		claim.Labels[karpenterv1.CapacityTypeLabelKey], claim.Status.ImageID, observe.TerminationMode(new(time.Duration(0)))).Inc()
	why := observe.DisruptionTerminating(fmt.Sprintf("Unhealthy: condition %s is %s", ailment.Type, ailment.Status))
	c.Events.Event(node, why)
	c.Events.Event(claim, why)
	c.Log.Info("replacing broken node", "node", node.Name, "claim", claim.Name, "pool", pool,
		"condition", ailment.Type, "status", ailment.Status, "since", ailment.Since)
}
