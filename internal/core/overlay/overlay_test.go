package overlay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/overlay"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// typeOf returns a type in two zones, on demand at a price and as spot at half of it.
func typeOf(name, family string, price float64) *catalog.Type {
	t := &catalog.Type{
		Name:         name,
		Requirements: label.Requirements{label.InstanceType: label.In(name), "family": label.In(family), label.Zone: label.In("a", "b")},
		Capacity:     quantity.List{quantity.CPU: 4000},
	}
	for _, zone := range []string{"a", "b"} {
		t.Offerings = append(t.Offerings,
			catalog.Offering{Zone: zone, CapacityType: "on-demand", PriceHourly: price, Priced: true, Available: true},
			catalog.Offering{Zone: zone, CapacityType: "spot", PriceHourly: price / 2, Priced: true, Available: true})
	}
	return t
}

func pools() []overlay.Pool {
	unpriced := typeOf("new", "n", 0)
	for i := range unpriced.Offerings {
		unpriced.Offerings[i].Priced = false
	}
	types := []*catalog.Type{typeOf("m", "general", 2), typeOf("c", "compute", 1), unpriced}
	return []overlay.Pool{
		{Name: "one", Class: "default", Labels: map[string]string{label.NodePool: "one", "team": "blue"}, Types: types},
		{Name: "two", Class: "default", Labels: map[string]string{label.NodePool: "two"}, Types: types},
	}
}

// show writes what overlays make of the types: "one/m a/spot 0.5".
func show(effects overlay.Effects) string {
	var b strings.Builder
	for _, p := range pools() {
		for i, t := range effects.Types(p.Name, p.Types) {
			for j := range t.Offerings {
				is, was := &t.Offerings[j], &p.Types[i].Offerings[j]
				if is.Priced != was.Priced || is.PriceHourly != was.PriceHourly {
					fmt.Fprintf(&b, "%s/%s %s/%s %.4g\n", p.Name, t.Name, is.Zone, is.CapacityType, is.PriceHourly)
				}
			}
			for name, n := range t.Capacity {
				if n != p.Types[i].Capacity[name] {
					fmt.Fprintf(&b, "%s/%s %s %d\n", p.Name, t.Name, name, n)
				}
			}
		}
	}
	return b.String()
}

func TestPricesAndCapacity(t *testing.T) {
	t.Parallel()
	spot := label.Requirements{label.CapacityType: label.In("spot"), label.Zone: label.In("a")}
	for name, tc := range map[string]struct {
		o    overlay.Overlay
		want string
	}{
		"replaces":                       {overlay.Overlay{Requirements: spot.Intersect(label.Requirements{"family": label.In("general")}), Price: overlay.Price{Kind: overlay.Absolute, Amount: 7}}, "one/m a/spot 7\ntwo/m a/spot 7\n"},
		"adds":                           {overlay.Overlay{Requirements: spot, Price: overlay.Price{Kind: overlay.Plus, Amount: 0.25}}, "one/m a/spot 1.25\none/c a/spot 0.75\ntwo/m a/spot 1.25\ntwo/c a/spot 0.75\n"},
		"never below zero":               {overlay.Overlay{Requirements: spot, Price: overlay.Price{Kind: overlay.Plus, Amount: -0.75}}, "one/m a/spot 0.25\none/c a/spot 0\ntwo/m a/spot 0.25\ntwo/c a/spot 0\n"},
		"multiplies":                     {overlay.Overlay{Requirements: spot, Price: overlay.Price{Kind: overlay.Times, Amount: 0.7}}, "one/m a/spot 0.7\none/c a/spot 0.35\ntwo/m a/spot 0.7\ntwo/c a/spot 0.35\n"},
		"by exactly one changes nothing": {overlay.Overlay{Requirements: spot, Price: overlay.Price{Kind: overlay.Times, Amount: 1}}, ""},
		"prices the unpriced": {
			overlay.Overlay{Requirements: spot.Intersect(label.Requirements{label.InstanceType: label.In("new")}), Price: overlay.Price{Kind: overlay.Absolute, Amount: 3}},
			"one/new a/spot 3\ntwo/new a/spot 3\n",
		},
		"one pool": {
			overlay.Overlay{Requirements: label.Requirements{label.NodePool: label.In("two"), "family": label.In("compute")}, Capacity: quantity.List{"example.com/fuse": 5}},
			"two/c example.com/fuse 5\n",
		},
		"a label of the template":                  {overlay.Overlay{Requirements: label.Requirements{"team": label.In("blue"), "family": label.In("compute")}, Capacity: quantity.List{"example.com/fuse": 5}}, "one/c example.com/fuse 5\n"},
		"a label that nothing has selects nothing": {overlay.Overlay{Requirements: label.Requirements{"colour": label.Exists()}, Capacity: quantity.List{"example.com/fuse": 5}}, ""},
		"its absence selects all":                  {overlay.Overlay{Requirements: label.Requirements{"team": label.DoesNotExist(), "family": label.In("compute")}, Capacity: quantity.List{"example.com/fuse": 5}}, "two/c example.com/fuse 5\n"},
		"what is invalid is left out":              {overlay.Overlay{Requirements: spot, Price: overlay.Price{Kind: overlay.Absolute, Amount: 7}, Invalid: "no"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effects, conflicts := overlay.Evaluate([]overlay.Overlay{tc.o}, pools())
			if diff := cmp.Diff(tc.want, show(effects)); diff != "" || len(conflicts) > 0 {
				t.Errorf("conflicts %v (-want +got):\n%s", conflicts, diff)
			}
		})
	}
}

// TestOfferingsThatDifferInLabelsOnlyHavePricesOfTheirOwn: they differ by ID.
func TestOfferingsThatDifferInLabelsOnlyHavePricesOfTheirOwn(t *testing.T) {
	t.Parallel()
	typ := &catalog.Type{Name: "m", Requirements: label.Requirements{label.InstanceType: label.In("m")}}
	for _, rack := range []string{"r1", "r2"} {
		typ.Offerings = append(typ.Offerings, catalog.Offering{Zone: "a", CapacityType: "spot", ID: rack, Labels: map[string]string{"rack": rack}, PriceHourly: 1, Priced: true})
	}
	types := []*catalog.Type{typ}
	effects, conflicts := overlay.Evaluate(
		[]overlay.Overlay{{Requirements: label.Requirements{"rack": label.In("r2")}, Price: overlay.Price{Kind: overlay.Absolute, Amount: 7}}},
		[]overlay.Pool{{Name: "one", Class: "default", Types: types}})
	if got := effects.Types("one", types)[0].Offerings; len(conflicts) > 0 || got[0].PriceHourly != 1 || got[1].PriceHourly != 7 {
		t.Errorf("prices %v and %v, conflicts %v; want 1 and 7", got[0].PriceHourly, got[1].PriceHourly, conflicts)
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	c := label.Requirements{label.InstanceType: label.In("c"), label.Zone: label.In("a"), label.NodePool: label.In("one")}
	of := func(name string, weight int32, price float64, more label.Requirements, capacity quantity.List) overlay.Overlay {
		return overlay.Overlay{Name: name, Weight: weight, Requirements: c.Intersect(more), Price: overlay.Price{Kind: overlay.Absolute, Amount: price}, Capacity: capacity}
	}
	spot := label.Requirements{label.CapacityType: label.In("spot")}
	for name, tc := range map[string]struct {
		overlays  []overlay.Overlay
		want      string
		conflicts map[string]string
	}{
		"the heavier one wins where both select": {
			[]overlay.Overlay{of("light", 1, 5, nil, quantity.List{"x": 1, "y": 1}), of("heavy", 2, 6, spot, quantity.List{"x": 2})},
			"one/c a/on-demand 5\none/c a/spot 6\none/c x 2\none/c y 1\n", nil,
		},
		"of one weight the first by name, backwards, is in force": {
			[]overlay.Overlay{of("a", 1, 5, nil, nil), of("b", 1, 6, spot, nil)},
			"one/c a/spot 6\n",
			map[string]string{"a": "another overlay of weight 1 sets the price of c in NodePool one"},
		},
		"of one weight they may correct different things": {
			[]overlay.Overlay{of("a", 1, 5, label.Requirements{label.CapacityType: label.In("on-demand")}, nil), of("b", 1, 6, spot, nil)},
			"one/c a/on-demand 5\none/c a/spot 6\n", nil,
		},
		"one resource twice": {
			[]overlay.Overlay{of("a", 1, 5, label.Requirements{label.CapacityType: label.In("on-demand")}, quantity.List{"x": 1}), of("b", 1, 6, spot, quantity.List{"x": 1})},
			"one/c a/spot 6\none/c x 1\n",
			map[string]string{"a": "another overlay of weight 1 sets x of c in NodePool one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // in any order
				effects, conflicts := overlay.Evaluate(tc.overlays, pools())
				lines := strings.SplitAfter(show(effects), "\n")
				slices.Sort(lines)
				if diff := cmp.Diff(tc.want, strings.Join(lines, "")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(conflicts) != len(tc.conflicts) || tc.conflicts != nil && !cmp.Equal(conflicts, tc.conflicts) {
					t.Errorf("conflicts %v, want %v", conflicts, tc.conflicts)
				}
				slices.Reverse(tc.overlays)
			}
		})
	}
}

func TestOverlaysAreBounded(t *testing.T) {
	t.Parallel()
	all := make([]overlay.Overlay, 503)
	for i := range all {
		all[i] = overlay.Overlay{Name: fmt.Sprintf("o%03d", i), Weight: int32(i), Requirements: label.Requirements{}}
	}
	_, conflicts := overlay.Evaluate(all, pools())
	if len(conflicts) != 3 || conflicts["o000"] == "" || conflicts["o002"] == "" {
		t.Errorf("not in force are %v, want the three of the lowest weight", conflicts)
	}
}

// TestOverlaysHaveNoOrder: what is in force does not depend on the order in which overlays and
// pools are given, and every offering has the price of the heaviest overlay in force that selects it.
func TestOverlaysHaveNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var overlays []overlay.Overlay
		for i := range rapid.IntRange(0, 6).Draw(t, "overlays") {
			o := overlay.Overlay{Name: fmt.Sprint("o", i), Weight: int32(rapid.IntRange(0, 3).Draw(t, "weight")), Requirements: label.Requirements{}}
			for key, values := range map[string][]string{label.InstanceType: {"m", "c", "new"}, label.Zone: {"a", "b"}, label.CapacityType: {"spot", "on-demand"}, label.NodePool: {"one", "two"}} {
				if rapid.Bool().Draw(t, key) {
					o.Requirements[key] = label.In(rapid.SampledFrom(values).Draw(t, "value"))
				}
			}
			o.Price = overlay.Price{Kind: overlay.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Amount: float64(1 + i)}
			overlays = append(overlays, o)
		}
		effects, conflicts := overlay.Evaluate(overlays, pools())
		shuffled := rapid.Permutation(overlays).Draw(t, "order")
		again, conflictsToo := overlay.Evaluate(shuffled, pools())
		if show(effects) != show(again) || !cmp.Equal(conflicts, conflictsToo) {
			t.Fatalf("%s%v\nin another order %s%v", show(effects), conflicts, show(again), conflictsToo)
		}
		without := slices.DeleteFunc(slices.Clone(overlays), func(o overlay.Overlay) bool { return conflicts[o.Name] != "" })
		if rest, left := overlay.Evaluate(without, pools()); len(left) > 0 || show(rest) != show(effects) {
			t.Fatalf("without those that contradict others: %v, %s, want %s", left, show(rest), show(effects))
		}
	})
}
