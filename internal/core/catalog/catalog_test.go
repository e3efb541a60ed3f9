package catalog_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestRoomIsWhatIsAllocatable compares the two ways of asking for the same.
func TestRoomIsWhatIsAllocatable(t *testing.T) {
	t.Parallel()
	names := []string{quantity.CPU, quantity.Memory, quantity.Pods, "hugepages-2Mi", "hugepages-1Gi", quantity.AttachPrefix + "disk"}
	amounts := rapid.MapOf(rapid.SampledFrom(names), rapid.Int64Range(0, 100))
	rapid.Check(t, func(t *rapid.T) {
		ty := catalog.Type{Capacity: amounts.Draw(t, "capacity"), Overhead: amounts.Draw(t, "overhead")}
		space := quantity.SpaceOf(amounts.Draw(t, "space"))
		got, want := make(quantity.Vector, len(space)), space.Room(ty.Allocatable())
		if ty.FillRoom(space, got); !slices.Equal(got, want) {
			t.Fatalf("%v: room %v, allocatable %v", space, got, want)
		}
	})
}

// TestValuesAreWhatTheOfferingSays has a type of which one offering takes up a
// reservation; the others have no such label.
func TestValuesAreWhatTheOfferingSays(t *testing.T) {
	t.Parallel()
	types := []*catalog.Type{{
		Name: "large",
		Requirements: label.Requirements{
			"reservation": label.DoesNotExist(), "arch": label.In("arm64"), label.Zone: label.In("a", "b"), label.CapacityType: label.In("spot", "reserved"),
		},
		Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", PriceHourly: 0.1, Priced: true, Available: true},
			{Zone: "b", CapacityType: "spot", PriceHourly: 0.2, Priced: true, Available: true},
			{Zone: "b", CapacityType: "reserved", PriceHourly: 0.3, Priced: true, Available: true, Labels: map[string]string{"reservation": "r1"}},
			{Zone: "c", CapacityType: "spot", PriceHourly: 0.05, Priced: true},
		},
	}}
	for name, tc := range map[string]struct {
		want label.Requirements
		zone string // of each offer, in order
	}{
		"anything":                      {nil, "abb"},
		"the reservation":               {label.Requirements{"reservation": label.In("r1")}, "b"},
		"another reservation":           {label.Requirements{"reservation": label.In("r2")}, ""},
		"any reservation":               {label.Requirements{"reservation": label.Exists()}, "b"},
		"none":                          {label.Requirements{"reservation": label.DoesNotExist()}, "ab"},
		"a zone":                        {label.Requirements{label.Zone: label.In("b")}, "bb"},
		"what the type says otherwise":  {label.Requirements{"arch": label.In("amd64")}, ""},
		"what the type says":            {label.Requirements{"arch": label.In("arm64")}, "abb"},
		"what neither has a word about": {label.Requirements{"team": label.In("web")}, "abb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, o := range catalog.Choices(types, tc.want, nil) {
				got += o.Offering.Zone
			}
			if got != tc.zone {
				t.Errorf("offers are in zones %q, want %q", got, tc.zone)
			}
		})
	}
}

// TestAPriceThatCannotBeIsNone: whatever was read, no sum or comparison sees it.
func TestAPriceThatCannotBeIsNone(t *testing.T) {
	t.Parallel()
	for price, known := range map[float64]bool{0: true, 0.1: true, -0.1: false, math.NaN(): false, math.Inf(1): false, math.Inf(-1): false, 1e300: false} {
		o := catalog.Offering{PriceHourly: price, Priced: true}
		if o.HasPrice() != known || known && o.Price() != price || !known && !math.IsInf(o.Price(), 1) {
			t.Errorf("a price of %v is known: %v, and counts as %v", price, o.HasPrice(), o.Price())
		}
	}
}
