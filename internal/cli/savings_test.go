package cli

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSavingsOfAWindow asks a controller and a file, and where there is neither.
func TestSavingsOfAWindow(t *testing.T) {
	t.Parallel()
	j, path := keptDecision(t)
	srv := httptest.NewServer(j.Handler())
	t.Cleanup(srv.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"savings --since 2026-11-21 --address " + srv.URL:        {0, "as launched"},
		"savings --since 2026-11-21 --journal " + path:           {0, "for 1 nodes were launched"},
		"savings --since 2026-11-21 -o json --journal " + path:   {0, `"format":"dovetail-savings-window/1"`},
		"savings --since 2026-11-23T00:00:00Z --journal " + path: {1, "no node was launched for pods since 2026-11-23"},
		"savings --since 7d --address " + gone.URL:               {5, "Karpenter and Cluster Autoscaler keep none: leave out --since"},
		"savings --since 7d --journal /nowhere":                  {1, "read journal: stat /nowhere"},
		"savings --since yesterday --journal " + path:            {2, `--since: "yesterday" is no time`},
		"savings --since 7d --spot --journal " + path:            {2, "--spot can't be given with --since"},
		"savings --since 7d --html page.html --journal " + path:  {2, "--html can't be given with --since"},
		"savings --journal " + path:                              {2, "--journal is for --since"},
	} {
		if says := called(t, want.status, line); !strings.Contains(says, want.says) {
			t.Errorf("%s says %q, want %q", line, says, want.says)
		}
	}
}
