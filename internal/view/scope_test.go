package view_test

import (
	"math"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// stateOfParts has pods of three apps on nodes of two kinds, and one that is pending.
func stateOfParts(t *testing.T) *view.State {
	t.Helper()
	snap, err := story.Parse(`type four cpu=4 memory=8Gi price=0.20 spot=0.08 zones=a,b short=a/spot
pool general after=30s
pdb default/db allowed=0
node a pool=general type=four
running web on=a cpu=1 app=web
running api on=a cpu=1 app=api
node b pool=general type=four capacity=spot zone=b
running db on=b cpu=3 app=db pdb=default/db
pod big cpu=64 app=big`)
	if err != nil {
		t.Fatal(err)
	}
	return stateOf(snap)
}

// app selects by the label app.
func app(name string) func(map[string]string) bool {
	return func(labels map[string]string) bool { return labels["app"] == name }
}

func all(map[string]string) bool { return true }

// TestAPartOfTheCluster asks about namespaces and labels: what is in one part is in no other, and the sums stay.
func TestAPartOfTheCluster(t *testing.T) {
	t.Parallel()
	s := stateOfParts(t)
	for what, c := range map[string]struct {
		cost view.Cost
		rows int
	}{
		"one app":         {view.CostOf(s.Within("", app("web")), view.ByWorkload), 1},
		"a namespace":     {view.CostOf(s.Within("default", all), view.ByWorkload), 3},
		"another":         {view.CostOf(s.Within("shop", all), view.ByWorkload), 0},
		"all of it":       {view.CostOf(s, view.ByWorkload), 3},
		"both of neither": {view.CostOf(s.Within("shop", app("web")), view.ByWorkload), 0},
	} {
		sum := c.cost.IdleHourly + c.cost.OthersHourly
		for _, row := range c.cost.Rows {
			sum += row.Hourly
		}
		if len(c.cost.Rows) != c.rows || math.Abs(sum-c.cost.Price.Hourly) > 1e-9 || math.Abs(sum-0.28) > 1e-9 {
			t.Errorf("cost of %s: %+v, together %.4f", what, c.cost, sum)
		}
	}
	isSpot := func(labels map[string]string) bool { return labels["karpenter.sh/capacity-type"] == "spot" }
	for what, c := range map[string]struct {
		blockers view.Blockers
		names    string
		price    float64
	}{
		"all":                {view.BlockersOf(s.Within("", nil)), "b a", 0.28},
		"the PDB's":          {view.BlockersOf(s.Within("default", nil)), "b", 0.28},
		"another namespace":  {view.BlockersOf(s.Within("shop", nil)), "", 0.28},
		"those on demand":    {view.BlockersOf(s.Within("", func(l map[string]string) bool { return !isSpot(l) })), "a", 0.20},
		"spot, in namespace": {view.BlockersOf(s.Within("default", isSpot)), "b", 0.08},
	} {
		var names []string
		for _, b := range c.blockers.Blockers {
			names = append(names, b.Names...)
		}
		if got := strings.Join(names, " "); got != c.names || math.Abs(c.blockers.Price.Hourly-c.price) > 1e-9 {
			t.Errorf("blockers, %s: %q at %.4f, want %q at %.4f", what, got, c.blockers.Price.Hourly, c.names, c.price)
		}
	}
	if v := view.OfferingsOf(s.WithOfferings(isSpot)); v.Offered != 2 || v.Short != 1 {
		t.Errorf("spot: %d of %d offerings are short, want 1 of 2", v.Short, v.Offered)
	}
}

// TestWhatIsNextForAPart asks about pods of a namespace, or else about nodes.
func TestWhatIsNextForAPart(t *testing.T) {
	t.Parallel()
	s := stateOfParts(t)
	for what, c := range map[string]struct {
		next view.Next
		kind string
	}{
		"pods of a namespace":       {view.NextOf(s.WithEntries("default", all)), "Pods"},
		"pods of labels":            {view.NextOf(s.WithEntries("default", app("big"))), "Pods"},
		"pods of other labels":      {view.NextOf(s.WithEntries("default", app("web"))), ""},
		"pods of another namespace": {view.NextOf(s.WithEntries("shop", all)), ""},
		"nodes of labels none has":  {view.NextOf(s.WithEntries("", app("web"))), ""},
	} {
		kinds := map[string]bool{}
		for _, e := range c.next.Entries {
			kinds[e.Kind] = true
		}
		if len(kinds) > 1 || kinds[c.kind] == (c.kind == "") {
			t.Errorf("next, %s: %+v", what, c.next.Entries)
		}
	}
}
