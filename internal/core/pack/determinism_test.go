package pack_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// printed returns the whole plan of a cluster as text.
func printed(t *rapid.T, text string) string {
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	p := pack.Solve(snap, pack.Options{})
	return story.Print(&p)
}

// TestSameSnapshotSamePlan solves 1,000 random clusters on one processor and on eight.
// It changes GOMAXPROCS and so does not run beside other tests.
func TestSameSnapshotSamePlan(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	draw := rapid.Custom(story.Any)
	for seed := range 1000 {
		text := draw.Example(seed)
		var plans [3]string
		for i, procs := range []int{1, 8, 1} {
			runtime.GOMAXPROCS(procs)
			snap, err := story.Parse(text)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			p := pack.Solve(snap, pack.Options{})
			plans[i] = fmt.Sprintf("%+v", p)
		}
		if plans[0] != plans[1] || plans[0] != plans[2] {
			t.Fatalf("different plans for\n%s\n%s\n%s\n%s", text, plans[0], plans[1], plans[2])
		}
	}
}

// TestRenamingRenamesThePlan gives every node, pool, type and pod a new name, in the
// same order, and wants the same plan under the new names. The order matters because the
// API says that of equally heavy pools the later name goes first.
func TestRenamingRenamesThePlan(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`\b([tpncwr])(\d+)\b`)
	rename := func(text string) string { return names.ReplaceAllString(text, "new-$1$2") }
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		if got, want := printed(t, rename(text)), rename(printed(t, text)); got != want {
			t.Fatalf("renamed cluster\n%s\nplan\n%s\nwant\n%s", rename(text), got, want)
		}
	})
}

// TestLimitsOutOfReachChangeNothing gives every pool without limits some that no plan can reach.
func TestLimitsOutOfReachChangeNothing(t *testing.T) {
	t.Parallel()
	pools := regexp.MustCompile(`(?m)^pool .*$`)
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		limited := pools.ReplaceAllStringFunc(text, func(line string) string {
			if strings.Contains(line, "limit.") {
				return line
			}
			return line + " limit.cpu=9000000 limit.nodes=100000"
		})
		if got, want := printed(t, limited), printed(t, text); got != want {
			t.Fatalf("with limits\n%s\nplan\n%s\nwant\n%s", limited, got, want)
		}
	})
}
