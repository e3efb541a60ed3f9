package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestReplayReportsByItsStatus decides records again: one that is in order, one whose plan
// says something else, one of a death of the core that it does not die of any more.
func TestReplayReportsByItsStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*record.Decision)
		status int
		says   []string
	}{
		"the same plan": {func(*record.Decision) {}, 0, []string{"1 decided again in ", ": same plan"}},
		"another plan": {
			func(d *record.Decision) {
				d.Plan.Launches = nil
				d.Plan.Assignments = []plan.Assignment{{Pod: d.Snapshot.Pending[0].PodRef, Node: "n9"}}
			}, 3, []string{"another plan", "  - pod default/w: to n9\n", "  + pod default/w: to launch 0\n"},
		},
		"a bug that is mended": {func(d *record.Decision) { d.Bug, d.Plan = "index out of range", plan.Plan{} }, 3, []string{"bug: index out of range", "  - bug: index out of range\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := story.Parse("type small cpu=2 memory=8Gi price=0.10\npool general\npod w cpu=1\n")
			if err != nil {
				t.Fatal(err)
			}
			d := &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Solve(snap, pack.Options{})}
			tc.change(d)
			text, err := d.Encode()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "record.json")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if status := Main(t.Context(), []string{"replay", path}, &stdout, &stderr); status != tc.status {
				t.Errorf("status %d, want %d: %s", status, tc.status, &stderr)
			}
			for _, want := range tc.says {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("it prints\n%s\nwant %q", &stdout, want)
				}
			}
		})
	}
}
