package simulate

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestBuffersAndStaticPools prints the answers to manifests with CapacityBuffers and static NodePools:
//
//	simulate [buffers] [static] [json]
//
// with the gates that are named.
func TestBuffersAndStaticPools(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/buffers.txt", func(t *testing.T, d *datadriven.TestData) string {
		path := filepath.Join(t.TempDir(), "m.yaml")
		text := poolText + "---\n" + strings.ReplaceAll(d.Input, "\n===\n", "\n---\n")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		from := kwokCatalog(t)
		from.Gates = Gates{CapacityBuffer: d.HasArg("buffers"), StaticCapacity: d.HasArg("static")}
		c, err := Manifests([]string{path}, from, time.Unix(0, 0))
		if err != nil {
			return err.Error() + "\n"
		}
		c.Name = "m.yaml"
		a, err := Run(c, Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }})
		if err != nil {
			return err.Error() + "\n"
		}
		form := Table
		if d.HasArg("json") {
			form = JSON
		}
		var b bytes.Buffer
		if err := a.Print(&b, form); err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.SplitAfter(b.String(), "\n"), func(l string) bool { // what is known of the bound is not the matter here
			return strings.HasPrefix(l, "  at least") || strings.HasPrefix(l, "planned in")
		})
		return strings.Join(lines, "")
	})
}
