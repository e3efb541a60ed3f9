package pack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// gangOf makes all pods of a namespace the pods of one gang there.
func gangOf(snap *cluster.Snapshot, namespace string, minimum, bound int, age time.Duration) {
	gangNamed(snap, "gang", minimum, bound, age, func(p *cluster.Pod) bool { return p.Namespace == namespace })
}

// gangNamed makes some pods, which are of one namespace, the pods of a gang.
func gangNamed(snap *cluster.Snapshot, name string, minimum, bound int, age time.Duration, is func(*cluster.Pod) bool) {
	gang := cluster.Gang{Name: name, Created: snap.At.Add(-age), Minimum: minimum, Bound: bound, Known: bound}
	for i := range snap.Pending {
		if p := &snap.Pending[i]; is(p) {
			p.Gang, gang.Namespace = name, p.Namespace
			gang.Known++
		}
	}
	snap.Gangs = append(snap.Gangs, gang)
	slices.SortFunc(snap.Gangs, func(a, b cluster.Gang) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
}

// placesOf returns how many pods of each namespace have a place in a plan.
func placesOf(p *plan.Plan) map[string]int {
	out := map[string]int{}
	for _, m := range p.Assignments {
		out[m.Pod.Namespace]++
	}
	for i := range p.Launches {
		for _, ref := range p.Launches[i].Pods {
			out[ref.Namespace]++
		}
	}
	return out
}

// counting is Decide that counts how often it is asked.
func counting(n *int) func(*cluster.Snapshot) plan.Plan {
	return func(s *cluster.Snapshot) plan.Plan {
		*n++
		d := decider{solve: trySolve}
		return d.decide(s)
	}
}

// TestNoPlanHasAPartOfAGang: of random gangs and other pods in a pool with a limit, each gang has
// enough places or none, each pod is answered once, and few decisions are made for it.
func TestNoPlanHasAPartOfAGang(t *testing.T) {
	t.Parallel()
	cut, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		snap := &cluster.Snapshot{}
		gangs := rapid.IntRange(1, 9).Draw(t, "gangs")
		for i := range gangs + 1 {
			sh := plainConstraints(fmt.Sprint("ns-", i))
			sh.Requests[quantity.CPU] = int64(rapid.IntRange(500, 7500).Draw(t, "cpu"))
			part := pendingPods(rapid.IntRange(1, 8).Draw(t, "pods"), sh)
			snap.At, snap.Pools, snap.Pending = part.At.Add(time.Duration(i)*time.Minute), part.Pools, append(snap.Pending, part.Pending...)
		}
		snap.Pools[0].Limits = quantity.List{quantity.CPU: int64(8000 * rapid.IntRange(0, 20).Draw(t, "limit"))}
		for i := range gangs {
			gangOf(snap, fmt.Sprint("ns-", i), rapid.IntRange(1, 9).Draw(t, "minimum"), rapid.IntRange(0, 2).Draw(t, "bound"), time.Duration(i)*time.Hour)
		}
		decisions := 0
		p := wholeGangs(snap, counting(&decisions))
		places := placesOf(&p)
		for i := range snap.Gangs {
			g := &snap.Gangs[i]
			if n := places[g.Namespace]; n > 0 && n+g.Bound < g.Minimum {
				t.Fatalf("%d pods of a gang have places, with %d that have a node, and it needs %d", n, g.Bound, g.Minimum)
			} else if n > 0 {
				kept++
			}
		}
		for _, r := range p.Refusals {
			places[r.Pod.Namespace]++
			if r.Why.Reason == verdict.GangShort {
				cut++
			}
		}
		for i := range gangs + 1 {
			want := len(slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return p.Namespace != fmt.Sprint("ns-", i) }))
			if got := places[fmt.Sprint("ns-", i)]; got != want {
				t.Fatalf("%d of %d pods of ns-%d are answered", got, want, i)
			}
		}
		if decisions > 2+gangTries+gangRounds {
			t.Fatalf("%d decisions", decisions)
		}
	})
	if !testing.Short() && (cut == 0 || kept == 0) { // -short tries a fifth as many
		t.Errorf("%d pods refused with their gangs, %d gangs with places: the test tests nothing", cut, kept)
	}
}

// TestAGangLosesThePodsOfABug: pods that a decision was given up for are left out of the next, and
// what is left of their gang is too little. Their own verdict stays.
func TestAGangLosesThePodsOfABug(t *testing.T) {
	t.Parallel()
	fatal, other, third := plainConstraints("a"), plainConstraints("a"), plainConstraints("b")
	snap := pendingPods(2, fatal, other, third)
	for i := range snap.Pending {
		snap.Pending[i].Constraints.Requests[quantity.CPU] = 7000
	}
	snap.Pools[0].Limits = quantity.List{quantity.CPU: 3 * 8000}
	gangOf(snap, "a", 4, 0, time.Hour)
	gangOf(snap, "b", 2, 0, time.Minute)
	asked := 0
	p := wholeGangs(snap, func(s *cluster.Snapshot) plan.Plan {
		d := decider{solve: func(s *cluster.Snapshot, opts Options) (plan.Plan, bool) {
			if slices.ContainsFunc(s.Pending, func(p cluster.Pod) bool { return p.Constraints == fatal }) {
				asked++
				panic("always")
			}
			return trySolve(s, opts)
		}}
		return d.decide(s)
	})
	if got := placesOf(&p); got["a"] != 0 || got["b"] != 2 {
		t.Errorf("places %v, want both pods of b", got)
	}
	if got := refusedBy(&p); got["a DecisionFailed"] != 2 || got["a GangShort"] != 2 {
		t.Errorf("refused %v, want two pods for the bug and two with their gang", got)
	}
	if len(p.GivenUp) != 1 || asked > 3 {
		t.Errorf("given up %q after %d decisions with the fatal pods, want once", p.GivenUp, asked)
	}
}

// TestAGangThatIsLostAltogetherKeepsItsVerdict: quarantine goes by it.
func TestAGangThatIsLostAltogetherKeepsItsVerdict(t *testing.T) {
	t.Parallel()
	snap := pendingPods(2, plainConstraints("a"))
	gangOf(snap, "a", 2, 0, time.Hour)
	p := wholeGangs(snap, func(s *cluster.Snapshot) plan.Plan {
		d := decider{solve: func(*cluster.Snapshot, Options) (plan.Plan, bool) { panic("always") }}
		return d.decide(s)
	})
	if got := refusedBy(&p); got["a DecisionFailed"] != 2 {
		t.Errorf("refused %v, want both for the bug", got)
	}
}

// scarce returns a cluster with room for two pods and gangs of three of the namespaces, the first
// the oldest, but for the last, which needs two.
func scarce(namespaces ...string) *cluster.Snapshot {
	var constraintSets []*cluster.Constraints
	for _, namespace := range namespaces {
		sh := plainConstraints(namespace)
		sh.Requests[quantity.CPU] = 7000
		constraintSets = append(constraintSets, sh)
	}
	snap := pendingPods(3, constraintSets...)
	snap.Pools[0].Limits = quantity.List{quantity.CPU: 2 * 8000}
	for i := range constraintSets {
		minimum := 3
		if i == len(constraintSets)-1 {
			minimum = 2
		}
		gangNamed(snap, fmt.Sprintf("gang-%02d", i), minimum, 0, time.Duration(20-i)*time.Hour, func(p *cluster.Pod) bool { return p.Constraints == constraintSets[i] })
	}
	return snap
}

// placesByTheMinute returns how many places the pods of a namespace have, in plans that are made
// every minute.
func placesByTheMinute(t *testing.T, snap *cluster.Snapshot, namespace string) (had []int) {
	t.Helper()
	start := snap.At
	for minute := range len(snap.Gangs) {
		snap.At = start.Add(time.Duration(minute) * time.Minute)
		decisions := 0
		p := wholeGangs(snap, counting(&decisions))
		if had = append(had, placesOf(&p)[namespace]); decisions > 2+gangTries+gangRounds {
			t.Errorf("%d decisions", decisions)
		}
	}
	return had
}

// TestGangsAlternate: of many gangs for which there is never enough, none keeps another for good
// from being tried.
func TestGangsAlternate(t *testing.T) {
	t.Parallel()
	var namespaces []string
	for i := range 12 {
		namespaces = append(namespaces, fmt.Sprintf("ns-%02d", i))
	}
	if had := placesByTheMinute(t, scarce(namespaces...), "ns-11"); slices.Max(had) == 0 {
		t.Errorf("the gang that could have its nodes never had them: %v", had)
	}
}

// TestNamespacesAlternate: the gangs of one namespace, however many there are and however old, do
// not keep that of another waiting.
func TestNamespacesAlternate(t *testing.T) {
	t.Parallel()
	if had := placesByTheMinute(t, scarce("a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "b"), "b"); slices.Min(had) == 0 {
		t.Errorf("the gang of another namespace had to wait: %v", had)
	}
}

// TestAGangThatIsShortCostsOneDecision more, and no plan that keeps making gangs short costs
// more than a few.
func TestAGangThatIsShortCostsOneDecision(t *testing.T) {
	t.Parallel()
	snap := pendingPods(3, plainConstraints("a"))
	snap.Pending[0].Constraints.Requests[quantity.CPU] = 7000
	snap.Pools[0].Limits = quantity.List{quantity.CPU: 2 * 8000}
	gangOf(snap, "a", 3, 0, time.Hour)
	decisions := 0
	if p := wholeGangs(snap, counting(&decisions)); decisions != 2 || len(p.Launches) > 0 {
		t.Errorf("%d decisions, want 2, and %d launches", decisions, len(p.Launches))
	}
	many := scarce("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	decisions = 0
	p := wholeGangs(many, func(s *cluster.Snapshot) (p plan.Plan) {
		decisions++
		for i := range s.Pending { // all have a place but for two pods of the first gang
			if pod := &s.Pending[i]; pod.Gang == s.Pending[0].Gang && i > 0 {
				p.Refusals = append(p.Refusals, plan.Refusal{Pod: pod.PodRef, Why: verdict.Of(verdict.NoPlace, "", "none")})
			} else {
				p.Assignments = append(p.Assignments, plan.Assignment{Pod: pod.PodRef})
			}
		}
		return p
	})
	if decisions > 2+gangTries+gangRounds || len(p.Assignments) > 0 || len(p.Refusals) != len(many.Pending) {
		t.Errorf("%d decisions, %d places, %d of %d pods refused", decisions, len(p.Assignments), len(p.Refusals), len(many.Pending))
	}
}
