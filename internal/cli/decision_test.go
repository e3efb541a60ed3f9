package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// keptDecision returns a journal with one decision, and a file with the same.
func keptDecision(t *testing.T) (*journal.Journal, string) {
	t.Helper()
	snap, err := story.Parse("type small cpu=2 memory=8Gi price=0.10\npool general\npod w cpu=1\npod huge cpu=100\n")
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(journal.Options{MemoryBytes: 1 << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	j.Add(&record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Solve(snap, pack.Options{}), Claims: []string{"general-1"}}, journal.ID{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	var b bytes.Buffer
	if err := j.WriteFile(&b, journal.ID{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "one.dovetail-journal")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return j, path
}

func TestDecisionAndHistoryFromAControllerAndFromAFile(t *testing.T) {
	t.Parallel()
	j, path := keptDecision(t)
	srv := httptest.NewServer(j.Handler())
	t.Cleanup(srv.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, from := range []string{"--address=" + srv.URL, "--journal=" + path} {
		for line, want := range map[string]struct {
			status int
			says   string
		}{
			"decision 1":                        {0, "general-1 (small $0.1000)"},
			"decision decision/1":               {0, "make it again: dovetail replay --id 1."},
			"decision 2":                        {4, "there is no such decision"},
			"decision one":                      {2, "names no decision"},
			"decision":                          {2, "accepts 1 arg(s)"},
			"decision 1 -o yaml":                {0, "kind: Decision"},
			"decision 1 -o nonsense":            {2, "must be table, wide, json, yaml"},
			"history":                           {0, "general-1 (small $0.1000)"},
			"history --all":                     {0, "TooLarge"},
			"history --since 1h":                {0, "Nothing of the kind was done since"},
			"history --reason drift":            {0, "Nothing of the kind was done."},
			"history --reason nonsense":         {2, "must be Drifted"},
			"history --since yesterday":         {2, "is no time"},
			"history --since 1h --until 2h":     {2, "--until is before --since"},
			"history --since 1h --around 03:00": {2, "none of the others can be"},
			"history -n shop":                   {0, "Nothing of the kind was done."},
			"history -n default --pool general": {0, "general-1"},
			"history --pool nodepool/other":     {0, "Nothing of the kind was done."},
			"replay --id 1":                     {0, "same plan"},
			"replay --id 2":                     {4, "there is no such decision"},
			"replay --id x":                     {2, "names no decision"},
			"history 17":                        {2, "unknown command"},
		} {
			from := from
			if file, ok := strings.CutPrefix(from, "--journal="); ok && strings.HasPrefix(line, "replay") {
				from = file
			}
			var out bytes.Buffer
			if got := Main(t.Context(), append(strings.Fields(line), from), &out, &out); got != want.status || !strings.Contains(out.String(), want.says) {
				t.Errorf("dovetail %s %s: status %d, want %d and %q:\n%s", line, from, got, want.status, want.says, &out)
			}
		}
		var out, errs bytes.Buffer
		if Main(t.Context(), []string{"__complete", "decision", from, ""}, &out, &errs); !strings.HasPrefix(out.String(), "1.6fb9m0\t2026-11-21 ") {
			t.Errorf("%s completes with %s%s", from, &out, &errs)
		}
		out.Reset()
		var v view.Decision
		if Main(t.Context(), []string{"decision", "1", "-o=json", from}, &out, &errs) != 0 || json.Unmarshal(out.Bytes(), &v) != nil || v.Format != view.Format || !v.HasSnapshot || len(v.Actions) != 2 {
			t.Errorf("%s: %s%s", from, &out, &errs)
		}
	}
	for _, line := range []string{"decision 1", "history"} {
		var out bytes.Buffer
		if got := Main(t.Context(), append(strings.Fields(line), "--address="+gone.URL), &out, &out); got != statusUnreachable {
			t.Errorf("dovetail %s at a closed port: status %d, want %d: %s", line, got, statusUnreachable, &out)
		}
	}
}

func TestTimesArePastTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 2, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90m": "2026-11-26T00:30:00Z", "7d": "2026-11-19T02:00:00Z", "01:30": "2026-11-26T01:30:00Z", "03:00": "2026-11-25T03:00:00Z", "03:00:30": "2026-11-25T03:00:30Z",
		"2026-11-20": "2026-11-20T00:00:00Z", "2026-11-20 04:05": "2026-11-20T04:05:00Z", "2026-11-20T04:05:06+01:00": "2026-11-20T03:05:06Z",
		"-1h": "", "d": "", "+1d": "", "25:00": "", "": "",
	} {
		at, err := timeOf(text, now)
		if got := at.UTC().Format(time.RFC3339); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("timeOf(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
	h := historyFlags{around: "01:00"}
	if f, err := h.filter(now); err != nil || f.Until.Sub(f.Since) != 2*aroundSpan || !f.Since.Equal(now.Add(-90*time.Minute)) {
		t.Errorf("around 01:00: %+v, %v", f, err)
	}
}
