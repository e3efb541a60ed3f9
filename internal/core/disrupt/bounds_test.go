package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestADecisionIsBoundedByCounts: of forty drifted nodes, and of forty that are half empty,
// no decision works out more replacements than it may; the next goes on where it ended.
func TestADecisionIsBoundedByCounts(t *testing.T) {
	t.Parallel()
	fleet := func(rest string) string {
		var b strings.Builder
		b.WriteString("type four cpu=4 memory=8Gi price=0.20\npool general\n")
		for i := range 40 {
			fmt.Fprintf(&b, "node n%02d pool=general type=four %s\nrunning web on=n%02d cpu=1\n", i, rest, i)
		}
		return b.String()
	}
	snap, err := story.Parse(fleet("drifted=NodePoolDrifted"))
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := disrupt.Propose(snap, disrupt.Memory{SearchAt: snap.At.Add(time.Second)}, disrupt.Options{ProbesMax: 5}); len(p.Commands) != 5 {
		t.Errorf("%d drifted nodes are replaced in one look, want 5", len(p.Commands))
	}
	snap, err = story.Parse(fleet(""))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{Terms: consolidate.Terms{StepMax: 2}})
	for i := range p.Commands {
		if n := len(p.Commands[i].Remove); n > 2 {
			t.Errorf("one step removes %d nodes, want 2 at most", n)
		}
	}
	if len(p.Commands) == 0 {
		t.Error("nothing is removed")
	}
}
