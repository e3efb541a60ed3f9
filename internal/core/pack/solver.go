package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// solver is one solve under way.
type solver struct {
	state *place.State
	// before is the topology counts before any pending pod was assigned.
	before   *topology.Ledger
	refused  []verdict.Verdict // by pending pod
	tooLarge int               // how many pods nothing can hold
	// chunks are, by class, the chunks of buffers that are held back, and withheld is how many.
	chunks   [][]int32
	withheld int
	// resilience is what spreading workloads costs and gains.
	resilience plan.Resilience
}

// fork returns a solver that goes on from the same point independently. No node must have been
// planned yet.
func (s *solver) fork() *solver {
	f := *s
	f.state, f.refused, f.chunks = s.state.Fork(), slices.Clone(s.refused), slices.Clone(s.chunks)
	return &f
}

// Options are what the operator may set. The zero value is the default.
type Options = model.Options

// ProofRoundsShort bounds a proof that somebody waits for: most of what can be proven is by then, within half a second.
const ProofRoundsShort = 20

// cost is what a plan costs: the pods refused (without those that no node can hold, or that are held back), the
// launches whose price is unknown, dollars an hour, and the number of launches.
type cost struct {
	refused, unknown int
	hourly           float64
	launches         int
}

// cost returns what the plan costs.
func (s *solver) cost() (c cost) {
	c.refused = -s.tooLarge - s.withheld
	for _, p := range s.state.Assignments {
		if p.Kind == model.Unplaced || p.Kind == model.OnPlanned && !s.state.Planned[p.Index].Refusal.IsYes() {
			c.refused++
		}
	}
	for _, b := range s.state.Planned {
		if !b.Refusal.IsYes() {
			continue
		}
		c.launches++
		if price := b.Price(b.Cheapest()); math.IsInf(price, 1) {
			c.unknown++
		} else {
			c.hourly += price
		}
	}
	return c
}

// less reports whether c is better than o: fewer refusals first, then launches of unknown
// price, dollars, and launches.
func (c cost) less(o cost) bool {
	if c.refused == o.refused && c.unknown == o.unknown && math.Abs(c.hourly-o.hourly) < priceSlack {
		return c.launches < o.launches
	}
	return cmp.Or(cmp.Compare(c.refused, o.refused), cmp.Compare(c.unknown, o.unknown), cmp.Compare(c.hourly, o.hourly)) < 0
}

// priceSlack is the difference of prices, in dollars an hour, that counts as rounding.
const priceSlack = 1e-9

// effortBase, effortPod and effortNode are the units that a decision may take, whatever it is
// about, for each pending pod, and for each node. Decisions about ordinary pods take less
// than a fifth (docs/design/solver.md).
const effortBase, effortPod, effortNode = 2_000_000, 4_000, 1_000

// effortFor returns how many units a decision about the snapshot may take.
func effortFor(o Options, snap *cluster.Snapshot) int64 {
	return cmp.Or(o.Effort, effortBase+effortPod*int64(len(snap.Pending))+effortNode*int64(len(snap.Nodes)))
}
