package simulate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
)

// TestClusterAutoscaler prints the answers for clusters in which Cluster Autoscaler works, too. The time is noon:
//
//	simulate [consolidate]
func TestClusterAutoscaler(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	datadriven.RunTest(t, "testdata/autoscaler.txt", func(t *testing.T, d *datadriven.TestData) string {
		c, err := Manifests([]string{written(t, poolText+"---\n"+strings.ReplaceAll(d.Input, "\n===\n", "\n---\n"))}, kwokCatalog(t), noon)
		if err != nil {
			return err.Error() + "\n"
		}
		c.Name = "m.yaml"
		var b bytes.Buffer
		if d.HasArg("consolidate") {
			saving := Consolidate(c, consolidate.Options{}, stillClock())
			if err := saving.Print(&b, Table); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		a, err := Run(c, stillClock())
		if err != nil {
			return err.Error() + "\n"
		}
		if err := a.Print(&b, Table); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}
