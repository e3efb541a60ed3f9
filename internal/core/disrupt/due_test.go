package disrupt

import (
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

func TestNodesOfOneAgeAreDueAtDifferentTimes(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ life, window time.Duration }{
		"a month":     {720 * time.Hour, 24 * time.Hour},
		"ten hours":   {10 * time.Hour, time.Hour},
		"an hour":     {time.Hour, 10 * time.Minute},
		"ten minutes": {10 * time.Minute, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := created.Add(tc.life - tc.window)
			tenths := map[int64]int{}
			for i := range 1000 {
				n := cluster.Node{Claim: fmt.Sprintf("general-%d", i), Created: created, Expires: created.Add(tc.life)}
				at := DueAt(&n)
				if at.Before(begin) || at.After(begin.Add(tc.window/2)) {
					t.Fatalf("%s is due %s after the window began, which is %s long", n.Claim, at.Sub(begin), tc.window)
				}
				tenths[int64(at.Sub(begin)*20/tc.window)]++
			}
			for tenth, n := range tenths {
				if n > 200 && tenth < 10 {
					t.Errorf("%d of 1000 nodes are due in one tenth of the time", n)
				}
			}
		})
	}
}
