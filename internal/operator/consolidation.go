package operator

import (
	"cmp"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// addConsolidation adds the terms of consolidation.
func (s *Settings) addConsolidation(a adder) {
	d := consolidate.DefaultTerms()
	a.factor(&s.ConsolidationEvictionDollars, "consolidation-eviction-hourly-dollars", 0, "what consolidation must save per hour for each ordinary pod that it evicts; 0: a quarter of what the average pod costs. Annotation dovetail.sh/eviction-hourly-dollars of a NodePool overrides it")
	a.factor(&s.ConsolidationSavingShareMin, "consolidation-saving-share-min", d.ShareMin, "share of the price of the removed nodes that consolidation must save in addition. Annotation dovetail.sh/saving-share-min of a NodePool overrides it")
	a.factor(&s.ConsolidationGapMax, "consolidation-gap-max", d.GapMax, "gap between the price of all nodes and its lower bound, as a share of the bound, below which consolidation stops searching; 0: it always searches")
	a.number(&s.ConsolidationStepMax, "consolidation-step-max", d.StepMax, "largest number of nodes that one consolidation command removes")
	a.number(&s.ConsolidationSpotPools, "consolidation-spot-pools", d.OfferingsMin, "smallest number of offerings (instance types in zones) that a spot launch of consolidation must be able to choose from")
	a.duration(&s.ConsolidationRest, "consolidation-rest", d.Rest, "cooldown: how long consolidation does not evict the replacement of an evicted pod; it doubles each time the pod is evicted again soon after")
}

func (s *Settings) validateConsolidation() error {
	least := func(flag string, value, least float64) error {
		if value >= least {
			return nil
		}
		return fmt.Errorf("--%s is %g; it may be %g or more", flag, value, least)
	}
	var share, rest error
	if v := s.ConsolidationSavingShareMin; !(v > 0 && v <= 1) {
		share = fmt.Errorf("--consolidation-saving-share-min is %g; it may be above 0, up to 1", v)
	}
	if s.ConsolidationRest < 0 {
		rest = fmt.Errorf("--consolidation-rest is %s; it may be 0s or more", s.ConsolidationRest)
	}
	return cmp.Or(
		least("consolidation-eviction-hourly-dollars", s.ConsolidationEvictionDollars, 0), share,
		least("consolidation-gap-max", s.ConsolidationGapMax, 0), least("consolidation-step-max", float64(s.ConsolidationStepMax), 1),
		least("consolidation-spot-pools", float64(s.ConsolidationSpotPools), 1), rest,
	)
}

// terms returns what the settings say of consolidation. The core reads 0 as the default,
// and less as none.
func (s *Settings) terms() consolidate.Terms {
	gates, _ := s.Gates() // Validate has read them
	t := consolidate.Terms{
		SpotToSpot:     gates["SpotToSpotConsolidation"],
		EvictionHourly: s.ConsolidationEvictionDollars, ShareMin: s.ConsolidationSavingShareMin, GapMax: s.ConsolidationGapMax,
		StepMax: s.ConsolidationStepMax, OfferingsMin: s.ConsolidationSpotPools, Rest: s.ConsolidationRest,
	}
	if t.GapMax == 0 {
		t.GapMax = -1
	}
	if t.Rest == 0 {
		t.Rest = -1
	}
	return t
}

// packing returns what the settings say of where pods go and what is launched.
func (s *Settings) packing() pack.Options {
	return pack.Options{
		MinValuesBestEffort: s.MinValuesPolicy == "BestEffort",
		PriceCap:            s.LaunchPriceCap,
		IgnorePreferences:   s.PreferencePolicy == "Ignore",
		ResiliencePremium:   s.ResiliencePremium,
	}
}
