package pack_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
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
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{everyPodOnce, nodesHold, launchesHold, limitsHold, neighboursHold, priceHolds, noneIsCheaper} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
	})
}

// TestEverySpreadPlanIsSound does the same with a premium, which the price must not exceed.
func TestEverySpreadPlanIsSound(t *testing.T) {
	t.Parallel()
	const premium = 0.1
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		cheapest, p := pack.Solve(snap, pack.Options{}), pack.Solve(snap, pack.Options{ResiliencePremium: premium})
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{everyPodOnce, nodesHold, launchesHold, limitsHold, neighboursHold, noneIsCheaper} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
		if len(p.Refusals) > len(cheapest.Refusals) {
			t.Fatalf("%d pods are refused, %d without premium\n%s\n%s", len(p.Refusals), len(cheapest.Refusals), text, story.Print(&p))
		}
		if price, most := p.PriceHourly(), cheapest.PriceHourly()*(1+2*premium); price > most+1e-6 {
			t.Fatalf("the price is %.6f, want %.6f at most\n%s\n%s", price, most, text, story.Print(&p))
		}
		if err := gathers(snap, &p, premium); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
		}
	})
}

// gathers reports whether pods that may not be evicted are on no more new nodes, and at no higher price, than if all
// might be.
func gathers(snap *cluster.Snapshot, p *plan.Plan, premium float64) error {
	apart, holding := ungathered(snap, premium)
	if with, without := holding(p), holding(apart); with > without || p.PriceHourly() > apart.PriceHourly()+1e-9 {
		return fmt.Errorf("pods that stay are on %d new nodes at %.6f, on %d at %.6f if all may be evicted", with, p.PriceHourly(), without, apart.PriceHourly())
	}
	return nil
}

// ungathered returns the plan if all pods might be evicted, and what counts the new nodes with pods that may not.
func ungathered(snap *cluster.Snapshot, premium float64) (apart *plan.Plan, holding func(*plan.Plan) int) {
	free, stays := *snap, map[*cluster.Constraints]bool{}
	free.Pending = slices.Clone(snap.Pending)
	for i := range free.Pending {
		stays[free.Pending[i].Constraints] = stays[free.Pending[i].Constraints] || free.Pending[i].DoNotDisrupt
		free.Pending[i].DoNotDisrupt = false
	}
	holding = func(p *plan.Plan) (n int) {
		for i := range p.Launches {
			if slices.ContainsFunc(p.Launches[i].Pods, func(ref cluster.PodRef) bool {
				return slices.ContainsFunc(snap.Pending, func(pod cluster.Pod) bool { return pod.PodRef == ref && stays[pod.Constraints] })
			}) {
				n++
			}
		}
		return n
	}
	solved := pack.Solve(&free, pack.Options{ResiliencePremium: premium})
	return &solved, holding
}

// TestGatheringKeepsWorkloadsSpread: pods that may not be evicted go together only as far as a node has a fifth of their
// workload, and a zone two fifths. It does happen that fewer nodes have them.
func TestGatheringKeepsWorkloadsSpread(t *testing.T) {
	t.Parallel()
	const premium = 0.1
	fewer := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "type small cpu=8 memory=32Gi price=0.21 zones=a,b,c\npool default\n"
		for i := range rapid.IntRange(2, 6).Draw(t, "workloads") {
			text += fmt.Sprintf("pod w%d cpu=%d count=%d app=%s %s\n", i, rapid.IntRange(1, 5).Draw(t, "cpu"), rapid.IntRange(10, 20).Draw(t, "count"),
				rapid.SampledFrom([]string{fmt.Sprint("w", i), ""}).Draw(t, "app"), rapid.SampledFrom([]string{"", "do-not-disrupt"}).Draw(t, "stays"))
		}
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		p := pack.Solve(snap, pack.Options{ResiliencePremium: premium})
		apart, holding := ungathered(snap, premium)
		if holding(&p) < holding(apart) {
			fewer++
		}
		before, after := apart.Resilience.After, p.Resilience.After
		if after.Node > max(before.Node, 0.2) || after.Zone > max(before.Zone, 0.4) {
			t.Fatalf("gathering lets more be lost: %s, then %s\n%s\n%s", apart.Resilience, p.Resilience, text, story.Print(&p))
		}
		if err := gathers(snap, &p, premium); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
		}
	})
	if !testing.Short() && fewer == 0 { // one in four goes together, and -short tries 20
		t.Error("pods that stay never went together")
	}
}

// TestGatheringOnExistingNodes: no more existing nodes get their first pod that may not be evicted than if all might be, as
// many pods are placed on existing nodes, and no rule is broken. That fewer do is in the stories of gather.txt.
func TestGatheringOnExistingNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := "type small cpu=8 memory=32Gi price=0.21 zones=a,b\npool default\n"
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			text += fmt.Sprintf("node n%d pool=default type=small zone=%s used.cpu=%d label=disk:%s %s %s\n", i, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), rapid.IntRange(0, 7).Draw(t, "used"),
				rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk"), rapid.SampledFrom([]string{"", "starting"}).Draw(t, "ready"), rapid.SampledFrom([]string{"", "", "do-not-disrupt=pod_x"}).Draw(t, "held"))
		}
		for i := range rapid.IntRange(2, 6).Draw(t, "workloads") {
			text += fmt.Sprintf("pod w%d cpu=%d count=%d %s %s %s\n", i, rapid.IntRange(1, 4).Draw(t, "cpu"), rapid.IntRange(1, 6).Draw(t, "count"), rapid.SampledFrom([]string{"", "app=w"}).Draw(t, "app"),
				rapid.SampledFrom([]string{"", "", "select=disk:ssd", "port=80", "apart=host:w", "spread=zone:1"}).Draw(t, "rule"), rapid.SampledFrom([]string{"", "do-not-disrupt"}).Draw(t, "stays"))
		}
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		const premium = 0.1
		p := pack.Solve(snap, pack.Options{ResiliencePremium: premium})
		apart, _ := ungathered(snap, premium)
		without, with := heldAnew(snap, apart), heldAnew(snap, &p)
		if with > without || len(p.Assignments) != len(apart.Assignments) {
			t.Fatalf("%d nodes get their first pod that stays, %d if all may be evicted\n%s\n%s\n%s", with, without, text, story.Print(&p), story.Print(apart))
		}
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{everyPodOnce, nodesHold, neighboursHold} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
	})
}

// Pods of the workload that run on a node count there, too.
func TestGatheringCountsRunningPods(t *testing.T) {
	t.Parallel()
	for same, want := range map[bool]string{true: "n1", false: "n2"} {
		snap, err := story.Parse("type small cpu=8 memory=32Gi price=0.21\npool default\nnode n1 pool=default type=small zone=a\nnode n2 pool=default type=small zone=a do-not-disrupt=pod_x\n" +
			"running web on=n2 app=web cpu=1\npod db cpu=1 app=db do-not-disrupt\n")
		if err != nil {
			t.Fatal(err)
		}
		if same {
			snap.Nodes[1].Reschedulable[0].Constraints = snap.Pending[0].Constraints
		}
		p := pack.Solve(snap, pack.Options{ResiliencePremium: 0.1})
		if got := p.Assignments[0].Node; got != want {
			t.Errorf("a pod of its workload runs on n2: %t; the pod is placed on %s, want %s", same, got, want)
		}
	}
}

// heldAnew returns how many existing nodes get their first pod that may not be evicted.
func heldAnew(snap *cluster.Snapshot, p *plan.Plan) int {
	isHeld, anew := map[string]bool{}, map[string]bool{}
	for i := range snap.Nodes {
		isHeld[snap.Nodes[i].Name] = snap.Nodes[i].DoNotDisrupt != ""
	}
	for _, a := range p.Assignments {
		stays := slices.ContainsFunc(snap.Pending, func(pod cluster.Pod) bool { return pod.PodRef == a.Pod && pod.DoNotDisrupt })
		if stays && !isHeld[a.Node] {
			anew[a.Node] = true
		}
	}
	return len(anew)
}

// priceHolds reports whether the bound is one, and first-fit-decreasing no better.
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
	for _, pl := range p.Assignments {
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

func constraintsOf(snap *cluster.Snapshot, name string) *cluster.Constraints {
	for _, pod := range snap.Pending {
		if pod.Name == name {
			return pod.Constraints
		}
	}
	return nil
}

// nodesHold checks what is meant for nodes that run.
func nodesHold(snap *cluster.Snapshot, p *plan.Plan) error {
	used := map[string]quantity.List{}
	for _, pl := range p.Assignments {
		if used[pl.Node] == nil {
			used[pl.Node] = quantity.List{}
		}
		used[pl.Node].Add(constraintsOf(snap, pl.Pod.Name).Requests)
	}
	for _, n := range snap.Nodes {
		if used[n.Name] != nil {
			used[n.Name].Add(n.Used)
		}
	}
	for _, n := range snap.Nodes {
		if n.Deleting && used[n.Name] != nil {
			return fmt.Errorf("pods are meant for %s, which leaves", n.Name)
		}
		if n.InFlight == nil && !used[n.Name].Fits(n.Allocatable) {
			return fmt.Errorf("%s is overfull", n.Name)
		}
	}
	for _, pl := range p.Assignments {
		for _, n := range snap.Nodes {
			if n.Name == pl.Node && n.InFlight == nil && !anyTerm(constraintsOf(snap, pl.Pod.Name).Terms, label.OfLabels(n.Labels), nil) {
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
			sh := constraintsOf(snap, pod.Name)
			need.Add(sh.Requests)
			if !anyTerm(sh.Terms, l.Requirements, snap.WellKnown) {
				return fmt.Errorf("%s may not be on a launch with %s", pod.Name, l.Requirements)
			}
			if len(sh.Ports) > 0 && len(l.Pods) > 1 {
				for _, other := range l.Pods {
					if other != pod && len(constraintsOf(snap, other.Name).Ports) > 0 {
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
		if len(catalog.Choices(pool.Types, l.Requirements, l.Requests)) == 0 {
			return fmt.Errorf("nothing can be launched for a launch with %s", l.Requirements)
		}
	}
	return nil
}

// noneIsCheaper reports whether no launch may become an offering that costs less than the plan says. A plan that spreads
// workloads over offerings would not do so.
func noneIsCheaper(snap *cluster.Snapshot, p *plan.Plan) error {
	for _, l := range p.Launches {
		pool, _ := snap.PoolByName(l.Pool)
		for _, choice := range catalog.Choices(pool.Types, l.Requirements, l.Requests) {
			if o := choice.Offering; o.HasPrice() && o.Reservation == "" && o.Launchable() && o.Price() < l.PriceHourly-1e-9 {
				return fmt.Errorf("a launch for %.4f may become %s in %s for %.4f", l.PriceHourly, choice.Type.Name, o.Zone, o.Price())
			}
		}
	}
	return nil
}

// typeHolds checks a type with the daemons that run on it wherever it may be.
func typeHolds(snap *cluster.Snapshot, pool *cluster.Pool, ty *catalog.Type, l *plan.Launch, need quantity.List) error {
	for _, choice := range catalog.Choices([]*catalog.Type{ty}, l.Requirements, nil) {
		has := maps.Clone(ty.Requirements.Intersect(choice.Offering.Requirements()).Intersect(l.Requirements))
		all := need.Plus(nil)
		for _, d := range snap.Daemons {
			if len(pool.Taints) == 0 && anyTerm(d.Constraints.Terms, has, nil) { // no daemon here tolerates anything
				all.Add(d.Constraints.Requests)
			}
		}
		if !all.Fits(ty.Allocatable()) {
			return fmt.Errorf("%s in %s is too small for %v", ty.Name, choice.Offering.Zone, all)
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
			case n.Pool != pool.Name || n.Deleting:
			case n.InFlight != nil:
				largest(n.InFlight.Types)
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

// worldsMost is how many of the ways in which the cloud may answer a plan is judged in.
const worldsMost = 64

// site is a node as it may turn out to be.
type site struct {
	name   string
	labels label.Requirements
	taints []cluster.Taint
	pods   []runningPod
}

// runningPod is a pod where it ends up.
type runningPod struct {
	name    string
	sh      *cluster.Constraints
	planned bool
}

// is returns what the node has as the value of a key.
func (s *site) is(key string) string {
	if key == label.Hostname {
		return s.name
	}
	v, _ := s.labels[key].Only()
	return v
}

// neighboursHold checks the rules between pods, as kube-scheduler has them, against where
// all of them end up, whatever the cloud makes of what is left to it.
func neighboursHold(snap *cluster.Snapshot, p *plan.Plan) error {
	pods := map[string][]runningPod{}
	for i := range p.Assignments {
		name := p.Assignments[i].Pod.Name
		pods[p.Assignments[i].Node] = append(pods[p.Assignments[i].Node], runningPod{name, constraintsOf(snap, name), true})
	}
	var options [][]site // by node
	add := func(name string, taints []cluster.Taint, pods []runningPod, labels ...label.Requirements) {
		var sites []site
		for _, l := range labels {
			sites = append(sites, site{name, l, taints, pods})
		}
		options = append(options, sites)
	}
	becomes := func(pool *cluster.Pool, want label.Requirements, requests quantity.List) (labels []label.Requirements) {
		for _, o := range catalog.Choices(pool.Types, want, requests) {
			has := pool.Requirements.Intersect(want).Intersect(o.Type.Requirements).Intersect(o.Offering.Requirements())
			maps.DeleteFunc(has, func(key string, _ label.Requirement) bool {
				_, ruled := pool.Requirements[key]
				return !ruled && !snap.WellKnown[key] // such labels of types come to no node
			})
			labels = append(labels, has)
		}
		return labels
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		for r, c := range n.Pods {
			for range c.Count - c.Deleting {
				pods[n.Name] = append(pods[n.Name], runningPod{fmt.Sprint("running", r), c.Constraints, false})
			}
		}
		if n.InFlight == nil {
			add(n.Name, n.Taints, pods[n.Name], label.OfLabels(n.Labels))
		} else if pool, ok := snap.PoolByName(n.Pool); ok {
			if labels := becomes(pool, n.InFlight.Requirements, nil); len(labels) > 0 {
				add(n.Name, pool.Taints, pods[n.Name], labels...)
			}
		}
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		pool, _ := snap.PoolByName(l.Pool)
		var own []runningPod
		for _, pod := range l.Pods {
			own = append(own, runningPod{pod.Name, constraintsOf(snap, pod.Name), true})
		}
		add(fmt.Sprint("launch", i), pool.Taints, own, becomes(pool, l.Requirements, l.Requests)...)
	}
	total := 1
	for _, o := range options {
		total *= min(len(o), worldsMost)
		total = min(total, 1<<20)
	}
	for w := 0; w < total; w += max(1, total/worldsMost) {
		var world []site
		rest := w
		for _, o := range options {
			world = append(world, o[rest%len(o)])
			rest /= len(o)
		}
		if err := worldHolds(world); err != nil {
			return err
		}
	}
	return nil
}

// worldHolds reports whether each planned pod may be where it is, with all others there.
func worldHolds(world []site) error {
	for i := range world {
		for k, me := range world[i].pods {
			if !me.planned {
				continue
			}
			for _, check := range []func([]site, int, int) error{apartHolds, togetherHolds, spreadHolds} {
				err := check(world, i, k)
				if err != nil && check(before(world, i, k)) != nil {
					return fmt.Errorf("%s on %s: %w", me.name, world[i].name, err)
				}
			}
		}
	}
	return nil
}

// before returns the world without the pods that are taken to come after the one, and where
// that one is there: those with affinity that nobody else leads, however far removed. One
// that may be the first of its kind is taken to wait.
func before(world []site, i, k int) (earlier []site, at, pod int) {
	me := world[i].pods[k]
	earlier = slices.Clone(world)
	waiting := make([][]runningPod, len(world))
	for j := range earlier {
		earlier[j].pods = nil
		for _, r := range world[j].pods {
			switch mine := j == i && r.planned && r.sh == me.sh; {
			case mine: // they come last
			case r.planned && len(r.sh.Affinity) > 0:
				waiting[j] = append(waiting[j], r)
			default:
				earlier[j].pods = append(earlier[j].pods, r)
			}
		}
	}
	for after := true; after; {
		after = false
		for j := range waiting {
			waiting[j] = slices.DeleteFunc(waiting[j], func(r runningPod) bool {
				earlier[j].pods = append(earlier[j].pods, r)
				last := len(earlier[j].pods) - 1
				if slices.ContainsFunc(r.sh.Affinity, func(t cluster.PodTerm) bool { here, _ := CountedDaemons(earlier, j, last, t.Key); return here == 0 }) {
					earlier[j].pods = earlier[j].pods[:last]
					return false
				}
				after = true
				return true
			})
		}
	}
	for _, r := range world[i].pods {
		if r.planned && r.sh == me.sh {
			earlier[i].pods = append(earlier[i].pods, r)
		}
	}
	return earlier, i, slices.IndexFunc(earlier[i].pods, func(r runningPod) bool { return r.name == me.name && r.planned })
}

func apartHolds(world []site, i, k int) error {
	me := &world[i].pods[k]
	for j := range world {
		for o := range world[j].pods {
			other := &world[j].pods[o]
			if me == other {
				continue
			}
			for _, pair := range [][2]*runningPod{{me, other}, {other, me}} {
				for _, t := range pair[0].sh.AntiAffinity {
					if v := world[i].is(t.Key); v != "" && v == world[j].is(t.Key) && t.Selector.Selects(pair[1].sh.Labels) {
						return fmt.Errorf("it must be apart from %s by %s", other.name, t.Key)
					}
				}
			}
		}
	}
	return nil
}

// togetherHolds counts for each term the pods that match all of them, as kube-scheduler does.
func togetherHolds(world []site, i, k int) error {
	sh := world[i].pods[k].sh
	for _, t := range sh.Affinity {
		if here, any := CountedDaemons(world, i, k, t.Key); world[i].is(t.Key) == "" || here == 0 && (any > 0 || !matchesAll(sh, sh)) {
			return fmt.Errorf("it is not with whom it must be by %s", t.Key)
		}
	}
	return nil
}

// CountedDaemons counts the others that match all terms of a pod: in its domain of the key, and
// anywhere.
func CountedDaemons(world []site, i, k int, key string) (here, any int) {
	me := &world[i].pods[k]
	for j := range world {
		for o := range world[j].pods {
			if me != &world[j].pods[o] && matchesAll(me.sh, world[j].pods[o].sh) {
				any++
				if world[j].is(key) == world[i].is(key) {
					here++
				}
			}
		}
	}
	return here, any
}

func matchesAll(of, sh *cluster.Constraints) bool {
	return !slices.ContainsFunc(of.Affinity, func(t cluster.PodTerm) bool { return !t.Selector.Selects(sh.Labels) })
}

func spreadHolds(world []site, i, k int) error {
	me := &world[i].pods[k]
	for s := range me.sh.Spread {
		sp := &me.sh.Spread[s]
		counts := map[string]int32{}
		for j := range world {
			v := world[j].is(sp.Key)
			if v == "" || !sp.IgnoreAffinity && !anyTerm(me.sh.CountedTerms(), world[j].labels, nil) ||
				sp.HonorTaints && !fit.Taints(me.sh.Tolerations, world[j].taints).IsYes() {
				continue
			}
			counts[v] += 0
			for _, o := range world[j].pods {
				if sp.Selector.Selects(o.sh.Labels) {
					counts[v]++
				}
			}
		}
		own := world[i].is(sp.Key)
		fewest := counts[own]
		for _, n := range counts {
			fewest = min(fewest, n)
		}
		if len(counts) < int(sp.MinDomains) {
			fewest = 0
		}
		if n := counts[own] - fewest; own == "" || n > sp.MaxSkew {
			return fmt.Errorf("its skew over %s is %d", sp.Key, n)
		}
	}
	return nil
}
