package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSimulateProvesItsBound has a plan that costs the least possible: that is proven without being asked for. Of one
// that may cost more it is said that the proof ended early, unless it was asked for in full.
func TestSimulateProvesItsBound(t *testing.T) {
	t.Parallel()
	scenario := func(name string) string {
		return "simulate --scenario " + filepath.Join("..", "decision", "simulate", "testdata", name)
	}
	const early = "the proof ended after some rounds"
	for line, want := range map[string]struct {
		says    string
		isEarly bool
	}{
		scenario("p2-small-cluster-4xl.json.gz"):         {"a gap of at most 0.0 %", false},
		scenario("p1a-diverse-aws-100.json.gz"):          {"a gap of at most", true},
		scenario("p2-small-cluster-4xl.json.gz --prove"): {"a gap of at most 0.0 %", false},
		scenario("p2-uniform-small-4xl.json.gz --prove"): {"a gap of at most", false},
	} {
		if says := called(t, 0, line); !strings.Contains(says, want.says) || strings.Contains(says, early) != want.isEarly {
			t.Errorf("%s says\n%s\nwant %q, and early %v", line, says, want.says, want.isEarly)
		}
	}
}
