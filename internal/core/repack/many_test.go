package repack

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestManyAreBoughtByTheRules launches nodes for all pods of three at once. It must keep to the
// rules between the pods, and be no dearer than launching one node after the other, where that
// comes to an end.
func TestManyAreBoughtByTheRules(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules            string
		skewMax, hostMax int // of web, over zones and on one node
	}{
		"none":                         {rules: "", skewMax: 21, hostMax: 21},
		"spread over zones":            {rules: "spread=zone:1", skewMax: 1, hostMax: 21},
		"apart by node":                {rules: "apart=host:web", skewMax: 21, hostMax: 1},
		"spread over nodes":            {rules: "spread=host:2", skewMax: 21, hostMax: 2},
		"zones and nodes":              {rules: "spread=zone:2 apart=host:web", skewMax: 2, hostMax: 1},
		"zones that others count, too": {rules: "spread=zone:1 apart=host:db", skewMax: 1, hostMax: 21},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "type two cpu=2 memory=8Gi price=0.11 zones=a,b,c\ntype eight cpu=8 memory=32Gi price=0.40 zones=a,b,c\npool general\n"
			for _, zone := range []string{"a", "b", "c"} {
				text += fmt.Sprintf("node %s pool=general cpu=20 memory=80Gi type=eight zone=%s\nrunning db on=%s count=3 cpu=1 memory=4Gi app=db\n", zone, zone, zone)
			}
			text += "running web on=a count=21 cpu=500m memory=1Gi app=web " + test.rules + "\n"
			snap, err := story.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSession(snap, model.Options{}, 1, nil)
			mark := s.Nodes.Begin()
			remove := func() {
				for h := range snap.Nodes {
					s.Nodes.Remove(h)
				}
			}
			remove()
			one, ok := s.Launcher.LaunchFor(100)
			s.Nodes.Undo(mark)
			mark = s.Nodes.Begin()
			remove()
			if !s.Launcher.LaunchMany(100) || s.Nodes.AnyUnplaced() {
				t.Fatal("nodes can't be launched")
			}
			price, zones := 0.0, map[string]int{"a": 0, "b": 0, "c": 0}
			for _, h := range s.Nodes.Launched(mark) {
				price += s.Nodes.Price(h)
				b, here := &s.Inventory.offerings[s.Nodes.Bin(h)], 0
				for _, sh := range s.Nodes.Added(h) {
					if s.Inventory.classes[sh.Class].Constraints.Labels["app"] == "web" {
						here += int(sh.N)
					}
				}
				zones[b.pool.Offerings[b.index].Zone] += here
				if here > test.hostMax {
					t.Errorf("%d are on one node, at most %d may be", here, test.hostMax)
				}
			}
			if skew := max(zones["a"], zones["b"], zones["c"]) - min(zones["a"], zones["b"], zones["c"]); skew > test.skewMax {
				t.Errorf("in zones are %v, a skew of %d is allowed", zones, test.skewMax)
			}
			if ok && price > one+1e-9 {
				t.Errorf("they cost %.2f, launched one by one %.2f", price, one)
			}
			if s.Nodes.Undo(mark); s.Launcher.LaunchMany(100) != true || len(s.Nodes.Launched(mark)) > 0 {
				t.Error("no node can be launched after it was undone")
			}
		})
	}
}
