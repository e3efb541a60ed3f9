package consolidate

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
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
	// OfferingsMin is how many offerings a spot launch must leave open, so that not everybody
	// chases one that is cheap for a moment; 0: 3.
	OfferingsMin int
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
	return Terms{ShareMin: shareMinDefault, GapMax: gapMaxDefault, StepMax: stepMaxDefault, OfferingsMin: offeringsMinDefault, Rest: restDefault}
}

// Complete returns the terms with the defaults for what they do not say.
func (t Terms) Complete() Terms {
	d := DefaultTerms()
	return Terms{
		EvictionHourly: t.EvictionHourly, ShareMin: cmp.Or(t.ShareMin, d.ShareMin), GapMax: cmp.Or(t.GapMax, d.GapMax),
		StepMax: cmp.Or(t.StepMax, d.StepMax), OfferingsMin: cmp.Or(t.OfferingsMin, d.OfferingsMin), Rest: cmp.Or(t.Rest, d.Rest),
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

// CoolingDown returns why a pod is not evicted that may have come in the place of an evicted one.
func (t *Terms) CoolingDown(r *cluster.ReschedulablePod, at time.Time) verdict.Verdict {
	if ago, rest := at.Sub(r.Moved), t.CooldownOf(r); !r.Moved.IsZero() && ago < rest {
		return verdict.Of(verdict.Unconsolidatable, "", "pod %s came %s ago, perhaps in the place of an evicted one, and is not evicted for %s", r.PodRef, ago.Round(time.Second), rest)
	}
	return verdict.Verdict{}
}

// CooldownOf returns for how long a pod is not evicted after it has come. It doubles when the pod has to move
// again and again: what is saved by that comes back, for a reason that is not seen.
func (t *Terms) CooldownOf(r *cluster.ReschedulablePod) time.Duration {
	return t.Rest << max(r.Moves-1, 0)
}
