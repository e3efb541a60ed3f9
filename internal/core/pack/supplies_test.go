package pack_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestNoPlanTakesMoreThanIsLeft plans random clusters whose offerings draw on random supplies.
func TestNoPlanTakesMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		declareSupplies(t, snap)
		snap.Nodes = slices.DeleteFunc(snap.Nodes, func(n cluster.Node) bool { return n.InFlight != nil && !mayCome(snap, &n) })
		opts := pack.Options{FirstFitOnly: rapid.Bool().Draw(t, "first fit only"), ResiliencePremium: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "premium")}
		p := pack.Decide(snap, opts)
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{suppliesHold, everyPodOnce, nodesHold, launchesHold, limitsHold, neighboursHold} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
	})
}

// mayCome reports whether an in-flight NodeClaim can be launched. The checks cannot say where one would be that cannot.
func mayCome(snap *cluster.Snapshot, n *cluster.Node) bool {
	pool, ok := snap.PoolByName(n.Pool)
	return ok && slices.ContainsFunc(catalog.Choices(pool.Types, n.InFlight.Requirements, nil), func(c catalog.Choice) bool { return slices.Contains(n.InFlight.Types, c.Type.Name) })
}

// declareSupplies has offerings of the snapshot draw on some of three supplies.
func declareSupplies(t *rapid.T, snap *cluster.Snapshot) {
	left := rapid.SliceOfN(rapid.IntRange(0, 8), 3, 3).Draw(t, "left")
	seen := map[*catalog.Type]bool{}
	for i := range snap.Pools {
		for _, typ := range snap.Pools[i].Types {
			if seen[typ] {
				continue
			}
			seen[typ] = true
			for k := range typ.Offerings {
				for at, units := range rapid.SliceOfN(rapid.IntRange(0, 4), 3, 3).Draw(t, "units") {
					if units > 0 {
						typ.Offerings[k].Draws = append(typ.Offerings[k].Draws, catalog.Draw{Supply: fmt.Sprint("s", at), Units: units, Left: left[at]})
					}
				}
			}
		}
	}
}

// suppliesHold checks that whatever a launch may become is covered by what is left beside the first
// choices of the launches before it.
func suppliesHold(snap *cluster.Snapshot, p *plan.Plan) error {
	left := cluster.SuppliesLeft(snap).Left
	for i := range p.Launches {
		l := &p.Launches[i]
		pool, _ := snap.PoolByName(l.Pool)
		choices := catalog.Choices(pool.Types, l.Requirements, l.Requests)
		for _, c := range choices {
			for _, d := range c.Offering.Draws {
				if left[d.Supply] < d.Units {
					return fmt.Errorf("launch %d may be %s in %s, which takes %d of %s, and %d are left", i, c.Type.Name, c.Offering.Zone, d.Units, d.Supply, left[d.Supply])
				}
			}
		}
		for _, d := range choices[0].Offering.Draws {
			left[d.Supply] -= d.Units
		}
	}
	return nil
}
