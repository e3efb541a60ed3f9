package consolidate

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// spotMost returns how many spot nodes may be launched in the place of the nodes. Without SpotToSpot
// that is one for each of them that is not spot, and any number if none of them is spot.
func (c *consolidator) spotMost(remove []int32) int {
	spot := 0
	for _, h := range remove {
		if c.s.Nodes.IsSpot(int(h)) {
			spot++
		}
	}
	if spot == 0 || c.opts.SpotToSpot {
		return math.MaxInt
	}
	return len(remove) - spot
}

// spotIn returns how many spot nodes the search in progress has launched in changes of these groups.
func (c *consolidator) spotIn(roots []int32) int {
	spot := 0
	for h := c.bought; h < c.s.Nodes.Hosts(); h++ {
		if !c.s.Nodes.IsGone(h) && c.s.Nodes.IsSpot(h) && slices.Contains(roots, c.groups.find(c.s.Nodes.Since(h))) {
			spot++
		}
	}
	return spot
}

// typesMin returns how many instance types a spot launch in the place of the nodes must have to
// choose from; 0: any number.
func (c *consolidator) typesMin(remove []int32) int {
	if len(remove) > 1 || !c.s.Nodes.IsSpot(int(remove[0])) {
		return 0
	}
	return max(c.opts.SpotTypesMin, 0)
}

// spotStays returns why a spot node stays that could be replaced if it were not spot; yes: it
// stays for another reason.
func (c *consolidator) spotStays(h int) verdict.Verdict {
	name := c.snap.Nodes[h].Name
	switch {
	case !c.s.Nodes.IsSpot(h) || c.s.Nodes.Price(h)-c.s.Worth(h) < c.cost[h]:
		return verdict.Verdict{}
	case !c.opts.SpotToSpot:
		return verdict.Of(verdict.Unconsolidatable, name, "SpotToSpotConsolidation is disabled: a spot node is not replaced by a spot node")
	case c.fewTypes[int32(h)]:
		return verdict.Of(verdict.Unconsolidatable, name, "SpotToSpotConsolidation requires %d cheaper instance types to replace one spot node", c.opts.SpotTypesMin)
	default:
		return verdict.Verdict{}
	}
}
