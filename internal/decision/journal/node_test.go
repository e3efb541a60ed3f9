package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// What is said of nodes that stay does not depend on where they are in the list of the decision before.
func TestNodesThatStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 24
		lines, searched := newTimelines(most), newTimelines(most)
		var names []string
		for i := range rapid.IntRange(2, 3*staysMissed).Draw(t, "nodes") {
			names = append(names, fmt.Sprintf("node-%d", i))
		}
		for i := range rapid.IntRange(2, 6).Draw(t, "decisions") {
			at := story.Now().Add(time.Duration(i) * time.Minute)
			d := &record.Decision{Loop: record.Disruption, Snapshot: &cluster.Snapshot{At: at}}
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				names = rapid.Permutation(names).Draw(t, "order")
			case 1:
				from := rapid.IntRange(0, len(names)-1).Draw(t, "from")
				names = append(names[:from:from], names[rapid.IntRange(from, len(names)-1).Draw(t, "to"):]...)
			case 2:
				names = append([]string{fmt.Sprintf("new-%d", i)}, names...)
			}
			for _, name := range names {
				reason := rapid.SampledFrom([]verdict.Reason{verdict.Unconsolidatable, verdict.NoOffering}).Draw(t, "reason")
				d.Disruption.Blocked = append(d.Disruption.Blocked, verdict.Of(reason, name, "why"))
			}
			says := saying{loop: d.Loop, at: at, until: at, times: 1, decision: ID{Number: int64(i + 1)}}
			searched.staying = nil
			lines.decided(d, says)
			searched.decided(d, says)
			if diff := cmp.Diff(said(searched), said(lines)); diff != "" {
				t.Fatalf("decision %d (-each looked up +got):\n%s", i, diff)
			}
		}
	})
}

// said writes what was said, and by which timelines it is found.
func said(lines *timelines) string {
	var b strings.Builder
	for _, e := range lines.all() {
		fmt.Fprintln(&b, e.of.Kind, e.of.Name, e.what, e.first.Format(time.TimeOnly), e.last.Format(time.TimeOnly), e.times, lines.find(e.of.identity) == e.of)
	}
	return b.String()
}
