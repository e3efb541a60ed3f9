package nodepool

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

const healthy = karpenterv1.ConditionTypeNodeRegistrationHealthy

// Record notes how the launch of a claim ended: its Node registered, or was given up. A
// claim that no present pool owns is left out.
func (c *Controllers) Record(ctx context.Context, claim *karpenterv1.NodeClaim, registered bool) {
	np := &karpenterv1.NodePool{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpenterv1.NodePoolLabelKey]}, np, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	if !slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" && o.UID == np.UID }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.launchesOf(np)
	l.health = l.health.After(registered)
	if !registered {
		l.reason, l.message = failureOf(claim)
	}
	if c.observeAt != nil {
		c.observeAt(np.Name)
	}
}

// failureOf says why a claim did not become a node.
func failureOf(claim *karpenterv1.NodeClaim) (reason, message string) {
	conditions := condition.ForNodeClaim(claim)
	if launched := conditions.Get(karpenterv1.ConditionTypeLaunched); launched.Status != metav1.ConditionTrue {
		return cmp.Or(launched.Reason, "LaunchFailed"), launched.Message
	}
	return "RegistrationFailed", conditions.Get(karpenterv1.ConditionTypeRegistered).Message
}

// launchesOf returns what is known of the pool, beginning with its condition. The caller
// holds the lock.
func (c *Controllers) launchesOf(np *karpenterv1.NodePool) *launches {
	l := c.health[np.Name]
	if l == nil || l.pool != np.UID {
		had := condition.ForNodePool(np).Get(healthy)
		l = &launches{
			pool: np.UID, health: lifecycle.HealthFrom(lifecycle.Status(had.Status)), reason: had.Reason, message: had.Message,
		}
		if c.health == nil {
			c.health = map[string]*launches{}
		}
		c.health[np.Name] = l
	}
	return l
}

// reconcileHealth writes what is known of the pool's launches into its condition. After
// a change of the pool or its class nothing is known.
func (c *Controllers) reconcileHealth(ctx context.Context, np *karpenterv1.NodePool) error {
	class, err := c.class(ctx, np)
	if err != nil {
		return err
	}
	generation := np.Status.NodeClassObservedGeneration
	if class != nil {
		generation = class.GetGeneration()
	}
	had := condition.ForNodePool(np).Get(healthy)
	changed := had.Status == "" || had.ObservedGeneration != np.Generation || generation != np.Status.NodeClassObservedGeneration
	l := c.observe(np, changed, generations{np.Generation, generation})
	return apply.EditPool(ctx, c.Client, np, func() {
		np.Status.NodeClassObservedGeneration = generation
		conditions := condition.ForNodePool(np)
		switch status := l.health.Status(); {
		case changed || status == lifecycle.Unknown:
			conditions.SetUnknown(healthy, condition.ReasonAwaiting, "no launch has ended since the pool or its node class changed", c.Now())
		case status == lifecycle.True:
			conditions.SetTrue(healthy, c.Now())
		default:
			conditions.SetFalse(healthy, l.reason, l.message, c.Now())
		}
	})
}

// observe returns a copy of what is known of the pool's launches. It first forgets what was known
// before a change of the pool or its class, once for each change: a cache that is behind may show
// the same change again after launches have ended.
func (c *Controllers) observe(np *karpenterv1.NodePool, changed bool, since generations) launches {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.launchesOf(np)
	if changed && l.since != since {
		*l = launches{pool: np.UID, since: since}
	}
	return *l
}

func (c *Controllers) forgetHealth(pool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.health, pool)
}
