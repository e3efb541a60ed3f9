package topology_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// randomTerm returns an anti-affinity term that selects some of the pods of randomConstraints.
func randomTerm(r *rand.Rand) cluster.PodTerm {
	values := []string{"a", "b", "c", "d"}
	some := label.Requirements{"app": label.In(values[r.IntN(4)])}
	switch r.IntN(4) {
	case 0:
		some["app"] = label.NotIn(values[r.IntN(4)], values[r.IntN(4)])
	case 1:
		some["team"] = label.In(values[r.IntN(4)], values[r.IntN(4)])
	}
	t := cluster.PodTerm{Key: []string{label.Hostname, label.Zone}[r.IntN(2)], Selector: cluster.Selector{Some: true, Requirements: some}}
	for range r.IntN(3) {
		t.Namespaces = append(t.Namespaces, values[r.IntN(4)])
	}
	if r.IntN(4) == 0 {
		t.NamespaceSelector = cluster.Selector{Some: true, Requirements: label.Requirements{"of": label.In(values[r.IntN(4)])}}
	}
	return t
}

// randomConstraints returns pod constraints of pods that wait, without rules, and then of pods that run and have some.
func randomConstraints(r *rand.Rand, waiting, running, terms int) []*cluster.Constraints {
	var constraintSets []*cluster.Constraints
	for i := range waiting + running {
		values := []string{"a", "b", "c", "d"}
		sh := &cluster.Constraints{Namespace: values[r.IntN(4)], Labels: map[string]string{"app": values[r.IntN(4)], "team": values[r.IntN(4)]}}
		for range terms {
			if i >= waiting {
				sh.AntiAffinity = append(sh.AntiAffinity, randomTerm(r))
			}
		}
		constraintSets = append(constraintSets, sh)
	}
	return constraintSets
}

// TestRulesOfRunningPodsHold: pods that wait are kept away as they are where every rule of pods
// that run is read one by one, however many there are.
func TestRulesOfRunningPodsHold(t *testing.T) {
	t.Parallel()
	const waiting, owners = 4, 3
	namespaces := map[string]map[string]string{"a": {"of": "a"}, "b": {"of": "b"}, "c": {"of": "a"}, "d": nil}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		terms := []int{1, 3, 80}[seed%3]
		constraintSets := randomConstraints(r, waiting, owners, terms)
		if terms == 80 { // of which nearly all select nobody that waits
			for _, sh := range constraintSets[waiting:] {
				for i := range sh.AntiAffinity[2:] {
					sh.AntiAffinity[2+i].Selector.Requirements["app"] = label.In(fmt.Sprint(i))
				}
			}
		}
		judge := func(l *topology.Ledger) string {
			kept := ""
			var places []topology.Place
			for p := range owners + 1 {
				at := topology.Place{Domain: make([]int32, len(l.Keys()))}
				for k, key := range l.Keys() {
					at.Domain[k] = l.Domain(k, fmt.Sprint(key, p))
					if key == label.Zone {
						at.Domain[k] = l.Domain(k, fmt.Sprint(p%2))
					}
				}
				places = append(places, at)
				if p < owners {
					l.Count(waiting+p, &places[p], 1, 0)
				}
			}
			for c := range waiting {
				for p := range places {
					kept += fmt.Sprint(l.Check(c, &places[p], 0, false).IsYes(), " ")
				}
			}
			return kept
		}
		want := judge(topology.New(constraintSets, namespaces))
		if got := judge(topology.NewFor(constraintSets, namespaces, effort.New(1_000_000), func(c int) bool { return c < waiting })); got != want {
			t.Errorf("seed %d, %d terms each: kept away %s, want %s", seed, terms, got, want)
		}
	}
}

// TestMoreRulesThanAreRead: rules that are not read keep all pods off the nodes of their owners, and off no others.
func TestMoreRulesThanAreRead(t *testing.T) {
	t.Parallel()
	sh := &cluster.Constraints{Namespace: "hostile"}
	for i := range 5000 {
		some := cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In(fmt.Sprint(i))}}
		sh.AntiAffinity = append(sh.AntiAffinity, cluster.PodTerm{Key: label.Hostname, Selector: some, Namespaces: []string{"hostile"}})
	}
	meter := effort.New(4_000)
	l := topology.NewFor([]*cluster.Constraints{{Namespace: "other"}, sh}, nil, meter, func(c int) bool { return c == 0 })
	theirs, free := &topology.Place{Domain: []int32{l.Domain(0, "theirs")}}, &topology.Place{Domain: []int32{l.Domain(0, "free")}}
	l.Count(1, theirs, 1, 0)
	if l.Check(0, theirs, 0, false).IsYes() || !l.Check(0, free, 0, false).IsYes() {
		t.Errorf("pods may be where the owner is: %t, and elsewhere: %t", l.Check(0, theirs, 0, false).IsYes(), l.Check(0, free, 0, false).IsYes())
	}
	if meter.Spent() > 2_500 {
		t.Errorf("reading the rules took %d units of 4000", meter.Spent())
	}
}

// TestOnePodIsAskedLittle: a class from which each of many running pods keeps away together with another
// class, so that no two have the same effect, is kept off all of them with few questions.
func TestOnePodIsAskedLittle(t *testing.T) {
	t.Parallel()
	const waiting, owners = 60, 59
	var constraintSets []*cluster.Constraints
	for i := range waiting + owners {
		constraintSets = append(constraintSets, &cluster.Constraints{Namespace: "a", Labels: map[string]string{"app": fmt.Sprint(i)}})
		if i >= waiting {
			some := cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In("0", fmt.Sprint(1+i-waiting))}}
			constraintSets[i].AntiAffinity = []cluster.PodTerm{{Key: label.Hostname, Selector: some, Namespaces: []string{"a"}}}
		}
	}
	meter := effort.New(1_000_000)
	l := topology.NewFor(constraintSets, nil, meter, func(c int) bool { return c < waiting })
	most := int64(0)
	for i := range owners {
		at := &topology.Place{Domain: []int32{l.Domain(0, fmt.Sprint(i))}}
		l.Count(waiting+i, at, 1, 0)
		before := meter.Spent()
		if l.Check(0, at, 0, false).IsYes() {
			t.Errorf("a pod may be where pod %d is, which repels it", i)
		}
		most = max(most, meter.Spent()-before)
	}
	if most > 20 {
		t.Errorf("asking takes %d units, want 20 at most", most)
	}
}
