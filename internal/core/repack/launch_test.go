package repack

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestASpotLaunchLeavesOutDearZones: three types are cheap in zone a, one of them in zone b, too.
// Both zones would leave that one alone, so where two offerings are too few there is but zone a.
func TestASpotLaunchLeavesOutDearZones(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pools int
		types int
		zones []string
	}{
		"two offerings are enough": {2, 1, []string{"a", "b"}},
		"three are wanted":         {3, 3, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := story.Parse("type one cpu=4 memory=8Gi spot=0.10 zones=a,b\ntype two cpu=4 memory=8Gi spot=0.11 zones=a,b\n" +
				"type three cpu=4 memory=8Gi spot=0.12 zones=a,b\npool general\nnode n pool=general type=three zone=a\nrunning web on=n cpu=1\n")
			if err != nil {
				t.Fatal(err)
			}
			for _, typ := range snap.Pools[0].Types[1:] {
				for i := range typ.Offerings {
					if typ.Offerings[i].Zone == "b" {
						typ.Offerings[i].PriceHourly = 0.50
					}
				}
			}
			s := NewSession(snap, model.Options{}, test.pools, nil)
			mark := s.Nodes.Begin()
			s.Nodes.Remove(0)
			if _, ok := s.Launcher.LaunchFor(1); !ok {
				t.Fatal("no node can be launched")
			}
			l, pools, ok := s.Launch(s.Nodes.Launched(mark)[0], 0.13, 0)
			if !ok || pools != test.pools || len(l.Types) != test.types {
				t.Errorf("Launch = %v in %d offerings, %v; want %d types in %d", l.Types, pools, ok, test.types, test.pools)
			}
			if diff := cmp.Diff(label.In(test.zones...), l.Requirements[label.Zone]); diff != "" {
				t.Errorf("zones (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALaunchNamesSoManyOfTheCheapest, and is none where there are not so many within the price.
func TestALaunchNamesSoManyOfTheCheapest(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 18 {
		fmt.Fprintf(&text, "type t%02d cpu=4 memory=8Gi spot=0.%d zones=a,b\n", i, 20+i)
	}
	snap, err := story.Parse(text.String() + "type big cpu=16 memory=32Gi spot=0.95\npool general\nnode n pool=general type=big\nrunning web on=n cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		priceMax float64
		min      int
		ok       bool
	}{{0.90, 15, true}, {0.90, 18, true}, {0.90, 19, false}, {0.33, 15, false}, {0.34, 15, true}} {
		s := NewSession(snap, model.Options{PriceCap: 1.5, TypesMax: 600}, 3, nil)
		mark := s.Nodes.Begin()
		s.Nodes.Remove(0)
		if _, ok := s.Launcher.LaunchFor(1); !ok {
			t.Fatal("no node can be launched")
		}
		l, _, ok := s.Launch(s.Nodes.Launched(mark)[0], test.priceMax, test.min)
		if ok != test.ok || ok && (len(l.Types) != test.min || l.Types[0] != "t00" || l.Types[test.min-1] != fmt.Sprintf("t%02d", test.min-1)) {
			t.Errorf("up to %.2f: Launch = %v, %t; want the %d cheapest, %t", test.priceMax, l.Types, ok, test.min, test.ok)
		}
	}
}

// TestKindsAreOfOneSizeAndFreeOfRules: pods are of a kind that fit the same new nodes alike.
func TestKindsAreOfOneSizeAndFreeOfRules(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20 zones=a,b
pool general
node n pool=general type=four zone=a cpu=20 memory=80Gi
running web on=n cpu=1 app=web
running api on=n cpu=1 app=api
running big on=n cpu=2 app=big
running db on=n cpu=1 app=db apart=host:db
running far on=n cpu=1 app=far select=zone:a
running door on=n cpu=1 app=door port=80
running log on=n cpu=1 app=log
`)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSession(snap, model.Options{}, 1, nil)
	var got []string
	app := func(class int32) string { return s.Inventory.classes[class].Constraints.Labels["app"] }
	for class, kind := range s.Inventory.Kinds() {
		got = append(got, app(int32(class))+" as "+app(kind))
	}
	slices.Sort(got)
	want := []string{"api as api", "big as big", "db as db", "door as door", "far as far", "log as api", "web as api"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
