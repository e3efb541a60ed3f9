package consolidate

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/repack"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// consolidator is one search in progress. Indexes of nodes are those of the session.
type consolidator struct {
	snap *cluster.Snapshot
	opts Options
	s    *repack.Session
	// cost is what removing a node must save at least: for the evictions, and as a share of its
	// price. It is NaN for nodes that may not be removed. weight is that of their evictions.
	cost, weight []float64
	why          []verdict.Verdict
	received     []bool // nodes that commands have put pods on
	limited      bool   // each change has to be small enough for one command
	noise        noise
	// futile are the windows in which the search in progress found nothing, by sumOf.
	futile map[topology.Sum]bool
	bought int // nodes from this index on are launched by the search in progress
	// launched is, by node, which launch of which command it is.
	launched map[int]launched
	// inStages: the commands are stages of one draft, and launches of earlier stages are computed anew
	// after the last. late: all launches are computed only then.
	inStages, late bool
	// fewTypes are spot nodes that stay because too few cheaper types could be launched for them.
	fewTypes map[int32]bool
	groups   groups
	total    map[string]total // by pool
	size     []int32          // by class: how many pods the workload has; nil: workloads need not be spread
	gain     float64          // what the commands save beyond what they cost
	out      Result
}

func newConsolidator(snap *cluster.Snapshot, opts Options, meter *effort.Meter) *consolidator {
	opts.Terms = opts.Complete()
	c := &consolidator{snap: snap, opts: opts, s: repack.NewSession(snap, opts.Pack, opts.OfferingsMin, meter), total: map[string]total{}, launched: map[int]launched{}, futile: map[topology.Sum]bool{}, fewTypes: map[int32]bool{}}
	n := len(snap.Nodes)
	c.cost, c.weight, c.why, c.received = make([]float64, n), make([]float64, n), make([]verdict.Verdict, n), make([]bool, n)
	c.bought = n
	worth, pods := 0.0, 0
	for h := range n {
		worth, pods = worth+c.s.Worth(h), pods+len(snap.Nodes[h].Reschedulable)
		if p := c.s.Nodes.Price(h); !math.IsNaN(p) {
			c.out.PriceHourly += p
		}
	}
	c.out.AfterHourly = c.out.PriceHourly
	if c.opts.EvictionHourly == 0 && pods > 0 {
		c.opts.EvictionHourly = worth / float64(pods) / 4
	}
	for h := range n {
		c.judge(h)
	}
	c.size = c.countWorkloads()
	c.bound()
	return c
}

// judge computes what removing a node of the snapshot costs, or why it may not be removed.
func (c *consolidator) judge(h int) {
	n, price := &c.snap.Nodes[h], c.s.Nodes.Price(h)
	c.cost[h] = math.NaN()
	if c.why[h] = c.opts.blocked(c.snap, n, price); !c.why[h].IsYes() {
		return
	}
	if len(c.s.Nodes.Added(h)) > 0 { // pending pods, which cannot be moved
		c.why[h] = verdict.Of(verdict.NodeBlocked, n.Name, "pending pods may use its free capacity")
		return
	}
	for i := range n.Reschedulable {
		c.weight[h] += evictionWeight(&n.Reschedulable[i], c.snap.At)
	}
	hourly, share := c.opts.EvictionHourly, c.opts.ShareMin
	if pool, ok := c.snap.PoolByName(n.Pool); ok {
		hourly, share = cmp.Or(pool.EvictionHourly, hourly), cmp.Or(pool.SavingShareMin, share)
	}
	c.cost[h] = (c.weight[h]*hourly + share*price) * youth(c.snap.At.Sub(n.Created))
}

// bound computes the lower bound of the price of all nodes. It is the larger of two: what all pods
// are worth; or the cost of the nodes that stay, plus what the movable pods are worth that do not fit
// on them.
func (c *consolidator) bound() {
	worth, stay, rest := 0.0, 0.0, 0.0
	for h := range c.snap.Nodes {
		least := c.s.Least(h)
		worth += least
		switch price := c.s.Nodes.Price(h); {
		case !math.IsNaN(c.cost[h]):
			rest += least
		case !math.IsNaN(price):
			stay += price
		}
	}
	if c.opts.Changed != nil {
		rest = 0 // nearly all nodes stay, and FreeAfter of all takes long
	}
	for h := 0; h < len(c.snap.Nodes) && rest > 0; h++ {
		if math.IsNaN(c.cost[h]) {
			rest -= c.s.FreeAfter(h)
		}
	}
	c.out.BoundHourly = min(max(worth, stay+max(rest, 0)), c.out.PriceHourly)
}

// costOf returns what removing a node costs. It is 0 for nodes that the search in progress launches,
// and NaN for nodes that may not be removed.
func (c *consolidator) costOf(h int) float64 {
	switch {
	case h >= c.bought:
		return 0
	case h >= len(c.cost) || c.received[h]:
		return math.NaN()
	}
	return c.cost[h]
}

// replaceable returns why nothing is launched for a node's pods; yes means that nodes may be.
func (c *consolidator) replaceable(h int) verdict.Verdict {
	n := c.s.Nodes.Node(h)
	if n == nil || c.opts.Replaceable == nil {
		return verdict.Verdict{}
	}
	return c.opts.Replaceable(n)
}

// ranked returns the wanted nodes, worst first: a node's rank is its use, plus the cost of removing
// it, for its price. Nodes that may not be removed are last.
func (c *consolidator) ranked(use func(h int) float64, want func(h int) bool) []int32 {
	order := []int32{}
	rank := make([]float64, c.s.Nodes.Hosts())
	for h := range c.s.Nodes.Hosts() {
		if c.s.Nodes.IsGone(h) || !want(h) {
			continue
		}
		order = append(order, int32(h))
		if rank[h] = (use(h) + c.costOf(h)) / max(c.s.Nodes.Price(h), 1e-9) * c.noise.of(h); math.IsNaN(rank[h]) {
			rank[h] = math.Inf(1)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}

// noise makes one try differ from the others; 0: nothing is changed.
type noise uint64

// of returns a factor near one for a node.
func (n noise) of(h int) float64 {
	if n == 0 {
		return 1
	}
	x := uint64(n)*0x9e3779b97f4a7c15 + uint64(h)*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	return 1 + noiseShare*(float64(x>>11)/(1<<53)-0.5)
}
