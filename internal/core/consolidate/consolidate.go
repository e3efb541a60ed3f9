// Package consolidate searches for commands that make the nodes of a cluster cheaper: nodes
// whose pods fit on others, and nodes that cheaper ones can replace, many by many.
//
// The one idea: a search works on a repack session (changes that are kept or undone), and
// turns what it found into commands only afterwards, each of which is safe by itself in the
// order in which they are listed. It decides about money and evictions alone; whether a
// command may begin now (budgets, cooldowns, what is in progress) is for core/disrupt to
// say, which hands in who is a candidate.
//
// Read consolidate.go (the search), then steps.go (what was found becomes commands), staged.go
// and progress.go (a command that is too large is done in stages), cost.go (what an eviction
// costs), spot.go, effort.go (bounds), tuning.go (the constants). It imports the core only,
// and not core/disrupt.
package consolidate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/repack"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Terms are what the operator may say of consolidation. The zero value is the default.
type Terms struct {
	// EvictionHourly is what a step must save, in dollars per hour, for each ordinary pod
	// that it evicts; 0: a quarter of what the average pod costs on new nodes.
	EvictionHourly float64
	// ShareMin is the share of the price of what a step removes that it must save besides,
	// so that like is never replaced by like; 0: 2 %.
	ShareMin float64
	// GapMax is how much the nodes may cost above the bound, as a share of it, with
	// nothing being done; 0: 2 %. Negative: there is always another look.
	GapMax float64
	// StepMax is how many nodes one command may remove at most; 0: 32.
	StepMax int
	// SpotPools is how many offerings a spot launch must leave open, so that not everybody
	// chases one that is cheap for a moment; 0: 3.
	SpotPools int
	// SpotToSpot lets spot nodes be launched in the place of spot nodes (the gate
	// SpotToSpotConsolidation).
	SpotToSpot bool
	// SpotTypesMin is how many cheaper instance types a spot node that is launched in the place of
	// one spot node must have to choose from, or the next cheaper one would soon follow; 0: 15.
	// Negative: any number.
	SpotTypesMin int
	// Rest is how long a pod that has come in the place of an evicted one is not evicted, with its
	// node; 0: ten minutes. Negative: it is not.
	Rest time.Duration
}

// DefaultTerms returns what zero values of Terms stand for.
func DefaultTerms() Terms {
	return Terms{ShareMin: shareMinDefault, GapMax: gapMaxDefault, StepMax: stepMaxDefault, SpotPools: spotPoolsDefault, Rest: restDefault}
}

// Complete returns the terms with the defaults for what they do not say.
func (t Terms) Complete() Terms {
	d := DefaultTerms()
	return Terms{
		EvictionHourly: t.EvictionHourly, ShareMin: cmp.Or(t.ShareMin, d.ShareMin), GapMax: cmp.Or(t.GapMax, d.GapMax),
		StepMax: cmp.Or(t.StepMax, d.StepMax), SpotPools: cmp.Or(t.SpotPools, d.SpotPools), Rest: cmp.Or(t.Rest, d.Rest),
		SpotToSpot: t.SpotToSpot, SpotTypesMin: cmp.Or(t.SpotTypesMin, spotTypesMinDefault),
	}
}

// Options are the terms, and what the caller knows besides. The zero value is
// the default.
type Options struct {
	Terms
	// PoolMax is how many nodes of a pool one step may remove at most; nil: StepMax.
	PoolMax func(pool string) int
	// DrainOnly buys nothing: the steps are those that need no new node, and are found
	// in a fraction of the time.
	DrainOnly bool
	// Candidate says why a node may not be removed, budgets aside; nil: each may be.
	Candidate func(*cluster.Node) verdict.Verdict
	// Replaceable says why nothing is bought for a node's pods, which may go where there is
	// room; nil: it may be.
	Replaceable func(*cluster.Node) verdict.Verdict
	// Changed reports whether anything about a node is not as it was when a look found
	// nothing to do; nil: it may be. Windows of nodes that are as they were are not
	// looked at again.
	Changed func(*cluster.Node) bool
	// MayBegin returns how many of the steps may be begun now; nil: all. Where these are few of those
	// that are found, what comes next is searched again anyway, and few tries are made.
	MayBegin func([]plan.Command) int
	// Try is the one that found most a moment ago: it is made first, and few others if it finds
	// something; 0: all are made.
	Try int
	// Pack are the options of placement.
	Pack pack.Options
}

// Result is what would make the nodes cheaper.
type Result struct {
	// Steps are in the order in which they should be taken: most saved for each eviction
	// first. Each is safe by itself, and so is every beginning of the list.
	Steps []plan.Command
	// Kept says of each node that is a candidate and stays, why.
	Kept []verdict.Verdict
	// Scores are what pools that want balance found of steps, those of Steps and others.
	Scores []plan.Score
	// PriceHourly is what the nodes cost now whose price is known; AfterHourly what they
	// would after all steps; BoundHourly what they must cost at least, wherever the pods are.
	PriceHourly, AfterHourly, BoundHourly float64
	// Try is the one of several that found these steps; 0: there are none.
	Try int
	// Effort is how many units of package effort the search took. GivenUp are the causes for which
	// searches were given up, as in plan.Plan: the nodes whose pods have most rules were left out then.
	Effort  int64
	GivenUp []string
}

// Search returns the steps that make the price of all nodes, and a price for
// every eviction, as low as it can find.
//
// Nodes are drained that carry little worth for their price and their evictions, into
// those that carry most; then windows of the worst that are left are replaced by new
// ones, many by many. Pods that only moved in thought move again for nothing, so that no
// pod is evicted twice.
//
// A search may take so much effort and no more: then what it has found is the answer. If that is
// nothing, or the search ends in a bug, it is made again without the nodes whose pods have most rules.
func Search(snap *cluster.Snapshot, opts Options) Result {
	var givenUp []string
	for attempt := 0; ; attempt++ {
		out, cause := trySearch(snap, opts)
		if cause != "" {
			givenUp = append(givenUp, cause)
		}
		if cause == "" || len(out.Steps) > 0 || attempt == searchesMax {
			out.GivenUp = givenUp
			return out
		}
		snap = withoutHeavy(snap)
	}
}

// trySearch is one search. cause is empty, or why it did not come to its end: then out is
// what it had found.
func trySearch(snap *cluster.Snapshot, opts Options) (out Result, cause string) {
	meter := effort.New(searchEffort(snap, opts))
	defer func() {
		if r := recover(); r != nil {
			out, cause = Result{}, effort.Bug(r)
		}
		out.Effort = meter.Spent()
	}()
	if !meter.Run(func() { consolidate(snap, opts, meter, &out) }) {
		cause = plan.CauseEffort
	}
	return out, cause
}

// consolidate is one search. It writes to best whenever it has found something better.
func consolidate(snap *cluster.Snapshot, opts Options, meter *effort.Meter, best *Result) {
	c := newConsolidator(snap, opts, meter)
	if c.out.PriceHourly > c.out.BoundHourly*(1+c.opts.GapMax) || c.opts.GapMax < 0 {
		c.bestOfTries(best)
		return
	}
	c.noteKept()
	*best = c.out
}

// bestOfTries plans a few times where there are few nodes, with these in another order
// each time, and leaves the plan that gains most in best.
func (c *consolidator) bestOfTries(best *Result) {
	nodes := len(c.snap.Nodes)
	tries := min(max(triesNodesMax/max(nodes, 1), 1), triesMax)
	if c.opts.DrainOnly || c.opts.Changed != nil {
		tries = 1
	}
	none, most := c.out, -1.0
	*best = none
	attempt := func(try int) {
		mark := c.s.Nodes.Begin()
		c.out, c.gain, c.noise, c.limited = none, 0, noise(try), c.opts.DrainOnly
		clear(c.received)
		clear(c.launched)
		c.plan(most)
		if c.gain > most {
			c.noteKept()
			*best, most = c.out, c.gain
			if len(best.Steps) > 0 {
				best.Try = try + 1
			}
		}
		c.s.Nodes.Undo(mark)
		c.s.Launcher.Remember(removed(c.out.Steps) <= nodes/littleShare)
	}
	few := func() bool {
		return c.opts.MayBegin != nil && len(best.Steps) >= fewShare*max(c.opts.MayBegin(best.Steps), 1)
	}
	if c.opts.Try > 0 {
		if attempt(c.opts.Try - 1); most > 0 {
			tries = min(tries, triesAgain)
		}
		if few() {
			return
		}
	}
	for try, futile := 0, 0; try < tries && futile < triesFutile; try++ {
		if try == c.opts.Try-1 {
			continue // it has been made
		}
		had := most
		if attempt(try); most > max(had, 0)+moreShare*none.PriceHourly {
			futile = 0
		} else {
			futile++
		}
		if few() {
			tries = min(tries, triesAgain)
		}
	}
}

// removed returns how many nodes the steps remove.
func removed(steps []plan.Command) (n int) {
	for i := range steps {
		n += len(steps[i].Remove)
	}
	return n
}

// plan searches, makes steps of what it found, and looks again where that was not all, unless it
// would find the same. It gives up what can't come near what was gained before.
func (c *consolidator) plan(gained float64) {
	for range searchRoundsMax {
		had, drafts := len(c.out.Steps), c.search()
		if c.estimateOf(drafts) < hopelessShare*gained {
			return
		}
		if all := c.makeSteps(drafts); all || c.opts.DrainOnly || c.limited && len(c.out.Steps) == had {
			return
		}
		c.conclude()
		c.limited = true
	}
}

// estimateOf returns what drafts would save beyond what they cost, with all steps made so far.
func (c *consolidator) estimateOf(drafts []*draft) float64 {
	sum := c.gain
	for _, d := range drafts {
		sum += d.saving
		for _, h := range d.remove {
			sum -= c.cost[h]
		}
	}
	return sum
}

// consolidator is one search in progress. Indexes of nodes are those of the session.
type consolidator struct {
	snap *cluster.Snapshot
	opts Options
	s    *repack.Session
	// cost is what evicting a node's pods costs, with what must be saved besides. It is
	// NaN for nodes that may not go. weight is that of their evictions.
	cost, weight []float64
	why          []verdict.Verdict
	received     []bool // nodes that commands have put pods on
	limited      bool   // each change is to be small enough for a step
	noise        noise
	// futile are the windows in which the search in progress found nothing, by sumOf.
	futile map[topology.Sum]bool
	bought int // nodes from this index on are bought by the search in progress
	// launched says which launch a node is that steps have bought.
	launched map[int]launched
	// inStages: commands are stages, and launches of earlier ones are worked out anew after the last; late:
	// what is launched is worked out only then.
	inStages, late bool
	// fewTypes are spot nodes that stay because too few cheaper types could be launched for them.
	fewTypes map[int32]bool
	groups   groups
	total    map[string]total // by pool
	gain     float64          // what the steps save beyond what they cost
	out      Result
}

func newConsolidator(snap *cluster.Snapshot, opts Options, meter *effort.Meter) *consolidator {
	opts.Terms = opts.Complete()
	c := &consolidator{snap: snap, opts: opts, s: repack.NewSession(snap, opts.Pack, opts.SpotPools, meter), total: map[string]total{}, launched: map[int]launched{}, futile: map[topology.Sum]bool{}, fewTypes: map[int32]bool{}}
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
	c.bound()
	return c
}

// judge works out what removing a node of the snapshot costs, or why it may not go.
func (c *consolidator) judge(h int) {
	n, price := &c.snap.Nodes[h], c.s.Nodes.Price(h)
	c.cost[h] = math.NaN()
	if c.why[h] = c.blocked(n, price); !c.why[h].IsYes() {
		return
	}
	if len(c.s.Nodes.Added(h)) > 0 { // pods that wait, which are no reschedulable pods that could move
		c.why[h] = verdict.Of(verdict.NodeBlocked, n.Name, "pods that wait may want its room")
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

// bound works out what all nodes together must cost at least: what the pods are worth; or
// what those cost that may not go, with what the pods of the others are worth beyond those
// that these have room for.
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
		rest = 0 // nearly all stay, and that takes long
	}
	for h := 0; h < len(c.snap.Nodes) && rest > 0; h++ {
		if math.IsNaN(c.cost[h]) {
			rest -= c.s.FreeAfter(h)
		}
	}
	c.out.BoundHourly = min(max(worth, stay+max(rest, 0)), c.out.PriceHourly)
}

// search looks for what could be cheaper, and returns what it found. The session is as it
// was before.
func (c *consolidator) search() []*draft {
	mark := c.s.Nodes.Begin()
	c.bought = c.s.Nodes.Hosts()
	c.groups.forget()
	clear(c.futile)
	c.drain()
	if !c.opts.DrainOnly {
		c.replace()
	}
	drafts := c.drafts()
	c.s.Nodes.Undo(mark)
	return drafts
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

// drain removes nodes, worst first, whose pods all find room on others.
func (c *consolidator) drain() {
	order := c.ranked(c.s.Room, func(int) bool { return true })
	best := slices.Clone(order)
	slices.Reverse(best)
	c.s.Rescheduler.Rank(best)
	for _, h := range order {
		h := int(h)
		if cost := c.costOf(h); math.IsNaN(cost) || c.s.Nodes.Price(h) < cost || !c.s.Rescheduler.MayLeave(h) {
			continue
		}
		mark := c.s.Nodes.Begin()
		c.s.Nodes.Remove(h)
		if !c.s.Rescheduler.RescheduleOrFail() || !c.keep(mark, []int32{int32(h)}) {
			c.s.Nodes.Undo(mark)
		}
	}
}

// ranked returns the nodes that are wanted, those first whose use, with what removing
// them costs, is least for their price. Those that may not go are last.
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

// costOf returns what removing a node costs; nothing for those that are bought only in
// thought, and NaN for those that may not go.
func (c *consolidator) costOf(h int) float64 {
	switch {
	case h >= c.bought:
		return 0
	case h >= len(c.cost) || c.received[h]:
		return math.NaN()
	}
	return c.cost[h]
}

// replaceable says why nothing is bought for a node's pods; yes means that it may be.
func (c *consolidator) replaceable(h int) verdict.Verdict {
	n := c.s.Nodes.Node(h)
	if n == nil || c.opts.Replaceable == nil {
		return verdict.Verdict{}
	}
	return c.opts.Replaceable(n)
}

// conclude keeps the nodes that steps have put pods on: nobody is to be evicted twice.
func (c *consolidator) conclude() {
	for h := range c.received {
		c.received[h] = len(c.s.Nodes.Added(h)) > 0
	}
}

// replace puts new nodes in the place of windows of the worst.
func (c *consolidator) replace() {
	rounds := roundsMax
	if len(c.snap.Nodes) > manyNodes {
		rounds = roundsFew
	}
	c.windows(rounds, func(h int) bool { return !math.IsNaN(c.costOf(h)) && c.replaceable(h).IsYes() }, func(hosts []int32) bool {
		mark := c.s.Nodes.Begin()
		if !c.swap(mark, hosts) {
			return false
		}
		if !c.keep(mark, hosts) {
			c.s.Nodes.Undo(mark)
			return false
		}
		return true
	})
}

// windows goes over windows of the nodes that are wanted, worst first, as long as one
// of them gains something.
func (c *consolidator) windows(rounds int, want func(h int) bool, gains func(hosts []int32) bool) {
	var order []int32
	stale := true
	for range rounds {
		gained := false
		for _, size := range []int{1, 3, 8, 32} {
			if stale {
				order, stale = c.ranked(c.s.Worth, want), false
			}
			c.s.Rescheduler.Probe()
			for from := 0; from < len(order); from += size {
				if gains(order[from:min(from+size, len(order))]) {
					gained, stale = true, true
				}
			}
		}
		if !gained {
			return
		}
	}
}

// swap removes nodes and buys others for their pods, if that saves enough. Windows that come
// again as they were are left alone: while others change, room for their pods hardly gets more.
func (c *consolidator) swap(mark int, hosts []int32) bool {
	if c.opts.Changed != nil && !slices.ContainsFunc(hosts, func(h int32) bool { n := c.s.Nodes.Node(int(h)); return n == nil || c.opts.Changed(n) }) {
		return false
	}
	sum := c.sumOf(hosts)
	if c.futile[sum] {
		return false
	}
	limit, worth := -leastSaving, 0.0
	for _, h := range hosts {
		limit += c.s.Nodes.Price(int(h)) - c.costOf(int(h))
		worth += c.s.Worth(int(h))
	}
	if limit <= worth {
		return false
	}
	for _, h := range hosts {
		c.s.Nodes.Remove(int(h))
	}
	if c.s.Rescheduler.Reschedule() {
		return true
	}
	if _, ok := c.s.Launcher.LaunchFor(limit); ok {
		return true
	}
	c.s.Nodes.Undo(mark)
	c.futile[sum] = true
	return false
}

// sumOf returns a sum of nodes, in any order, and of what was put on them.
func (c *consolidator) sumOf(hosts []int32) (sum topology.Sum) {
	for _, h := range hosts {
		one := topology.Sum(0).Add(uint64(h)).Add(uint64(c.s.Nodes.Bin(int(h))))
		for _, sh := range c.s.Nodes.Added(int(h)) {
			one = one.Add(uint64(sh.Class)<<32 | uint64(sh.N))
		}
		sum += one
	}
	return sum
}
