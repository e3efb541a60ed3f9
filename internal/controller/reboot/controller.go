// Package reboot is the loop that reboots instances in place: it reads the NodeClaim, its Node and the
// pods there, lets the core decide the next step of the reboot, has it performed, and reports it. Which
// nodes are rebooted is decided elsewhere; a reboot that has begun is finished whatever the settings.
package reboot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	controllerName = "nodeclaim.reboot"
	claimsAtOnce   = 10
	// stepsMost bounds how many steps one reconcile of a NodeClaim takes.
	stepsMost = 16
	// askAgain is the pause between two tries to have the cloud reboot an instance, askMost how long
	// one may take.
	askAgain, askMost = 10 * time.Second, time.Minute
)

// Controller is the loop. Its fields are set once, before Register.
type Controller struct {
	Client  client.Client
	Cloud   cloud.Provider
	Now     func() time.Time
	Events  *observe.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger
	// Evict asks for the eviction of a pod.
	Evict func(apply.Eviction)

	mu    sync.Mutex
	asked map[string]*asked // by NodeClaim; guarded by mu
}

// asked is what this process knows of a reboot that it asked for.
type asked struct {
	token  string
	since  time.Time
	answer core.RebootAnswer
}

// Register adds the loop to a manager. The cache must have mirror's indexes.
func (c *Controller) Register(mgr ctrl.Manager) error {
	l := c.controller()
	l.Watch = func(b *builder.Builder) *builder.Builder {
		return b.For(&karpenterv1.NodeClaim{}, builder.WithPredicates(mirror.LifecycleChanged())).
			Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimOf))
	}
	return l.Register(mgr)
}

func (c *Controller) controller() *loop.Controller[*karpenterv1.NodeClaim] {
	return &loop.Controller[*karpenterv1.NodeClaim]{Name: controllerName, Client: c.Client, AtOnce: claimsAtOnce, Do: c.advance, Gone: c.forget}
}

// claimOf returns the NodeClaim of a Node, if its instance is rebooted.
func (c *Controller) claimOf(ctx context.Context, obj client.Object) []reconcile.Request {
	claim, err := mirror.ClaimOfNode(ctx, c.Client, obj.(*corev1.Node))
	if err != nil || claim == nil || !translate.IsRebooting(claim) {
		return nil // an ambiguous one ends by its time-outs
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Name}}}
}

// advance takes the reboot of one NodeClaim as far as it goes now.
func (c *Controller) advance(ctx context.Context, claim *karpenterv1.NodeClaim) (reconcile.Result, error) {
	if !mirror.ManagesClaim(c.Cloud.ClassKinds(), claim) {
		return reconcile.Result{}, nil
	}
	r := &reconciliation{Controller: c, claim: claim}
	if !translate.IsRebooting(claim) {
		return reconcile.Result{}, r.clear(ctx)
	}
	nodes, err := mirror.NodesOfClaim(ctx, c.Client, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(nodes) == 1 {
		r.node = &nodes[0]
	}
	for range stepsMost {
		step, err := r.step(ctx)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case step.Act == core.EndReboot:
			return reconcile.Result{}, r.clear(ctx)
		case step.Act == core.FailReboot, step.Act == core.Wait && len(step.Notes) == 0:
			if step.Until.IsZero() {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{RequeueAfter: max(step.Until.Sub(c.Now()), time.Millisecond)}, nil
		}
	}
	return reconcile.Result{RequeueAfter: loop.StaleRetry}, nil
}

// forget drops what is known of a reboot that is over.
func (c *Controller) forget(claim string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, claim)
}

// known returns what this process knows of a reboot that it asked for.
func (c *Controller) known(claim, token string) asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.asked[claim]; a != nil && a.token == token {
		return *a
	}
	return asked{token: token}
}

// remember keeps what the cloud answered.
func (c *Controller) remember(claim string, a *asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]*asked{}
	}
	c.asked[claim] = a
}
