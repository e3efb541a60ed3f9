package pack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// pendingPods returns the snapshot of a cluster with one pool and so many pods of each of the
// pod constraints, named after the constraints' namespace.
func pendingPods(each int, constraintSets ...*cluster.Constraints) *cluster.Snapshot {
	offering := catalog.Offering{Zone: "a", CapacityType: label.OnDemand, Priced: true, PriceHourly: 1, Available: true}
	instance := &catalog.Type{
		Name: "c", Capacity: quantity.List{quantity.CPU: 8000, quantity.Memory: 8 << 30, quantity.Pods: 100},
		Requirements: label.Requirements{label.Hostname: label.Exists()}, Offerings: []catalog.Offering{offering},
	}
	snap := &cluster.Snapshot{At: time.Unix(1000, 0), Pools: []cluster.Pool{{Name: "default", Types: []*catalog.Type{instance}}}}
	for s, sh := range constraintSets {
		for i := range each {
			ref := cluster.PodRef{Namespace: sh.Namespace, Name: fmt.Sprintf("pod-%03d-%03d", s, i), UID: fmt.Sprint(s, "/", i)}
			snap.Pending = append(snap.Pending, cluster.Pod{PodRef: ref, Created: snap.At, Constraints: sh})
		}
	}
	return snap
}

func plainConstraints(namespace string) *cluster.Constraints {
	return &cluster.Constraints{
		Namespace: namespace, Labels: map[string]string{"app": namespace}, Terms: []label.Requirements{{}},
		Requests: quantity.List{quantity.CPU: 100, quantity.Memory: 1 << 20, quantity.Pods: 1},
	}
}

// heavyConstraints is plain but for so many terms of anti-affinity, of which no two are alike.
func heavyConstraints(namespace string, terms int) *cluster.Constraints {
	sh := plainConstraints(namespace)
	for t := range terms {
		selector := cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.NotIn(fmt.Sprint(namespace, t))}}
		sh.AntiAffinity = append(sh.AntiAffinity, cluster.PodTerm{Key: label.Hostname, Selector: selector, Namespaces: []string{namespace}})
	}
	return sh
}

// refusedBy returns how many pods of each namespace are refused, by reason.
func refusedBy(p *plan.Plan) map[string]int {
	out := map[string]int{}
	for _, r := range p.Refusals {
		out[r.Pod.Namespace+" "+string(r.Why.Reason)]++
	}
	return out
}

func TestHeavyPodsAreLeftOutAndTheRestIsDecided(t *testing.T) {
	t.Parallel()
	constraintSets := []*cluster.Constraints{plainConstraints("ordinary")}
	for i := range 40 {
		constraintSets = append(constraintSets, heavyConstraints(fmt.Sprint("hostile-", i%4), 30+i))
	}
	snap := pendingPods(10, constraintSets...)
	p := Decide(snap, Options{Effort: 200_000})
	if len(p.GivenUp) == 0 || slices.ContainsFunc(p.GivenUp, func(why string) bool { return why != plan.CauseEffort }) {
		t.Errorf("the decision was given up for %q, want %q", p.GivenUp, plan.CauseEffort)
	}
	refused := refusedBy(&p)
	for what := range refused {
		if !strings.HasPrefix(what, "hostile-") || !strings.HasSuffix(what, string(verdict.TooMuchEffort)) {
			t.Errorf("refused: %s, want only hostile pods, for their effort", what)
		}
	}
	answered := len(p.Refusals) + len(p.Assignments)
	for i := range p.Launches {
		answered += len(p.Launches[i].Pods)
	}
	if answered != len(snap.Pending) {
		t.Errorf("%d of %d pods are answered", answered, len(snap.Pending))
	}
	if again := Decide(snap, Options{Effort: 200_000}); cmp.Diff(p.Refusals, again.Refusals) != "" || p.Effort != again.Effort {
		t.Error("the same snapshot gives another plan")
	}
}

// TestNamespacesShareTheEffort: a namespace that weighs little keeps all its pods, rules
// or not, and one that weighs much keeps those of its pods that weigh least.
func TestNamespacesShareTheEffort(t *testing.T) {
	t.Parallel()
	light, modest, monster := plainConstraints("big"), heavyConstraints("small", 3), heavyConstraints("big", 500)
	snap := pendingPods(5, light, modest, monster)
	heavy := Heavy(snap.Pending)
	for _, c := range []struct {
		name        string
		constraints *cluster.Constraints
		want        bool
	}{{"the plain pods of the heavy namespace", light, false}, {"the pods of the light namespace", modest, false}, {"the heaviest", monster, true}} {
		if heavy[c.constraints] != c.want {
			t.Errorf("left out: %s: %t, want %t", c.name, heavy[c.constraints], c.want)
		}
	}
}

// TestManyOrdinaryPodsAreNotLeftOut: what is left of a heavy namespace when most of it is in
// quarantine weighs less together than many ordinary pods do, which are not to pay for it.
func TestManyOrdinaryPodsAreNotLeftOut(t *testing.T) {
	t.Parallel()
	ordinary, monster := plainConstraints("ordinary"), heavyConstraints("hostile", 30)
	ordinary.Terms = []label.Requirements{{"example.com/pool": label.In("a"), "example.com/rack": label.In("b")}}
	snap := pendingPods(50, ordinary)
	snap.Pending = append(snap.Pending, pendingPods(1, monster).Pending...)
	for i := range 90 {
		snap.Pending = append(snap.Pending, pendingPods(1, heavyConstraints("hostile", i%2)).Pending...)
	}
	if heavy := Heavy(snap.Pending); heavy[ordinary] || !heavy[monster] {
		t.Errorf("left out: the ordinary pods: %t, the heaviest: %t, want the heaviest alone", heavy[ordinary], heavy[monster])
	}
	alone := pendingPods(5, plainConstraints("a"), plainConstraints("b"))
	if heavy := Heavy(alone.Pending); len(heavy) > 0 {
		t.Errorf("%d of the constraints of two ordinary namespaces are left out, want none", len(heavy))
	}
}

// TestFewRulesAreNotLeftOutForMany: where a quarter of the weight is too much as well, ordinary pods
// with a rule or two do not pay for those with hundreds.
func TestFewRulesAreNotLeftOutForMany(t *testing.T) {
	t.Parallel()
	constraintSets := []*cluster.Constraints{heavyConstraints("ordinary", 3)}
	for i := range 40 {
		constraintSets = append(constraintSets, heavyConstraints("hostile", 60+i))
	}
	snap := pendingPods(1, constraintSets...)
	d := decider{solve: func(s *cluster.Snapshot, _ Options) (p plan.Plan, ended bool) {
		return p, !slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Namespace == "hostile" })
	}}
	p := d.decide(snap)
	if got, want := refusedBy(&p), map[string]int{"hostile " + string(verdict.TooMuchEffort): 40}; cmp.Diff(want, got) != "" {
		t.Errorf("refused: %s", cmp.Diff(want, got))
	}
}

// TestPodsOfABugAreLeftOut: a decision panics about some pod constraints, alone or together.
func TestPodsOfABugAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fatal [][]int // sets of pod constraints, any one of which makes a decision panic
		want  map[string]int
		given int // how often the decision was given up
	}{
		"one set of constraints":                 {fatal: [][]int{{17}}, want: map[string]int{"ns-17 DecisionFailed": 2}, given: 1},
		"two sets of constraints, each alone":    {fatal: [][]int{{3}, {17}}, want: map[string]int{"ns-3 DecisionFailed": 2, "ns-17 DecisionFailed": 2}, given: 2},
		"two sets of constraints, only together": {fatal: [][]int{{15, 16}}, want: map[string]int{"ns-15 DecisionFailed": 2, "ns-16 DecisionFailed": 2}, given: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var constraintSets []*cluster.Constraints
			for i := range 32 {
				constraintSets = append(constraintSets, plainConstraints(fmt.Sprint("ns-", i)))
			}
			snap := pendingPods(2, constraintSets...)
			d := decider{solve: func(s *cluster.Snapshot, opts Options) (plan.Plan, bool) {
				for _, set := range c.fatal {
					all := true
					for _, i := range set {
						all = all && slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Constraints == constraintSets[i] })
					}
					if all {
						var none []int
						_ = none[len(s.Nodes)]
					}
				}
				return trySolve(s, opts)
			}}
			p := d.decide(snap)
			if diff := cmp.Diff(c.want, refusedBy(&p)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if len(p.GivenUp) != c.given || !strings.Contains(p.GivenUp[0], "pack.TestPodsOfABugAreLeftOut") {
				t.Errorf("given up %d times, want %d: %q", len(p.GivenUp), c.given, p.GivenUp)
			}
		})
	}
}

func TestADecisionThatAlwaysPanicsRefusesAll(t *testing.T) {
	t.Parallel()
	snap := pendingPods(1, plainConstraints("a"), plainConstraints("b"))
	tries := 0
	d := decider{solve: func(*cluster.Snapshot, Options) (plan.Plan, bool) { tries++; panic("always") }}
	if p := d.decide(snap); len(p.Refusals) != len(snap.Pending) || tries > searchesMax+givenUpMax {
		t.Errorf("%d of %d pods refused after %d tries", len(p.Refusals), len(snap.Pending), tries)
	}
}
