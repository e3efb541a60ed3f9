package disrupt

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestABugInOneSearchLeavesTheOthers: a search panics after it has begun to take from the budgets.
func TestABugInOneSearchLeavesTheOthers(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\nnode e pool=general type=four empty last-pod-event=2h\n")
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(snap, Options{})
	w.contained(func() {
		var none []int
		_ = none[len(snap.Nodes)]
	})()
	w.contained(w.empty)()
	if len(w.out.GivenUp) != 1 || !strings.Contains(w.out.GivenUp[0], "index out of range [1]") || !strings.Contains(w.out.GivenUp[0], "disrupt.TestABug") {
		t.Errorf("given up: %q, want the index, and the function that it was in", w.out.GivenUp)
	}
	if len(w.out.Commands) != 1 || w.out.Commands[0].Remove[0].Node != "e" {
		t.Errorf("steps: %s\nwant the removal of the empty node e", story.PrintDisruption(&w.out))
	}
}
