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
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// countEvery is how often the capacity of a pool is counted when there is news of machines.
	countEvery = 5 * time.Second
	// countMax is for how long a count holds without any: prices change without.
	countMax = time.Minute
)

// count is when a pool was counted, and what was known then.
type count struct {
	at       time.Time
	machines uint64
	pool     string // its resource version
	written  string // and that after what was counted was written, which is no reason to count again
	shares   []share
}

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
	machines, unclaimed := shares(claims.Items, nodes.Items, c.sharesOf(np.Name))
	used := usage(machines, unclaimed)
	c.gauge(c.Metrics.NodePoolsLimit, np.Name, translate.Quantities(np.Spec.Limits))
	c.gauge(c.Metrics.NodePoolsUsage, np.Name, used)
	ref := np.Spec.Template.Spec.NodeClassRef
	known, _ := c.Types(cloud.ClassRef{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}) // without them prices are unknown
	c.Metrics.NodePoolsCost.WithLabelValues(np.Name).Set(cost(machines, known))
	err := apply.EditPool(ctx, c.Client, np, func() {
		nodes := used[quantity.Nodes]
		np.Status.Nodes = &nodes
		if list := translate.ResourceList(used); !apiequality.Semantic.DeepEqual(list, np.Status.Resources) {
			np.Status.Resources = list
		}
	})
	if err == nil {
		now.written, now.shares = np.ResourceVersion, machines
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[np.Name] = now
	}
	return err
}

// sharesOf returns what the machines of a pool were of it when it was last counted, by claim.
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

// counted returns what is known of a pool now, and whether it was counted knowing that.
func (c *Controllers) counted(np *karpenterv1.NodePool) (now count, done bool) {
	now = count{at: c.Now(), pool: np.ResourceVersion}
	if c.Machines != nil {
		now.machines = c.Machines(np.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]count{}
	}
	had, known := c.counts[np.Name]
	isNews := !known || now.pool != had.pool && now.pool != had.written || now.machines != had.machines
	return now, c.Machines != nil && !isNews && now.at.Sub(had.at) < countMax
}

// usage returns the capacity of a pool's machines and their number. Those on their way
// out do not count, nor do claims that are not launched yet.
func usage(shares []share, unclaimed map[string]*corev1.Node) quantity.List {
	used := quantity.List{quantity.CPU: 0, quantity.Memory: 0, quantity.Pods: 0, quantity.EphemeralStorage: 0, quantity.Nodes: 0}
	machines := int64(0)
	for i := range shares {
		if shares[i].isUsed {
			machines++
			for _, a := range shares[i].has {
				used[a.name] = quantity.Add(used[a.name], a.n)
			}
		}
	}
	for _, node := range unclaimed {
		if node.DeletionTimestamp == nil {
			used.Add(translate.Quantities(node.Status.Capacity))
			machines++
		}
	}
	used[quantity.Nodes] += machines
	return used
}

// share is what a launched claim's machine is of its pool, as of the versions of the claim and
// its Node. Most are as they were when the next count comes.
type share struct {
	claim, node state
	isUsed      bool // it is not on its way out
	has         []amount
	offer
}

// state tells a state of an object from all others.
type state struct {
	uid     types.UID
	version string
}

func stateOf(o client.Object) state { return state{o.GetUID(), o.GetResourceVersion()} }

type amount struct {
	name string
	n    int64
}

// offer is where a price stands.
type offer struct{ instanceType, zone, capacityType string }

// shares returns those of the claims that are launched, in their order, and the Nodes by provider
// ID that are of none of them. What had of a claim that is as it was, and its Node too, still holds.
func shares(claims []karpenterv1.NodeClaim, nodes []corev1.Node, had map[types.UID]share) (all []share, unclaimed map[string]*corev1.Node) {
	unclaimed = make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		if id := nodes[i].Spec.ProviderID; id != "" {
			unclaimed[id] = &nodes[i]
		}
	}
	all = make([]share, 0, len(claims))
	for i := range claims {
		claim := &claims[i]
		if claim.Status.ProviderID == "" {
			continue
		}
		node := unclaimed[claim.Status.ProviderID]
		delete(unclaimed, claim.Status.ProviderID)
		now := share{claim: stateOf(claim)}
		if node != nil {
			now.node = stateOf(node)
		}
		if before, ok := had[claim.UID]; ok && before.claim == now.claim && before.node == now.node {
			all = append(all, before)
			continue
		}
		now.isUsed = claim.DeletionTimestamp == nil && !condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeInstanceTerminating)
		now.has = capacityOf(claim, node)
		now.offer = offer{claim.Labels[label.InstanceType], claim.Labels[label.Zone], claim.Labels[label.CapacityType]}
		all = append(all, now)
	}
	return all, unclaimed
}

// capacityOf returns what a machine has: as its Node says, and where that says nothing (yet), as
// was promised at the launch.
func capacityOf(claim *karpenterv1.NodeClaim, node *corev1.Node) (has []amount) {
	var said corev1.ResourceList
	if node != nil {
		said = node.Status.Capacity
	}
	for name, q := range said {
		if n := translate.Amount(name, q); n != 0 {
			has = append(has, amount{string(name), n})
		}
	}
	for name, q := range claim.Status.Capacity {
		if now, ok := said[name]; !ok || now.IsZero() {
			has = append(has, amount{string(name), translate.Amount(name, q)})
		}
	}
	return has
}

// cost returns what the machines cost in dollars per hour. What is not known to have a price
// counts as nothing.
func cost(shares []share, known []*catalog.Type) float64 {
	byName := make(map[string]*catalog.Type, len(known))
	for _, t := range known {
		byName[t.Name] = t
	}
	var sum float64
	for i := range shares {
		sum += price(&shares[i].offer, byName[shares[i].instanceType])
	}
	return sum
}

// price returns what an offer of a type costs, nil if the type is not known.
func price(at *offer, t *catalog.Type) (hourly float64) {
	if t == nil {
		return 0
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.HasPrice() && o.Zone == at.zone && o.CapacityType == at.capacityType {
			hourly = o.PriceHourly
		}
	}
	return hourly
}

// gaugeOf is one pool's part of one metric.
type gaugeOf struct {
	metric *prometheus.GaugeVec
	pool   string
}

// gauge shows amounts by resource, and takes back what it showed of others before.
func (c *Controllers) gauge(metric *prometheus.GaugeVec, pool string, amounts quantity.List) {
	c.mu.Lock()
	before := c.told[gaugeOf{metric, pool}]
	if c.told == nil {
		c.told = map[gaugeOf]quantity.List{}
	}
	c.told[gaugeOf{metric, pool}] = amounts
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
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.counts, pool)
	delete(c.told, gaugeOf{c.Metrics.NodePoolsLimit, pool})
	delete(c.told, gaugeOf{c.Metrics.NodePoolsUsage, pool})
}
