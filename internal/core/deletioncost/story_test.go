package deletioncost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestStories runs the stories in testdata: "cluster" describes a cluster, "rank" prints the
// deletion costs of its nodes.
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
			case "rank":
				var b strings.Builder
				for _, c := range deletioncost.Rank(snap) {
					if c.None {
						fmt.Fprintf(&b, "%s of %s: none\n", c.Node, c.Pool)
						continue
					}
					fmt.Fprintf(&b, "%s of %s: %d\n", c.Node, c.Pool, c.Cost)
				}
				return b.String()
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
				return ""
			}
		})
	})
}
