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

// TestReplayOfAllSkipsWhatHasNoSnapshot has a journal whose first decision has lost its snapshot, and one whose only
// decisions have.
func TestReplayOfAllSkipsWhatHasNoSnapshot(t *testing.T) {
	t.Parallel()
	_, whole := keptDecision(t)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	var short []string // the same decision, under another ID, without its pieces
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"decision":{"id":"1.`) {
			short = append(short, strings.Replace(strings.Replace(line, `"id":"1.`, `"id":"9.`, 1), `"at":`, `"noSnapshot":true,"at":`, 1))
		}
	}
	if len(short) != 1 {
		t.Fatalf("there are %d decisions in\n%s", len(short), text)
	}
	dir := t.TempDir()
	some, none := filepath.Join(dir, "some.txt"), filepath.Join(dir, "none.txt")
	for path, lines := range map[string]string{some: short[0] + string(text), none: short[0] + strings.Replace(short[0], `"9.`, `"8.`, 1)} {
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"replay --all " + some:         {0, "1 decided again: 1 with the same plan, 0 with another; 1 skipped, whose snapshots are no longer kept"},
		"replay --all -o json " + some: {0, `"skipped": "decision 9.6fb9m0: its snapshot is no longer there`},
		"replay --all " + none:         {1, "none was decided again"},
		"replay --id 9 " + some:        {1, "its snapshot is no longer there"},
	} {
		if says := called(t, want.status, line); !strings.Contains(says, want.says) {
			t.Errorf("%s says %q, want %q", line, says, want.says)
		}
	}
}
