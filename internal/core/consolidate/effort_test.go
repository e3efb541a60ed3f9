package consolidate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// halfEmpty is four nodes, on each of which one pod uses a quarter: one node would do.
const halfEmpty = `type four cpu=4 memory=8Gi price=0.20
pool general
node a pool=general type=four last-pod-event=2h
running web on=a cpu=1
node b pool=general type=four last-pod-event=2h
running web on=b cpu=1
node c pool=general type=four last-pod-event=2h
running api on=c cpu=1
node d pool=general type=four last-pod-event=2h
running api on=d cpu=1
`

func parse(t *testing.T, text string) *cluster.Snapshot {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// TestNodesWithPodsOfTooManyRulesDoNotKeepOthersFromConsolidation: the pods of two nodes have so
// many rules that a search with them takes too much effort.
func TestNodesWithPodsOfTooManyRulesDoNotKeepOthersFromConsolidation(t *testing.T) {
	t.Parallel()
	snap := parse(t, halfEmpty)
	for i := range snap.Nodes[2:] {
		sh := *snap.Nodes[2+i].Reschedulable[0].Constraints
		for r := range 2000 {
			sh.AntiAffinity = append(sh.AntiAffinity, cluster.PodTerm{
				Key: label.Hostname, Namespaces: []string{"default"},
				Selector: cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In(fmt.Sprint("none-", i, "-", r))}},
			})
		}
		snap.Nodes[2+i].Reschedulable[0].Constraints = &sh
	}
	found := consolidate.Search(snap, consolidate.Options{Pack: pack.Options{Effort: 5_000}})
	if diff := cmp.Diff([]string{plan.CauseEffort}, found.GivenUp); diff != "" {
		t.Errorf("searches that were given up (-want +got):\n%s", diff)
	}
	var goes []string
	for i := range found.Steps {
		for _, r := range found.Steps[i].Remove {
			goes = append(goes, r.Node)
		}
	}
	if len(goes) == 0 || strings.Contains(fmt.Sprint(goes), "c") || strings.Contains(fmt.Sprint(goes), "d") {
		t.Errorf("nodes %v go, want one of a and b and no other", goes)
	}
}
