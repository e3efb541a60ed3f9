package pack_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestEveryPlanIsSound checks plans of random clusters with rules that share nothing
// with the solver.
func TestEveryPlanIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		p := pack.Solve(snap, pack.Options{})
		again, err := story.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		q := pack.Solve(again, pack.Options{})
		if story.Print(&p) != story.Print(&q) {
			t.Fatalf("two plans for\n%s\n%s\n%s", text, story.Print(&p), story.Print(&q))
		}
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{everyPodOnce, machinesHold, launchesHold, limitsHold, neighboursHold, priceHolds} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
	})
}

// priceHolds tells whether the bound is one, and first-fit-decreasing no better.
func priceHolds(snap *cluster.Snapshot, p *plan.Plan) error {
	if price := p.PriceHourly(); p.BoundHourly > price+1e-6 {
		return fmt.Errorf("the bound is %.6f, the price %.6f", p.BoundHourly, price)
	}
	f := pack.Solve(snap, pack.Options{FirstFitOnly: true})
	if len(f.Refusals) < len(p.Refusals) || len(f.Refusals) == len(p.Refusals) && f.PriceHourly() < p.PriceHourly()-1e-6 {
		return fmt.Errorf("first-fit-decreasing refuses %d pods and costs %.4f; this refuses %d and costs %.4f",
			len(f.Refusals), f.PriceHourly(), len(p.Refusals), p.PriceHourly())
	}
	return nil
}

func everyPodOnce(snap *cluster.Snapshot, p *plan.Plan) error {
	seen := map[string]int{}
	for _, pl := range p.Placements {
		seen[pl.Pod.Name]++
	}
	for _, l := range p.Launches {
		for _, pod := range l.Pods {
			seen[pod.Name]++
		}
	}
	for _, r := range p.Refusals {
		seen[r.Pod.Name]++
		if r.Why.String() == "" {
			return fmt.Errorf("%s is refused without a word", r.Pod.Name)
		}
	}
	for _, pod := range snap.Pending {
		if seen[pod.Name] != 1 {
			return fmt.Errorf("%s is answered %d times", pod.Name, seen[pod.Name])
		}
	}
	return nil
}

func shapeOf(snap *cluster.Snapshot, name string) *cluster.Shape {
	for _, pod := range snap.Pending {
		if pod.Name == name {
			return pod.Shape
		}
	}
	return nil
}

// machinesHold checks what is meant for machines that run.
func machinesHold(snap *cluster.Snapshot, p *plan.Plan) error {
	used := map[string]quantity.List{}
	for _, pl := range p.Placements {
		if used[pl.Node] == nil {
			used[pl.Node] = quantity.List{}
		}
		used[pl.Node].Add(shapeOf(snap, pl.Pod.Name).Requests)
	}
	for _, n := range snap.Nodes {
		if used[n.Name] != nil {
			used[n.Name].Add(n.Used)
		}
	}
	for _, n := range snap.Nodes {
		if n.Leaving && used[n.Name] != nil {
			return fmt.Errorf("pods are meant for %s, which leaves", n.Name)
		}
		if n.Open == nil && !used[n.Name].Fits(n.Allocatable) {
			return fmt.Errorf("%s is overfull", n.Name)
		}
	}
	for _, pl := range p.Placements {
		for _, n := range snap.Nodes {
			if n.Name == pl.Node && n.Open == nil && !anyTerm(shapeOf(snap, pl.Pod.Name).Terms, label.OfLabels(n.Labels), nil) {
				return fmt.Errorf("%s may not be on %s", pl.Pod.Name, n.Name)
			}
		}
	}
	return nil
}

func anyTerm(terms []label.Requirements, has label.Requirements, open map[string]bool) bool {
	for _, term := range terms {
		if has.Compatible(term, open) {
			return true
		}
	}
	return false
}

// launchesHold checks that every type and every offering that a launch leaves to the
// cloud is right for all of its pods, daemons included.
func launchesHold(snap *cluster.Snapshot, p *plan.Plan) error {
	for _, l := range p.Launches {
		pool, _ := snap.PoolByName(l.Pool)
		need := quantity.List{}
		for _, pod := range l.Pods {
			sh := shapeOf(snap, pod.Name)
			need.Add(sh.Requests)
			if !anyTerm(sh.Terms, l.Requirements, snap.WellKnown) {
				return fmt.Errorf("%s may not be on a launch with %s", pod.Name, l.Requirements)
			}
			if len(sh.Ports) > 0 && len(l.Pods) > 1 {
				for _, other := range l.Pods {
					if other != pod && len(shapeOf(snap, other.Name).Ports) > 0 {
						return fmt.Errorf("%s and %s want one port", pod.Name, other.Name)
					}
				}
			}
		}
		for _, name := range l.Types {
			for _, ty := range pool.Types {
				if ty.Name == name {
					if err := typeHolds(snap, pool, ty, &l, need); err != nil {
						return err
					}
				}
			}
		}
		if len(catalog.Offers(pool.Types, l.Requirements, l.Requests)) == 0 {
			return fmt.Errorf("nothing can be bought for a launch with %s", l.Requirements)
		}
	}
	return nil
}

// typeHolds checks a type with the daemons that run on it wherever it may be.
func typeHolds(snap *cluster.Snapshot, pool *cluster.Pool, ty *catalog.Type, l *plan.Launch, need quantity.List) error {
	for _, offer := range catalog.Offers([]*catalog.Type{ty}, l.Requirements, nil) {
		has := maps.Clone(ty.Requirements.Intersect(offer.Offering.Requirements()).Intersect(l.Requirements))
		all := need.Plus(nil)
		for _, d := range snap.Daemons {
			if len(pool.Taints) == 0 && anyTerm(d.Shape.Terms, has, nil) { // no daemon here tolerates anything
				all.Add(d.Shape.Requests)
			}
		}
		if !all.Fits(ty.Allocatable()) {
			return fmt.Errorf("%s in %s is too small for %v", ty.Name, offer.Offering.Zone, all)
		}
	}
	return nil
}

// limitsHold counts every launch as the largest it may become.
func limitsHold(snap *cluster.Snapshot, p *plan.Plan) error {
	for _, pool := range snap.Pools {
		used, nodes := quantity.List{}, int64(0)
		largest := func(names []string) {
			most := quantity.List{}
			for _, ty := range pool.Types {
				for _, name := range names {
					if ty.Name == name {
						for r, amount := range ty.Capacity {
							most[r] = max(most[r], amount)
						}
					}
				}
			}
			used.Add(most)
			nodes++
		}
		launched := false
		for _, l := range p.Launches {
			if l.Pool == pool.Name {
				largest(l.Types)
				launched = true
			}
		}
		for _, n := range snap.Nodes {
			switch {
			case n.Pool != pool.Name || n.Leaving:
			case n.Open != nil:
				largest(n.Open.Types)
			default:
				used.Add(n.Capacity)
				nodes++
			}
		}
		for name, limit := range pool.Limits {
			if launched && (name != quantity.Nodes && used[name] > limit || name == quantity.Nodes && nodes > limit) {
				return fmt.Errorf("pool %s passes its limit of %s", pool.Name, name)
			}
		}
	}
	return nil
}

// neighbour is a pod where it ends up.
type neighbour struct {
	name       string
	sh         *cluster.Shape
	host, zone string // zone is empty where it is not settled
	planned    bool
}

// neighboursHold checks the rules between pods against where all of them end up: nobody
// shares a domain with whom it must not, and everybody is with whom it must.
func neighboursHold(snap *cluster.Snapshot, p *plan.Plan) error {
	var all []neighbour
	zones, leaving := map[string]string{}, map[string]bool{}
	for _, n := range snap.Nodes {
		zones[n.Name], leaving[n.Name] = n.Labels[label.Zone], n.Leaving
		for i, r := range n.Pods {
			for range r.Count {
				all = append(all, neighbour{fmt.Sprint("running", i), r.Shape, n.Name, n.Labels[label.Zone], false})
			}
		}
	}
	for _, pl := range p.Placements {
		all = append(all, neighbour{pl.Pod.Name, shapeOf(snap, pl.Pod.Name), pl.Node, zones[pl.Node], true})
	}
	for i, l := range p.Launches {
		zone, _ := l.Requirements[label.Zone].Only()
		for _, pod := range l.Pods {
			all = append(all, neighbour{pod.Name, shapeOf(snap, pod.Name), fmt.Sprint("launch", i), zone, true})
		}
	}
	domain := func(n *neighbour, key string) string {
		if key == label.Hostname {
			return n.host
		}
		return n.zone
	}
	for i := range all {
		me := &all[i]
		if !me.planned {
			continue
		}
		for j := range all {
			other := &all[j]
			for _, pair := range [][2]*neighbour{{me, other}, {other, me}} {
				for _, t := range pair[0].sh.AntiAffinity {
					if i != j && t.Selector.Selects(pair[1].sh.Labels) && domain(me, t.Key) == domain(other, t.Key) && domain(me, t.Key) != "" {
						return fmt.Errorf("%s and %s must be apart", me.name, other.name)
					}
				}
			}
		}
		for _, t := range me.sh.Affinity {
			together := false
			for j := range all {
				together = together || t.Selector.Selects(all[j].sh.Labels) && domain(&all[j], t.Key) == domain(me, t.Key) && domain(me, t.Key) != ""
			}
			if !together {
				return fmt.Errorf("%s is not with whom it must be", me.name)
			}
		}
		for _, sp := range me.sh.Spread {
			if sp.Key != label.Hostname || strings.HasPrefix(me.host, "n") || !allAlike(all, &sp, me) {
				continue
			}
			// Against the least of its like that were bought: where no more can be, all of
			// them together may rise.
			fewest := count(all, &sp, me.host)
			for l := range p.Launches {
				host := fmt.Sprint("launch", l)
				if slices.ContainsFunc(all, func(n neighbour) bool { return n.host == host && n.sh == me.sh }) {
					fewest = min(fewest, count(all, &sp, host))
				}
			}
			if n := count(all, &sp, me.host); n-fewest > sp.MaxSkew {
				return fmt.Errorf("%s is one of %d on one machine", me.name, n)
			}
		}
	}
	return nil
}

// count returns how many pods that a spread selects are on a machine.
func count(all []neighbour, sp *cluster.Spread, host string) (n int32) {
	for i := range all {
		if all[i].host == host && sp.Selector.Selects(all[i].sh.Labels) {
			n++
		}
	}
	return n
}

// allAlike tells whether all pods of a machine that a spread selects are of one shape:
// then it is they alone who keep to it, or not.
func allAlike(all []neighbour, sp *cluster.Spread, me *neighbour) bool {
	for i := range all {
		if all[i].host == me.host && all[i].sh != me.sh && sp.Selector.Selects(all[i].sh.Labels) {
			return false
		}
	}
	return true
}
