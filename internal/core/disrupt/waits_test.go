package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestWhatWaitsForBudgets: a machine is to go whose pod fits on others, beside one that goes.
func TestWhatWaitsForBudgets(t *testing.T) {
	t.Parallel()
	const machines = `
node a pool=general type=four
running web on=a cpu=1
node b pool=general type=four
running web on=b cpu=1
node c pool=other type=four
running web on=c count=4 cpu=1
node d pool=other type=four
running web on=d count=4 cpu=1
node e pool=general type=four marked=Underutilized since=1s closed step=s1:1:0
running web on=e cpu=1
`
	for name, c := range map[string]struct {
		pools     string
		drainOnly bool
		steps     int
		want      map[string]int
		settled   bool
	}{
		"it begins":                   {"pool general\npool other", false, 1, nil, true},
		"it waits":                    {"pool general budget=1\npool other", false, 0, map[string]int{"general": 0}, false},
		"only drains were looked for": {"pool general budget=1\npool other", true, 0, nil, false},
		"nothing is to gain":          {"pool general policy=WhenEmpty\npool other policy=WhenEmpty", false, 0, nil, false},
	} {
		snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\n" + c.pools + machines)
		if err != nil {
			t.Fatal(err)
		}
		var memory disrupt.Memory
		if c.drainOnly {
			memory.FullSearchAt = snap.At.Add(time.Second)
		}
		p, next := disrupt.Propose(snap, memory, disrupt.Options{Settle: 2 * time.Second})
		if diff := cmp.Diff(c.want, next.BudgetWaits); diff != "" || len(p.Steps) != c.steps {
			t.Errorf("%s: pools whose budgets are waited for (-want +got):\n%s\nof %s", name, diff, story.PrintDisruption(&p))
		}
		if begun := !next.ConclusiveAt.IsZero(); begun != c.settled {
			t.Errorf("%s: all that was found has begun: %v, want %v", name, begun, c.settled)
		}
	}
}

// TestFewTriesAreMadeWhereLittleMayBegin: it is asked after each try how much may.
func TestFewTriesAreMadeWhereLittleMayBegin(t *testing.T) {
	t.Parallel()
	text := "type four cpu=4 memory=8Gi price=0.20\npool general\n"
	for i := range 40 {
		text += fmt.Sprintf("node n%02d pool=general type=four quiet=2h\nrunning web on=n%02d cpu=1\n", i, i)
	}
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tries := func(begins, try int) (n int) {
		found := disrupt.Consolidate(snap, disrupt.ConsolidateOptions{Try: try, MayBegin: func([]plan.Step) int {
			n++
			return begins
		}})
		if len(found.Steps) < 25 {
			t.Fatalf("%d steps were found", len(found.Steps))
		}
		return n
	}
	for name, c := range map[string]struct{ begins, try, want int }{
		"all may":                         {100, 0, 6},
		"one may":                         {1, 0, 2},
		"none may":                        {0, 0, 2},
		"one may, and one try found most": {1, 2, 1},
		"all may, and one try found most": {100, 2, 2},
	} {
		if got := tries(c.begins, c.try); got != c.want {
			t.Errorf("%s: %d tries were made, want %d", name, got, c.want)
		}
	}
}
