package disrupt

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// recall returns the scope of a decision at an instant, when so many events were reported.
func recall(m *Memory, reported uint64, at time.Time) scope {
	*m = m.own()
	return m.recall(&cluster.Snapshot{At: at}, Events{Reported: reported})
}

// learn adds to the memory what a decision came to.
func learn(m *Memory, s scope, reported uint64, p plan.Disruption, found findings) {
	*m = m.own()
	w := &work{snap: &cluster.Snapshot{At: p.At}, scope: s, out: p, found: found, opts: Options{Grace: 2 * time.Second}}
	m.learn(w, Events{Reported: reported})
}

func TestAPoolThatFailsIsLeftAloneForLongerAndLonger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	fails := func(pool string) {
		learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: now, Undos: []plan.Undo{{Failed: true, Open: []plan.Removal{{Pool: pool}}}}}, findings{})
	}
	paused := func(pool string) time.Duration {
		opts := recall(&m, 0, now)
		return max(0, opts.paused[pool].Sub(now))
	}
	for i, minutes := range []int{1, 2, 4, 8, 10, 10} {
		want := time.Duration(minutes) * time.Minute
		fails("bad")
		if got := paused("bad"); got != want {
			t.Errorf("after failure %d the pool is left alone for %s, want %s", i+1, got, want)
		}
		now = now.Add(want)
	}
	if got := paused("good"); got != 0 {
		t.Errorf("another pool is left alone for %s", got)
	}
	now = now.Add(11 * time.Minute)
	paused("bad") // forgets
	fails("bad")
	if got := paused("bad"); got != time.Minute {
		t.Errorf("after a long time without failures the pool is left alone for %s, want a minute", got)
	}
}

// TestEverythingIsLookedAtAgainWhenAPauseEnds: nodes for which nothing could be bought.
func TestEverythingIsLookedAtAgainWhenAPauseEnds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	learn(&m, scope{}, 0, plan.Disruption{At: start, Undos: []plan.Undo{{Failed: true, Open: []plan.Removal{{Pool: "bad"}}}}}, findings{})
	for _, c := range []struct {
		after time.Duration
		again bool
	}{{20 * time.Second, true}, {50 * time.Second, false}, {80 * time.Second, true}, {110 * time.Second, false}} {
		opts := recall(&m, 0, start.Add(c.after))
		if again := opts.since.IsZero(); again != c.again {
			t.Errorf("after %s: everything %v, want %v", c.after, again, c.again)
		}
		learn(&m, opts, 0, plan.Disruption{At: start.Add(c.after)}, findings{conclusive: true})
	}
}

func TestAStepThatIsTakenBackWithoutAFailureCostsNoTime(t *testing.T) {
	t.Parallel()
	var m Memory
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: now, Undos: []plan.Undo{{Open: []plan.Removal{{Pool: "p"}}}}}, findings{})
	if opts := recall(&m, 0, now); len(opts.paused) > 0 {
		t.Errorf("paused: %v", opts.paused)
	}
}

func TestANodeThatCannotBeReplacedRestsForAMinute(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]int{0: 1, 59 * time.Second: 1, time.Minute: 0} {
		var m Memory
		learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: now, Blocked: []verdict.Verdict{verdict.Of(verdict.NoReplacement, "n1", "no room"), verdict.Of(verdict.NodeBlocked, "n2", "held")}}, findings{})
		if opts := recall(&m, 0, now.Add(at)); len(opts.coolingDown) != want {
			t.Errorf("after %s %d nodes rest, want %d", at, len(opts.coolingDown), want)
		}
	}
}

// TestANodeThatCannotBeReplacedIsTriedLessAndLess, until something can be bought that could not
// be before.
func TestANodeThatCannotBeReplacedIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	pools := []cluster.Pool{{Name: "p", Limits: quantity.List{"cpu": 1}}}
	m = m.own()
	m.notice(&cluster.Snapshot{Pools: pools})
	observe := func() (tried bool) {
		opts := recall(&m, 0, now)
		_, rests := opts.coolingDown["n"]
		learn(&m, opts, 0, plan.Disruption{At: now, Blocked: []verdict.Verdict{verdict.Of(verdict.NoReplacement, "n", "no room")}}, findings{})
		return !rests
	}
	untilTried := func() (passed time.Duration) {
		for begun := now; ; now = now.Add(5 * time.Second) {
			if observe() {
				return now.Sub(begun)
			}
		}
	}
	for i, minutes := range []int{0, 1, 2, 4, 8, 10, 10} {
		if got, want := untilTried(), time.Duration(minutes)*time.Minute; got != want {
			t.Errorf("try %d comes after %s, want %s", i+1, got, want)
		}
	}
	m = m.own()
	m.notice(&cluster.Snapshot{Pools: []cluster.Pool{{Name: "p", Limits: quantity.List{"cpu": 2}}}})
	if got := untilTried(); got != 0 {
		t.Errorf("the limit is higher, and it is tried after %s", got)
	}
	if got := untilTried(); got != time.Minute {
		t.Errorf("after that it is tried after %s, want a minute", got)
	}
}

// TestRoomThatComesIsTriedAtOnce: of nodes that could not be replaced, perhaps for limits, a few
// are tried as soon as these leave more room.
func TestRoomThatComesIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var m Memory
	node := func(name string) cluster.Node {
		return cluster.Node{Name: name, Claim: name, Pool: "p", Capacity: quantity.List{quantity.CPU: 4000}}
	}
	nodes := []cluster.Node{node("a"), node("b"), node("c"), node("d"), node("e"), node("f")}
	snap := func() *cluster.Snapshot {
		return &cluster.Snapshot{At: now, Nodes: slices.Clone(nodes), Pools: []cluster.Pool{{Name: "p", Limits: quantity.List{quantity.CPU: 24000}}}}
	}
	rest := func() (names string) {
		m.notice(snap())
		opts := recall(&m, 0, now)
		return strings.Join(slices.Sorted(maps.Keys(opts.coolingDown)), "")
	}
	rest()
	for _, name := range []string{"f", "a", "b", "c", "d", "e"} { // f first
		learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: now, Blocked: []verdict.Verdict{verdict.Of(verdict.NoReplacement, name, "no room")}}, findings{})
		now = now.Add(time.Second)
	}
	if got := rest(); got != "abcdef" {
		t.Errorf("%q rest, want all", got)
	}
	if now = now.Add(time.Second); rest() != "abcdef" {
		t.Error("some are tried again though there is no more room")
	}
	nodes[4].Deleting = true
	if now = now.Add(time.Second); rest() != "de" {
		t.Errorf("%q rest, want d and e: there is room", rest())
	}
	if now = now.Add(time.Second); rest() != "de" {
		t.Errorf("%q rest, want d and e: there is no more room than that", rest())
	}
}

// TestALongSearchIsFollowedByShortOnes: what is searched from second to second after a
// search for everything that took two, and after one that found nothing.
func TestALongSearchIsFollowedByShortOnes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	search := func(settled bool, after ...time.Duration) (kinds []string) {
		var m Memory
		now := start
		for _, pause := range append(after, 0) {
			opts := recall(&m, 0, now)
			kind, took := "all", 2*time.Second
			switch opts.search {
			case NoSearch:
				kind = "nothing"
			case DrainSearch:
				kind, took = "drains", 100*time.Millisecond
			case ChangedSearch:
				kind, took = "changed", 100*time.Millisecond
			case FullSearch:
			}
			kinds = append(kinds, kind)
			learn(&m, opts, 0, plan.Disruption{At: now}, findings{conclusive: settled && kind != "nothing"})
			m.SearchTook(now, took)
			now = now.Add(pause)
		}
		return kinds
	}
	second := time.Second
	for name, c := range map[string]struct{ got, want []string }{
		"there is much to do": {search(false, second, second, second/2, 20*second), []string{"all", "nothing", "drains", "nothing", "all"}},
		"nothing is found":    {search(true, 2*second, second/2, 20*second, 38*second), []string{"all", "nothing", "nothing", "changed", "all"}},
		"and nothing again":   {search(true, time.Minute, time.Minute, time.Minute), []string{"all", "all", "changed", "all"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: searched (-want +got):\n%s", name, diff)
		}
	}
}

// TestEverythingIsLookedAtAgainWhenPricesFall: not so when they rise, or are read anew.
func TestEverythingIsLookedAtAgainWhenPricesFall(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	for i, c := range []struct {
		dollars float64
		again   bool
	}{{0.2, true}, {0.2, false}, {0.3, false}, {0.25, true}, {0.25, false}} {
		offering := catalog.Offering{Zone: "a", CapacityType: "spot", Priced: true, PriceHourly: c.dollars, Available: true}
		m = m.own()
		m.notice(&cluster.Snapshot{Pools: []cluster.Pool{{Name: "p", Types: []*catalog.Type{{Name: "four", Offerings: []catalog.Offering{offering}}}}}})
		opts := recall(&m, 0, now)
		if again := opts.search == FullSearch; again != c.again {
			t.Errorf("decision %d, at %.2f: everything %v, want %v", i+1, c.dollars, again, c.again)
		}
		learn(&m, opts, 0, plan.Disruption{At: now}, findings{conclusive: true})
		now = now.Add(5 * time.Second)
	}
}

// TestANodeWhoseStepIsTakenBackRestsForLongerAndLonger was found by the world (seed 18):
// a step that was undone began anew a second later, for ever.
func TestANodeWhoseStepIsTakenBackRestsForLongerAndLonger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	for i, minutes := range []int{1, 2, 4, 8, 10, 10} {
		learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: now, Undos: []plan.Undo{{Open: []plan.Removal{{Node: "n"}}}}}, findings{})
		want := time.Duration(minutes) * time.Minute
		for at, rests := range map[time.Duration]bool{want - time.Second: true, want: false} {
			opts := recall(&m, 0, now.Add(at))
			if _, got := opts.coolingDown["n"]; got != rests {
				t.Errorf("%s after step %d was taken back it rests: %v, want %v", at, i+1, got, rests)
			}
		}
		now = now.Add(want)
	}
}

// TestASearchInVainHoldsForAsLongAsNothingIsReported: for eight minutes at most while something
// happens, or a node is young (world, seed 102198), for half an hour while nothing does.
func TestASearchInVainHoldsForAsLongAsNothingIsReported(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	searches := func(reportedEach uint64, young bool) (minutes []int) {
		m := Memory{AnyYoung: young}
		reported := uint64(1)
		for now := noon; now.Sub(noon) < 3*time.Hour; now = now.Add(time.Minute) {
			opts := recall(&m, reported, now)
			if opts.since.IsZero() {
				minutes = append(minutes, int(now.Sub(noon).Minutes()))
			}
			learn(&m, opts, reported, plan.Disruption{At: now}, findings{conclusive: true})
			reported += reportedEach
		}
		return minutes
	}
	if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 31, 63, 95, 127, 159}, searches(0, false)); diff != "" {
		t.Errorf("nothing is reported: everything is looked for at these minutes (-want +got):\n%s", diff)
	}
	if got := searches(0, true); len(got) < 20 {
		t.Errorf("a node is young: everything is looked for at minutes %v, want every eight", got)
	}
	if got := searches(1, false); len(got) < 20 {
		t.Errorf("something is reported: everything is looked for at minutes %v, want every eight", got)
	}
}

// TestWhatWaitsForBudgetsIsNotLookedForAgain, until these have room, or half a minute later.
func TestWhatWaitsForBudgetsIsNotLookedForAgain(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	after := func(pause time.Duration, marked, unwell int) *cluster.Snapshot {
		snap := &cluster.Snapshot{At: noon.Add(pause), Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Nodes: 2, Active: true}}}}}
		for i := range 10 {
			n := cluster.Node{Pool: "p", Claim: "c", Initialized: true, Ready: i >= unwell}
			if i >= 10-marked {
				n.DisruptionReason = "Underutilized"
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		return snap
	}
	second := time.Second
	for name, c := range map[string]struct {
		waits    map[string]int
		skips    bool
		searches []*cluster.Snapshot
		want     []bool
	}{
		"nothing waits":             {nil, false, []*cluster.Snapshot{after(second, 2, 0)}, []bool{false}},
		"nothing was looked for":    {map[string]int{"p": 0}, true, []*cluster.Snapshot{after(second, 2, 0)}, []bool{false}},
		"no step ends":              {map[string]int{"p": 0}, false, []*cluster.Snapshot{after(second, 2, 0), after(budgetPatience-second, 2, 0), after(budgetPatience, 2, 0)}, []bool{true, true, false}},
		"a step ends":               {map[string]int{"p": 0}, false, []*cluster.Snapshot{after(second, 2, 0), after(2*second, 1, 0), after(3*second, 1, 0)}, []bool{true, false, false}},
		"the room is too small":     {map[string]int{"p": 1}, false, []*cluster.Snapshot{after(second, 1, 0)}, []bool{true}},
		"a node fails and recovers": {map[string]int{"p": 1}, false, []*cluster.Snapshot{after(second, 1, 1), after(2*second, 1, 0)}, []bool{true, false}},
		"another pool has room":     {map[string]int{"q": 0}, false, []*cluster.Snapshot{after(second, 1, 0)}, []bool{true}},
	} {
		var m Memory
		var s scope
		if !c.skips {
			s.search = FullSearch
		}
		learn(&m, s, 0, plan.Disruption{At: noon}, findings{budgetWaits: c.waits})
		var got []bool
		for _, snap := range c.searches {
			got = append(got, m.isWaiting(snap))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: it is waited (-want +got):\n%s", name, diff)
		}
	}
}

// TestSearchesThatBeginNothingComeFurtherApart: at which seconds something cheaper is looked for.
func TestSearchesThatBeginNothingComeFurtherApart(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		begun   int // the second in which a search begins a step
		settled bool
		want    []int
	}{
		"nothing is found":            {-1, true, []int{0, 5, 15, 35, 55, 75}},
		"a step is begun on the way":  {15, true, []int{0, 5, 15, 20, 25, 35, 55, 75}},
		"what is found may not begin": {-1, false, []int{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75}},
	} {
		var m Memory
		var got []int
		for s := 0; s <= 75; s += int(pauseCalm.Seconds()) {
			now := noon.Add(time.Duration(s) * time.Second)
			p := plan.Disruption{At: now}
			if s == c.begun {
				p.Commands = []plan.Command{{Reason: Underutilized}}
			}
			opts := recall(&m, uint64(s), now)
			if opts.search != NoSearch {
				got = append(got, s)
			}
			learn(&m, opts, uint64(s), p, findings{conclusive: c.settled})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: looked for (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatHasBegunLeavesTheRestSettled: nothing happens to nodes that no step concerns, so
// they are not looked at together again for a minute.
func TestWhatHasBegunLeavesTheRestSettled(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	begins := []plan.Command{{Reason: Underutilized}}
	for name, c := range map[string]struct {
		conclusive bool
		after      time.Duration
		all        bool
	}{
		"all that was found has begun": {true, conclusiveMin - time.Second, false},
		"and a minute has passed":      {true, conclusiveMin, true},
		"some of it has not":           {false, pauseCalm, true},
	} {
		var m Memory
		learn(&m, scope{search: FullSearch}, 0, plan.Disruption{At: noon, Commands: begins}, findings{conclusive: c.conclusive})
		if opts := recall(&m, 1, noon.Add(c.after)); opts.since.IsZero() != c.all {
			t.Errorf("%s: everything is looked at again after %s: %v, want %v", name, c.after, opts.since.IsZero(), c.all)
		}
	}
}

// TestWhatWasLookedAtOnceIsNotLookedAtAgain: only what has happened since the last search, until
// everything is looked at anew.
func TestWhatWasLookedAtOnceIsNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var m Memory
	var unlooked []string // since the last look that left nothing
	for _, c := range []struct {
		after, since time.Duration // negative: everything is looked at
		settled      bool
	}{
		{0, -1, true},
		{20 * time.Second, 0, true},
		{40 * time.Second, 20 * time.Second, false}, // something that is left waits for its turn
		{50 * time.Second, 20 * time.Second, true},
		{59 * time.Second, 50 * time.Second, true},
		{conclusiveMin, -1, true},
	} {
		opts := recall(&m, uint64(c.after), noon.Add(c.after))
		var want time.Time
		if c.since >= 0 {
			want = noon.Add(c.since)
		}
		if !opts.since.Equal(want) {
			t.Errorf("after %s what has happened since %s is looked at, want %s", c.after, opts.since, want)
		}
		if c.since >= 0 && !slices.Equal(opts.excluded, unlooked) {
			t.Errorf("after %s nodes %v might not go at the last look, want %v", c.after, opts.excluded, unlooked)
		}
		found := findings{conclusive: c.settled, excluded: []string{c.after.String()}}
		if learn(&m, opts, uint64(c.after), plan.Disruption{At: noon.Add(c.after)}, found); c.settled {
			unlooked = found.excluded
		}
	}
}

// TestTheSearchThatFoundMostIsMadeFirst for two minutes, as long as it finds something.
func TestTheSearchThatFoundMostIsMadeFirst(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var m Memory
	for i, c := range []struct {
		after time.Duration
		first int // which search is made first
		found int
	}{{0, 0, 7}, {5 * time.Second, 7, 7}, {triesHold - time.Second, 7, 7}, {triesHold, 0, 3}, {triesHold + 5*time.Second, 3, 9}, {triesHold + 10*time.Second, 9, 0}, {triesHold + 15*time.Second, 0, 0}} {
		opts := recall(&m, 0, noon.Add(c.after))
		if opts.try != c.first {
			t.Errorf("decision %d, after %s: search %d is made first, want %d", i+1, c.after, opts.try, c.first)
		}
		learn(&m, opts, 0, plan.Disruption{At: noon.Add(c.after)}, findings{try: c.found})
	}
}
