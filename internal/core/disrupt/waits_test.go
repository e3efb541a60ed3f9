package disrupt_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestWhatWaitsForBudgets: a node is to go whose pod fits on others, beside one that goes.
func TestWhatWaitsForBudgets(t *testing.T) {
	t.Parallel()
	const nodes = `
node a pool=general type=four
running web on=a cpu=1
node b pool=general type=four
running web on=b cpu=1
node c pool=other type=four
running web on=c count=4 cpu=1
node d pool=other type=four
running web on=d count=4 cpu=1
node e pool=general type=four reason=Underutilized since=1s disrupted command=s1:1:0
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
		snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\n" + c.pools + nodes)
		if err != nil {
			t.Fatal(err)
		}
		var memory disrupt.Memory
		if c.drainOnly {
			memory.FullSearchAt = snap.At.Add(time.Second)
		}
		p, next := disrupt.Propose(snap, memory, disrupt.Options{Grace: 2 * time.Second})
		if diff := cmp.Diff(c.want, next.BudgetWaits); diff != "" || len(p.Commands) != c.steps {
			t.Errorf("%s: pools whose budgets are waited for (-want +got):\n%s\nof %s", name, diff, story.PrintDisruption(&p))
		}
		if begun := !next.ConclusiveAt.IsZero(); begun != c.settled {
			t.Errorf("%s: all that was found has begun: %v, want %v", name, begun, c.settled)
		}
	}
}
