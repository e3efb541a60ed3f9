package devices

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

func demandOf(t *testing.T, specs ...resourceapi.ResourceClaimSpec) *Demand {
	t.Helper()
	d, problem := NewDemand(specs, testClasses())
	if problem != "" {
		t.Fatal(problem)
	}
	return d
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestADemandThatTakesLongIsNotSearchedForAgain: a claim for more devices of one NUMA node than there
// are makes the allocator try nearly all sets of them. Such a search is cut off once, whatever other
// nodes there are, and made again ten minutes later.
func TestADemandThatTakesLongIsNotSearchedForAgain(t *testing.T) {
	t.Parallel()
	hostile := demandOf(t, sameNUMA(claimOf(exactly("a", "gpu", 32))))
	quick := demandOf(t, claimOf(exactly("a", "gpu", 1)))
	models := slices.Repeat([]string{"large"}, 60)
	var supplies []*Supply
	for i := range 5 {
		supplies = append(supplies, TemplateOf([]resourceapi.ResourceSliceSpec{gpus(append(models, fmt.Sprint("model-", i))...)}))
	}
	a := NewAllocator()
	a.SearchMost, a.CompileMost = 3*time.Second, time.Hour // far more than the other demand takes, with the race detector too
	searched := func() (n int) {
		for key := range a.counts {
			if key[0] == hostile.Key {
				n++
			}
		}
		return n
	}
	for range 3 {
		c := a.Compile(noon, []*Demand{hostile, quick}, supplies)
		if got := searched(); got != 1 {
			t.Fatalf("%d searches, want one", got)
		}
		if why := c.Why(hostile); why != whySlow {
			t.Errorf("why: %q, want %q", why, whySlow)
		}
		if n := podsWithin(c.Has(supplies[4]), c.Needs(quick)); n != 61 || len(c.Apart(quick)) > 0 {
			t.Errorf("of the other demand there is room for %d pods, want 61; apart from %d", n, len(c.Apart(quick)))
		}
	}
	if a.Compile(noon.Add(slowFor), []*Demand{hostile}, supplies); searched() != 2 {
		t.Errorf("%d searches ten minutes later, want two", searched())
	}
}

// TestWithoutTimeNothingIsAssumed: a demand that there is no time for has no devices yet, and what it
// would share with others is not known. Each comes first in its turn.
func TestWithoutTimeNothingIsAssumed(t *testing.T) {
	t.Parallel()
	demands := []*Demand{
		demandOf(t, claimOf(exactly("a", "gpu", 1))), demandOf(t, claimOf(exactly("a", "gpu", 2))), demandOf(t, claimOf(exactly("a", "nic", 1))),
	}
	slices.SortFunc(demands, func(a, b *Demand) int { return strings.Compare(a.Key, b.Key) })
	s := TemplateOf([]resourceapi.ResourceSliceSpec{gpus("large", "large", "large", "large"), nics(4)})
	compile := func(a *Allocator) (rooms, aparts []int, c *Compiled) {
		c = a.Compile(noon, demands, []*Supply{s})
		for _, d := range demands {
			rooms, aparts = append(rooms, podsWithin(c.Has(s), c.Needs(d))), append(aparts, len(c.Apart(d)))
		}
		return rooms, aparts, c
	}
	a := NewAllocator()
	a.CompileMost = -1
	for turn := range 4 {
		rooms, _, c := compile(a)
		if fmt.Sprint(rooms) != "[0 0 0]" || c.Why(demands[0]) != whyNoTime || len(a.counts) > 0 {
			t.Errorf("without time there is room for %v pods (%q), and %d counts are remembered", rooms, c.Why(demands[0]), len(a.counts))
		}
		if want := demands[(turn+1)%3].Key; a.first != want {
			t.Errorf("after turn %d %s is first, want %s", turn, a.first, want)
		}
	}
	a.CompileMost = compileMost
	counted, aparts, c := compile(a)
	if c.Why(demands[0]) != "" || slices.Contains(counted, 0) || fmt.Sprint(aparts) != "[0 0 0]" {
		t.Errorf("with time there is room for %v pods (%q), apart from %v", counted, c.Why(demands[0]), aparts)
	}
	a.CompileMost = -1
	if rooms, aparts, _ := compile(a); fmt.Sprint(rooms) != fmt.Sprint(counted) || fmt.Sprint(aparts) != "[2 2 2]" {
		t.Errorf("with counts from before, and no time to compare: room for %v pods, want %v; apart from %v, want 2 each", rooms, counted, aparts)
	}
	a.CompileMost = compileMost
	for _, d := range demands[:2] {
		a.slow[search{demand: d.Key, isSet: true}] = noon
	}
	if _, aparts, _ := compile(a); fmt.Sprint(aparts) != "[2 2 2]" {
		t.Errorf("where two took too long to compare, apart from %v, want 2 each", aparts)
	}
}
