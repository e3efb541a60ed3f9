package nodepool

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// countEvery is how often the capacity of a pool is counted while its nodes change.
	countEvery = 5 * time.Second
	// countMax is for how long a count is valid while no node changes: prices may change.
	countMax = time.Minute
)

// reconcileUsage writes how much capacity the pool has, in its status and as metrics.
func (c *Controllers) reconcileUsage(ctx context.Context, np *karpenterv1.NodePool) error {
	if c.Synced != nil && !c.Synced() {
		return nil
	}
	now, done := c.counted(np)
	if done {
		return nil
	}
	var claims karpenterv1.NodeClaimList
	if err := c.Client.List(ctx, &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: np.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list claims of pool %s: %w", np.Name, err)
	}
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes, client.MatchingLabels{karpenterv1.NodePoolLabelKey: np.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list nodes of pool %s: %w", np.Name, err)
	}
	counted, unclaimed := shares(claims.Items, nodes.Items, c.sharesOf(np.Name))
	used := usage(counted, unclaimed)
	c.gauge(c.Metrics.NodePoolsLimit, np.Name, translate.Quantities(np.Spec.Limits))
	c.gauge(c.Metrics.NodePoolsUsage, np.Name, used)
	known, _ := c.Types(mirror.ClassOfPool(np)) // without them prices are unknown
	hourly, allKnown := cost(counted, known)
	c.Metrics.NodePoolsCost.WithLabelValues(np.Name).Set(hourly)
	if !allKnown {
		c.Metrics.NodePoolsCostTrackerErrors.WithLabelValues(np.Name).Inc()
	}
	err := apply.EditPool(ctx, c.Client, np, func() {
		nodes := used[quantity.Nodes]
		np.Status.Nodes = &nodes
		if list := translate.ResourceList(used); !apiequality.Semantic.DeepEqual(list, np.Status.Resources) {
			np.Status.Resources = list
		}
	})
	if err == nil {
		now.written, now.shares = np.ResourceVersion, counted
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[np.Name] = now
	}
	return err
}

// sharesOf returns the shares of a pool when it was last counted, by claim.
func (c *Controllers) sharesOf(pool string) map[types.UID]share {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.counts[pool].shares
	byClaim := make(map[types.UID]share, len(had))
	for i := range had {
		byClaim[had[i].claim.uid] = had[i]
	}
	return byClaim
}

// counted returns what the usage of a pool depends on now, and whether the last count was made
// with the same.
func (c *Controllers) counted(np *karpenterv1.NodePool) (now count, done bool) {
	now = count{at: c.Now(), pool: np.ResourceVersion}
	if c.NodeVersion != nil {
		now.nodes = c.NodeVersion(np.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]count{}
	}
	had, known := c.counts[np.Name]
	isTrigger := !known || now.pool != had.pool && now.pool != had.written || now.nodes != had.nodes
	return now, c.NodeVersion != nil && !isTrigger && now.at.Sub(had.at) < countMax
}

// gauge sets a metric to amounts by resource, and deletes the values of other resources.
func (c *Controllers) gauge(metric *prometheus.GaugeVec, pool string, amounts quantity.List) {
	c.mu.Lock()
	before := c.reported[gaugeOf{metric, pool}]
	if c.reported == nil {
		c.reported = map[gaugeOf]quantity.List{}
	}
	c.reported[gaugeOf{metric, pool}] = amounts
	c.mu.Unlock()
	for name := range before {
		if _, still := amounts[name]; !still {
			metric.DeleteLabelValues(name, pool)
		}
	}
	for name, amount := range amounts {
		value := float64(amount)
		if name == quantity.CPU {
			value /= 1000
		}
		metric.WithLabelValues(name, pool).Set(value)
	}
}

func (c *Controllers) forgetUsage(pool string) {
	c.gauge(c.Metrics.NodePoolsLimit, pool, nil)
	c.gauge(c.Metrics.NodePoolsUsage, pool, nil)
	c.Metrics.NodePoolsCost.DeleteLabelValues(pool)
	c.Metrics.NodePoolsCostTrackerErrors.DeleteLabelValues(pool)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.counts, pool)
	delete(c.reported, gaugeOf{c.Metrics.NodePoolsLimit, pool})
	delete(c.reported, gaugeOf{c.Metrics.NodePoolsUsage, pool})
}
