package consolidate_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// spreadNodes is five nodes, each with two pods of two workloads, beside a type that holds all of them for less.
func spreadNodes(large float64) string {
	text := fmt.Sprintf("type large cpu=42 memory=160Gi price=%.2f\ntype small cpu=8 memory=32Gi price=0.21\npool general\n", large)
	for i := range 5 {
		text += fmt.Sprintf("node n%d pool=general type=small last-pod-event=2h\nrunning web on=n%d count=2 cpu=2 app=web\nrunning api on=n%d count=2 cpu=2 app=api\n", i, i, i)
	}
	return text
}

// TestConsolidationKeepsWhatThePremiumWasPaidFor: pods that a premium has spread are gathered again only if
// that saves more than the premium.
func TestConsolidationKeepsWhatThePremiumWasPaidFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		large, premium float64
		goes           bool
	}{{0.95, 0, true}, {0.95, 0.1, false}, {0.80, 0.1, true}} {
		snap, err := story.Parse(spreadNodes(c.large))
		if err != nil {
			t.Fatal(err)
		}
		share(snap)
		found := consolidate.Search(snap, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: 1e-6, GapMax: -1}, Pack: pack.Options{ResiliencePremium: c.premium}})
		if goes := len(found.Steps) > 0; goes != c.goes {
			t.Errorf("a node for all pods costs %.2f, premium %.2f: %d commands, want any: %v", c.large, c.premium, len(found.Steps), c.goes)
		}
	}
}

// TestPlacementAndConsolidationComeToRest: whatever placement launches is consolidated until nothing is
// found, each time for less than before, and what was launched in the end stays.
func TestPlacementAndConsolidationComeToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		premium := rapid.SampledFrom([]float64{0.01, 0.03, 0.1}).Draw(t, "premium")
		types := fmt.Sprintf("type large cpu=42 memory=160Gi price=%.2f\ntype medium cpu=16 memory=64Gi price=%.2f\ntype small cpu=8 memory=32Gi price=0.21\npool general\n",
			rapid.Float64Range(0.8, 1.2).Draw(t, "large"), rapid.Float64Range(0.36, 0.46).Draw(t, "medium"))
		var pods []string
		for _, app := range []string{"web", "api", "job"} {
			pods = append(pods, fmt.Sprintf("%s cpu=%d count=%d app=%s", app, rapid.IntRange(1, 3).Draw(t, "cpu"), rapid.IntRange(1, 14).Draw(t, "count"), app))
		}
		opts := pack.Options{ResiliencePremium: premium}
		pending, err := story.Parse(types + "pod " + strings.Join(pods, "\npod ") + "\n")
		if err != nil {
			t.Fatal(err)
		}
		p := pack.Solve(pending, opts)
		text := types
		of := map[string]string{}
		for _, pod := range pods {
			of[strings.Fields(pod)[0]] = pod
		}
		for i := range p.Launches {
			l := &p.Launches[i]
			text += fmt.Sprintf("node n%d pool=general type=%s last-pod-event=2h\n", i, l.Types[0])
			count := map[string]int{}
			for _, ref := range l.Pods {
				app, _, _ := strings.Cut(ref.Name, "-")
				count[app]++
			}
			for _, app := range []string{"web", "api", "job"} {
				if count[app] > 0 {
					f := strings.Fields(of[app])
					text += fmt.Sprintf("running %s on=n%d count=%d %s app=%s\n", app, i, count[app], f[1], app)
				}
			}
		}
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		share(snap)
		found := consolidate.Search(snap, consolidate.Options{Terms: consolidate.Terms{EvictionHourly: 1e-6, GapMax: -1}, Pack: opts})
		if len(found.Steps) > 0 && found.AfterHourly >= found.PriceHourly-1e-9 {
			t.Fatalf("%d commands save nothing: %.4f → %.4f\n%s", len(found.Steps), found.PriceHourly, found.AfterHourly, text)
		}
		if gathered := over(snap) == 0 && found.PriceHourly-found.AfterHourly > 1e-9 && found.PriceHourly-found.AfterHourly < premium*removedHourly(snap, &found); gathered && launchesOver(snap, &found) {
			t.Fatalf("commands gather pods for less than the premium: %.4f → %.4f\n%s", found.PriceHourly, found.AfterHourly, text)
		}
	})
}

// share gives the pods of an app the same constraints, as the mirror does.
func share(snap *cluster.Snapshot) {
	first := map[string]*cluster.Constraints{}
	one := func(sh **cluster.Constraints) {
		app := (*sh).Labels["app"]
		if first[app] == nil {
			first[app] = *sh
		}
		*sh = first[app]
	}
	for i := range snap.Nodes {
		for p := range snap.Nodes[i].Pods {
			one(&snap.Nodes[i].Pods[p].Constraints)
		}
		for r := range snap.Nodes[i].Reschedulable {
			one(&snap.Nodes[i].Reschedulable[r].Constraints)
		}
	}
}

// over returns how many pods are on nodes with more than a fifth of their workload, or than half of a small one.
func over(snap *cluster.Snapshot) (n int) {
	all := sizesOf(snap)
	for i := range snap.Nodes {
		here := map[*cluster.Constraints]int{}
		for r := range snap.Nodes[i].Reschedulable {
			here[snap.Nodes[i].Reschedulable[r].Constraints]++
		}
		for sh, count := range here {
			n += max(0, count-most(all[sh]))
		}
	}
	return n
}

func most(pods int) int {
	if pods <= 7 {
		return (pods + 1) / 2
	}
	return pods / 5
}

func sizesOf(snap *cluster.Snapshot) map[*cluster.Constraints]int {
	all := map[*cluster.Constraints]int{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			all[snap.Nodes[i].Reschedulable[r].Constraints]++
		}
	}
	return all
}

// removedHourly returns what the removed nodes cost.
func removedHourly(snap *cluster.Snapshot, found *consolidate.Result) (sum float64) {
	prices := cluster.NewPrices(snap)
	for i := range found.Steps {
		for _, r := range found.Steps[i].Remove {
			for n := range snap.Nodes {
				if price, ok := prices.Of(&snap.Nodes[n]); ok && snap.Nodes[n].Name == r.Node {
					sum += price
				}
			}
		}
	}
	return sum
}

// launchesOver reports whether a launched node has more pods of a workload than it should.
func launchesOver(snap *cluster.Snapshot, found *consolidate.Result) bool {
	all, of := sizesOf(snap), map[cluster.PodRef]*cluster.Constraints{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			of[snap.Nodes[i].Reschedulable[r].PodRef] = snap.Nodes[i].Reschedulable[r].Constraints
		}
	}
	for i := range found.Steps {
		for l := range found.Steps[i].Launch {
			here := map[*cluster.Constraints]int{}
			for _, ref := range found.Steps[i].Launch[l].Pods {
				here[of[ref]]++
			}
			for sh, count := range here {
				if count > most(all[sh]) {
					return true
				}
			}
		}
	}
	return false
}
