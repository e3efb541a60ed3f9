package consolidate

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Terms are what the operator can set for consolidation. The zero value is the default.
type Terms struct {
	// EvictionHourly is what a command must save, in dollars per hour, for each ordinary pod
	// that it evicts; 0: a quarter of what the average pod costs on new nodes.
	EvictionHourly float64
	// ShareMin is the share of the price of its nodes that a command must save in addition, so that
	// a node is never replaced by one like it; 0: 2 %.
	ShareMin float64
	// GapMax is by how much the nodes may cost more than the lower bound, as a share of it, without
	// a search; 0: 2 %. Negative: it is always searched.
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
	// Rest is the cooldown of a pod that has come in the place of an evicted one: for so long
	// neither it is evicted nor its node removed; 0: ten minutes. Negative: there is none.
	Rest time.Duration
}

// DefaultTerms returns the values that zero values of Terms stand for.
func DefaultTerms() Terms {
	return Terms{ShareMin: shareMinDefault, GapMax: gapMaxDefault, StepMax: stepMaxDefault, OfferingsMin: offeringsMinDefault, Rest: restDefault}
}

// Complete returns the terms with defaults in the place of zero values.
func (t Terms) Complete() Terms {
	d := DefaultTerms()
	return Terms{
		EvictionHourly: t.EvictionHourly, ShareMin: cmp.Or(t.ShareMin, d.ShareMin), GapMax: cmp.Or(t.GapMax, d.GapMax),
		StepMax: cmp.Or(t.StepMax, d.StepMax), OfferingsMin: cmp.Or(t.OfferingsMin, d.OfferingsMin), Rest: cmp.Or(t.Rest, d.Rest),
		SpotToSpot: t.SpotToSpot, SpotTypesMin: cmp.Or(t.SpotTypesMin, spotTypesMinDefault),
	}
}

// Options are the terms, and what the caller knows. The zero value is the default.
type Options struct {
	Terms
	// PoolMax is how many nodes of a pool one command may remove at most; nil: StepMax.
	PoolMax func(pool string) int
	// DrainOnly finds only commands that launch nothing, in a fraction of the time.
	DrainOnly bool
	// Candidate returns why a node may not be removed, whatever the budgets allow; nil: each may be.
	Candidate func(*cluster.Node) verdict.Verdict
	// Replaceable returns why nothing is launched for a node's pods, which may still go where there
	// is room; nil: nodes may be launched for all.
	Replaceable func(*cluster.Node) verdict.Verdict
	// Changed reports whether a node has changed since a search found nothing to do; nil: all may
	// have. Nodes are replaced only together with one that has changed.
	Changed func(*cluster.Node) bool
	// MayBegin returns how many of the commands may be begun now; nil: all. If these are few of those
	// that are found, the others are searched again anyway, and few orders of nodes are tried.
	MayBegin func([]plan.Command) int
	// Try is the order of nodes (Result.Try) that saved most a short time ago. It is tried first, and
	// few others if it finds something; 0: all are tried.
	Try int
	// Pack are the options of placement.
	Pack pack.Options
}

// Result is what would make the nodes cheaper.
type Result struct {
	// Steps are the commands in the order in which they should be begun: those first that save most
	// for each eviction. Each beginning of the list is safe without the rest.
	Steps []plan.Command
	// Kept has, for each candidate that stays, why it stays.
	Kept []verdict.Verdict
	// Scores are how pools with the policy Balanced scored commands, those of Steps and others.
	Scores []plan.Score
	// PriceHourly is what the nodes cost now, as far as prices are known, AfterHourly what they will
	// cost after all commands, and BoundHourly the lower bound: what nodes for these pods cost at least.
	PriceHourly, AfterHourly, BoundHourly float64
	// Try is the number of the order of nodes that found these commands; 0: there are none.
	Try int
	// Effort is how many units of package effort the search took. GivenUp are the causes for which
	// searches were given up, as in plan.Plan: the nodes whose pods have most rules were left out then.
	Effort  int64
	GivenUp []string
}

// CoolingDown returns why a pod is not evicted: it may have come in the place of an evicted one.
func (t *Terms) CoolingDown(r *cluster.ReschedulablePod, at time.Time) verdict.Verdict {
	if ago, rest := at.Sub(r.Moved), t.CooldownOf(r); !r.Moved.IsZero() && ago < rest {
		return verdict.Of(verdict.Unconsolidatable, "", "pod %s came %s ago, perhaps in the place of an evicted one, and is not evicted for %s", r.PodRef, ago.Round(time.Second), rest)
	}
	return verdict.Verdict{}
}

// CooldownOf returns for how long a pod is not evicted after it has come. It doubles each time the pod
// has to move again: then what a move saves is lost again, for a reason that the search does not see.
func (t *Terms) CooldownOf(r *cluster.ReschedulablePod) time.Duration {
	return t.Rest << max(r.Moves-1, 0)
}

// CoolsDownAt returns when a pod that has come may be evicted again.
func (t *Terms) CoolsDownAt(r *cluster.ReschedulablePod) time.Time {
	return r.Moved.Add(t.CooldownOf(r))
}
