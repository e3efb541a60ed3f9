package cli

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAShare writes a decision of a controller and of a file, true and redacted, and reads it with each command that
// reads journals.
func TestAShare(t *testing.T) {
	t.Parallel()
	j, path := keptDecision(t)
	srv := httptest.NewServer(j.Handler())
	t.Cleanup(srv.Close)
	for _, from := range []string{"--address=" + srv.URL, "--journal=" + path} {
		for _, redacted := range []bool{false, true} {
			file := filepath.Join(t.TempDir(), "shared.txt")
			line, pod, pool := "share 1 -o "+file+" "+from, "huge", "general"
			if redacted {
				line, pod, pool = line+" --redact", "pod-1", "pool-1"
			}
			if says := called(t, 0, line); !strings.Contains(says, "with 2 pending pods, 0 nodes and 1 NodePools to "+file) {
				t.Errorf("%s says %q", line, says)
			}
			for line, want := range map[string]string{
				"replay " + file: "same plan",
				"explain pod " + pod + " --journal " + file:       "TooLarge",
				"decision 1 --journal " + file:                    pool,
				"history --journal " + file:                       "provisioning",
				"explain nodepool " + pool + " --journal " + file: pool,
			} {
				if says := called(t, 0, line); !strings.Contains(says, want) {
					t.Errorf("%s (redacted %v) says %q, want %q", line, redacted, says, want)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("general")) && redacted {
				t.Error("the name of the pool is in the file")
			}
		}
		for line, want := range map[string]struct {
			status int
			says   string
		}{
			"share 2":                  {4, "there is no such decision"},
			"share one":                {2, "names no decision"},
			"share":                    {2, "accepts 1 arg(s)"},
			"share 1 -o -":             {0, `{"format":"dovetail-journal/2"`},
			"share 1 -o /nowhere/file": {1, "--output: open /nowhere/file"},
		} {
			if says := called(t, want.status, line+" "+from); !strings.Contains(says, want.says) {
				t.Errorf("%s %s says %q, want %q", line, from, says, want.says)
			}
		}
	}
}

// called runs a command line, and returns what it prints.
func called(t *testing.T, status int, line string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := Main(t.Context(), strings.Fields(line), &stdout, &stderr); got != status {
		t.Errorf("%s: status %d, want %d: %s", line, got, status, &stderr)
	}
	return stdout.String() + stderr.String()
}
