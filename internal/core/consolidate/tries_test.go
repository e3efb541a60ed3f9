package consolidate_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestFewTriesAreMadeWhereLittleMayBegin: it is asked after each try how much may.
func TestFewTriesAreMadeWhereLittleMayBegin(t *testing.T) {
	t.Parallel()
	text := "type four cpu=4 memory=8Gi price=0.20\npool general\n"
	for i := range 40 {
		text += fmt.Sprintf("node n%02d pool=general type=four last-pod-event=2h\nrunning web on=n%02d cpu=1\n", i, i)
	}
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tries := func(begins, try int) (n int) {
		found := consolidate.Search(snap, consolidate.Options{Try: try, MayBegin: func([]plan.Command) int {
			n++
			return begins
		}})
		if len(found.Steps) < 25 {
			t.Fatalf("%d steps were found", len(found.Steps))
		}
		return n
	}
	for name, c := range map[string]struct{ begins, try, want int }{
		"all may":                         {100, 0, 6},
		"one may":                         {1, 0, 2},
		"none may":                        {0, 0, 2},
		"one may, and one try found most": {1, 2, 1},
		"all may, and one try found most": {100, 2, 2},
	} {
		if got := tries(c.begins, c.try); got != c.want {
			t.Errorf("%s: %d tries were made, want %d", name, got, c.want)
		}
	}
}
