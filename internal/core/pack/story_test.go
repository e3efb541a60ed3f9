package pack_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata: "cluster" describes one, "solve" prints the
// whole plan for it, "decide" that of Decide, "early" that of
// DecideEarly. Run with -rewrite to write the answers anew, and read the difference.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var snap *cluster.Snapshot
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				var err error
				if snap, err = story.Parse(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "decide":
				p := pack.Decide(snap, pack.Options{})
				return story.Print(&p)
			case "early":
				w := pack.Window{Idle: d.HasArg("idle"), Premium: 0.05}
				d.MaybeScanArgs(t, "coming", &w.Coming)
				p := pack.DecideEarly(snap, w, pack.Options{})
				return story.Print(&p)
			case "solve":
				opts := pack.Options{MinValuesBestEffort: d.HasArg("best-effort"), IgnorePreferences: d.HasArg("ignore-preferences")}
				d.MaybeScanArgs(t, "types-max", &opts.TypesMax)
				if d.HasArg("premium") {
					var percent int
					d.ScanArgs(t, "premium", &percent)
					opts.ResiliencePremium = float64(percent) / 100
				}
				p := pack.Solve(snap, opts)
				return story.Print(&p)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}
