package disrupt_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata: "cluster" describes one, "propose" prints
// what should go and what stays, with pools that are paused for a minute, or with spot-to-spot, "place" where pending pods go beside steps under way.
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
			case "propose":
				opts, memory := disrupt.Options{Settle: 2 * time.Second}, disrupt.Memory{PoolCooldowns: map[string]disrupt.Cooldown{}}
				for _, arg := range d.CmdArgs {
					opts.Terms.SpotToSpot = opts.Terms.SpotToSpot || arg.Key == "spot-to-spot"
					for _, pool := range arg.Vals {
						memory.PoolCooldowns[pool] = disrupt.Cooldown{Wait: time.Minute, Until: snap.At.Add(time.Minute)}
					}
				}
				p, _ := disrupt.Propose(snap, memory, opts)
				checkUnderWay(t, d.Pos, snap, &p)
				return story.Print(&p)
			case "place":
				p := pack.Solve(disrupt.Spare(disrupt.Reserve(snap)), pack.Options{})
				return story.Print(&p)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}

// checkUnderWay: a look that is for steps under way only does with them what any other does.
func checkUnderWay(t *testing.T, pos string, snap *cluster.Snapshot, whole *plan.Plan) {
	t.Helper()
	got, _ := disrupt.Propose(snap, disrupt.Memory{Busy: true, DecidedAt: snap.At}, disrupt.Options{Settle: 2 * time.Second})
	want := plan.Plan{At: whole.At, Undos: whole.Undos, Marks: whole.Marks, Unmarks: whole.Unmarks, Removals: whole.Removals}
	if diff := cmp.Diff(story.Print(&want), story.Print(&got)); diff != "" {
		t.Errorf("%s: of steps under way (-any look, +one for them only):\n%s", pos, diff)
	}
}
