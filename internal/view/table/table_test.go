package table_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// TestStories prints tables of the clusters in testdata: "cluster" describes one, then each command is a
// view, wide if that is asked for.
func TestStories(t *testing.T) {
	time.Local = time.UTC
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *view.State
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				snap, err := story.Parse(d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				p := pack.Decide(snap, pack.Options{})
				decided, next := disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
				s = &view.State{Snapshot: snap, Refusals: p.Refusals, Memory: next}
				s.Bound, _ = view.BoundOf(snap, &decided, next.Search)
				return ""
			}
			var b strings.Builder
			after := time.Second
			if d.HasArg("late") {
				after = time.Hour
			}
			if err := table.Write(&b, answer(s, d.Cmd), table.Options{Wide: d.HasArg("wide"), Now: s.Snapshot.At.Add(after)}); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return b.String()
		})
	})
}

func answer(s *view.State, name string) any {
	switch name {
	case "status":
		v := view.OverviewOf(s)
		return &v
	case "nodes":
		v := view.FleetOf(s)
		return &v
	case "node":
		v, _ := view.NodeOf(s, "a")
		return &v
	case "pending":
		v := view.PendingOf(s)
		return &v
	case "pools":
		v := view.PoolsOf(s)
		return &v
	case "blockers":
		v := view.BlockersOf(s)
		return &v
	case "offerings":
		v := view.OfferingsOf(s)
		return &v
	case "cost":
		v := view.CostOf(s, view.ByNamespace)
		return &v
	case "next":
		v := view.NextOf(s)
		return &v
	}
	return nil
}

// TestIDsOfOfferingsHaveAColumnWhereThereAreSome: most providers have none.
func TestIDsOfOfferingsHaveAColumnWhereThereAreSome(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "rack-7"} {
		v := &view.Offerings{Offerings: []view.Offering{{InstanceType: "four", CapacityType: "spot"}, {InstanceType: "four", CapacityType: "spot", ID: id}}}
		var b strings.Builder
		if err := table.Write(&b, v, table.Options{}); err != nil {
			t.Fatal(err)
		}
		if header, _, _ := strings.Cut(b.String(), "\n"); strings.HasSuffix(header, "ID") != (id != "") || !strings.Contains(b.String(), id) {
			t.Errorf("with the ID %q:\n%s", id, b.String())
		}
	}
}

func TestWhatMovesTheCursorIsNotPrinted(t *testing.T) {
	t.Parallel()
	v := &view.Fleet{Pools: []view.FleetPool{{Nodes: []view.Node{{Name: "a\tb\nc\x1b[31m\u202e"}}}}}
	var b strings.Builder
	if err := table.Write(&b, v, table.Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(b.String(), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "a b c [31m") || strings.ContainsAny(b.String(), "\x1b\u202e\t") {
		t.Errorf("%q", b.String())
	}
}
