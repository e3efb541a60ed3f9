package view_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// TestBudgetsOverTheDay shows the budgets of a NodePool with three nodes over the coming day.
func TestBudgetsOverTheDay(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool other\npool general\nnode a pool=general type=four\nnode b pool=general type=four\nnode c pool=general type=four\n")
	if err != nil {
		t.Fatal(err)
	}
	now := story.Now()
	// until returns a schedule with other budgets from some hours after now on.
	until := func(hours map[int][]cluster.Budget) view.BudgetSchedule {
		return func(at time.Time) (budgets []cluster.Budget, next time.Time) {
			for h := range 30 {
				if b, changes := hours[h]; changes && !now.Add(time.Duration(h)*time.Hour).After(at) {
					budgets = b
				} else if changes {
					return budgets, now.Add(time.Duration(h) * time.Hour)
				}
			}
			return budgets, time.Time{}
		}
	}
	span := func(from, until time.Duration, allowed ...int) view.BudgetSpan {
		return view.BudgetSpan{From: now.Add(from), Until: now.Add(until), Allowed: allowed}
	}
	none, some := []cluster.Budget{{Active: true}}, []cluster.Budget{{Nodes: 50, Percent: true, Active: true}, {Nodes: 1, Active: true, Reasons: []string{"Drifted"}}}
	for name, c := range map[string]struct {
		schedule view.BudgetSchedule
		want     []view.BudgetSpan
	}{
		"no schedule is known":             {nil, nil},
		"nothing changes":                  {until(map[int][]cluster.Budget{0: some}), []view.BudgetSpan{span(0, 24*time.Hour, 2, 1, 2)}},
		"opens, closes, and after the day": {until(map[int][]cluster.Budget{0: none, 2: some, 5: none, 26: some}), []view.BudgetSpan{span(0, 2*time.Hour, 0, 0, 0), span(2*time.Hour, 5*time.Hour, 2, 1, 2), span(5*time.Hour, 24*time.Hour, 0, 0, 0)}},
		"the same as before is no change":  {until(map[int][]cluster.Budget{0: {}, 3: {{Nodes: 0}}}), []view.BudgetSpan{span(0, 24*time.Hour, -1, -1, -1)}},
		"a change a minute is cut": {func(at time.Time) ([]cluster.Budget, time.Time) {
			return []cluster.Budget{{Nodes: 3, Active: true}}, at.Add(time.Minute)
		}, []view.BudgetSpan{span(0, time.Hour, 3, 3, 3)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &view.State{Snapshot: snap, BudgetSchedule: func(pool string) view.BudgetSchedule {
				if pool != "general" {
					t.Errorf("asked for %s", pool)
				}
				return c.schedule
			}}
			v, known := view.PoolOf(s, "general")
			if diff := cmp.Diff(c.want, v.Day); !known || diff != "" {
				t.Errorf("PoolOf: %t (-want +got)\n%s", known, diff)
			}
		})
	}
}
