package forecast_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata. "cluster" describes a cluster; "forecast" prints what becomes of
// it: the steps by the time at which they are begun and are done, and the nodes at the end. With budgets-open=1h
// no budget allows anything before that.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var snap *cluster.Snapshot
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var err error
			switch d.Cmd {
			case "cluster":
				if snap, err = story.Parse(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "forecast":
				var opts forecast.Options
				var opens time.Duration
				if d.HasArg("budgets-open") {
					var text string
					d.ScanArgs(t, "budgets-open", &text)
					if opens, err = time.ParseDuration(text); err != nil {
						d.Fatalf(t, "%v", err)
					}
					opts.BudgetsAt = func(_ string, at time.Time) ([]cluster.Budget, time.Time) {
						if at.Before(story.Now().Add(opens)) {
							return []cluster.Budget{{Active: true, Scheduled: true}}, story.Now().Add(opens)
						}
						return []cluster.Budget{{Nodes: 1, Active: true}}, time.Time{}
					}
					snap.Pools[0].Budgets, _ = opts.BudgetsAt("", snap.At)
				}
				before := fmt.Sprintf("%+v", *snap)
				r := forecast.Run(snap, opts)
				if diff := cmp.Diff(before, fmt.Sprintf("%+v", *snap)); diff != "" {
					t.Errorf("the snapshot changed: %s", diff)
				}
				return show(&r)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}

func show(r *forecast.Result) string {
	var b strings.Builder
	since := func(at time.Time) string { return at.Sub(story.Now()).String() }
	for i := range r.Steps {
		s := &r.Steps[i]
		fmt.Fprintf(&b, "%s %s:", since(s.At), s.Reason)
		for _, n := range s.Remove {
			fmt.Fprintf(&b, " - %s %s %.2f", n.Name, n.Type, n.PriceHourly)
		}
		for _, n := range s.Launch {
			fmt.Fprintf(&b, " + %s %s %.2f", n.Name, n.Type, n.PriceHourly)
		}
		fmt.Fprintf(&b, ", %d evictions, %d pods", s.Evictions, s.Assigned)
		if !s.DoneAt.IsZero() {
			fmt.Fprintf(&b, ", done %s", since(s.DoneAt))
		}
		if s.Undone != "" {
			fmt.Fprintf(&b, ", undone: %s", s.Undone)
		}
		b.WriteByte('\n')
	}
	for _, refusal := range r.Refusals {
		fmt.Fprintf(&b, "refused %s: %s\n", refusal.Pod, refusal.Why)
	}
	for _, v := range r.Stays {
		fmt.Fprintf(&b, "stays %s\n", v)
	}
	for i := range r.Rest.Nodes {
		n := &r.Rest.Nodes[i]
		fmt.Fprintf(&b, "node %s:", n.Name)
		for k := range n.Reschedulable {
			fmt.Fprintf(&b, " %s", n.Reschedulable[k].Name)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s at %s, at most %.2f an hour", r.End, since(r.Rest.At), r.PeakHourly)
	return b.String()
}

// TestItStops asks for a forecast that the caller stops before it begins.
func TestItStops(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\npod web cpu=1")
	if err != nil {
		t.Fatal(err)
	}
	r := forecast.Run(snap, forecast.Options{Stop: func() bool { return true }})
	if r.End != forecast.EndStopped || len(r.Steps) > 0 || slices.ContainsFunc(r.Rest.Nodes, func(cluster.Node) bool { return true }) {
		t.Errorf("%+v", r)
	}
}
