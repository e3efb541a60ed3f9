package catalog_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func twoZones() []*catalog.Type {
	return []*catalog.Type{
		{Name: "large", Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", PriceHourly: 0.10, Priced: true, Available: true},
			{Zone: "b", CapacityType: "spot", PriceHourly: 0.11, Priced: true, Available: true},
		}},
		{Name: "small", Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", PriceHourly: 0.05, Priced: true, Available: true}}},
	}
}

func TestAPlaceThatIsShortIsLeftAloneAndThenCountsAsDearer(t *testing.T) {
	t.Parallel()
	types := twoZones()
	var s catalog.Shortages
	s.Short(catalog.Place{Type: "large", Zone: "a", CapacityType: "spot"}, noon, 3*time.Minute)
	cases := map[string]struct {
		after     time.Duration
		available bool
		cost      float64
	}{
		"at once":                   {0, false, 0.12},
		"just before it is over":    {3*time.Minute - 1, false, 0.12},
		"when it is over":           {3 * time.Minute, true, 0.12},
		"after half an hour":        {30 * time.Minute, true, 0.11},
		"after a day it is as good": {24 * time.Hour, true, 0.10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withShortages := s.Types(types, noon.Add(tc.after))
			o := withShortages[0].Offerings[0]
			if o.Available != tc.available || math.Abs(o.Cost()-tc.cost) > 0.002 || o.Price() != 0.10 {
				t.Errorf("available %t, cost %.4f, price %.4f; want %t, %.4f, 0.10", o.Available, o.Cost(), o.Price(), tc.available, tc.cost)
			}
			if other := withShortages[0].Offerings[1]; !other.Available || other.Risk != 0 || withShortages[1] != types[1] {
				t.Errorf("another zone or type suffers: %+v", other)
			}
			if !types[0].Offerings[0].Available {
				t.Error("the types that were given are changed")
			}
		})
	}
}

func TestReportsAddUpToAMost(t *testing.T) {
	t.Parallel()
	types := twoZones()
	var s catalog.Shortages
	for range 50 {
		s.Reclaimed(catalog.Place{Type: "small", Zone: "a", CapacityType: "spot"}, noon)
	}
	if o := s.Types(types, noon)[1].Offerings[0]; !o.Available || math.Abs(o.Cost()-0.10) > 1e-9 {
		t.Errorf("cost %.4f, available %t; want twice the price, and available", o.Cost(), o.Available)
	}
}

func TestTheMemoryOfShortagesIsBounded(t *testing.T) {
	t.Parallel()
	var s catalog.Shortages
	for i := range 30_000 {
		s.Short(catalog.Place{Type: strconv.Itoa(i)}, noon.Add(time.Duration(i)*time.Millisecond), time.Hour)
	}
	types := make([]*catalog.Type, 30_000)
	for i := range types {
		types[i] = &catalog.Type{Name: strconv.Itoa(i), Offerings: []catalog.Offering{{Available: true}}}
	}
	remembered := 0
	for i, withShortages := range s.Types(types, noon.Add(time.Minute)) {
		if withShortages != types[i] {
			remembered++
		}
	}
	if remembered > 10_000 || remembered < 2_000 {
		t.Errorf("remembers %d places", remembered)
	}
	if last := s.Types(types, noon.Add(time.Minute))[29_999]; last.Offerings[0].Available {
		t.Error("forgot the last one")
	}
}

// TestReservationsAndPlacementGroupsAreShortByThemselves: a reservation that EC2 refuses says
// nothing of another of the same type and zone, and a placement group that is full nothing of
// instances outside it.
func TestReservationsAndPlacementGroupsAreShortByThemselves(t *testing.T) {
	t.Parallel()
	at := func(capacityType, reservation, group string) catalog.Offering {
		return catalog.Offering{Zone: "a", CapacityType: capacityType, Reservation: reservation, Left: 1, Group: group, Available: true}
	}
	types := []*catalog.Type{{Name: "large", Offerings: []catalog.Offering{
		at("reserved", "cr-1", ""), at("reserved", "cr-2", ""), at("on-demand", "", ""),
		at("reserved", "cr-1", "pg-1"), at("reserved", "cr-2", "pg-1"), at("on-demand", "", "pg-1"),
	}}}
	for name, c := range map[string]struct {
		short catalog.Place
		want  []bool
	}{
		"a reservation": {catalog.Place{Type: "large", Zone: "a", CapacityType: "reserved", Reservation: "cr-1"}, []bool{false, true, true, false, true, true}},
		"a placement group, for reserved instances":  {catalog.Place{Type: "large", Zone: "a", CapacityType: "reserved", Group: "pg-1"}, []bool{true, true, true, false, false, true}},
		"a placement group, for instances on demand": {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand", Group: "pg-1"}, []bool{true, true, true, true, true, false}},
		"instances on demand":                        {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand"}, []bool{true, true, false, true, true, false}},
	} {
		var s catalog.Shortages
		s.Short(c.short, noon, time.Minute)
		for i, want := range c.want {
			if o := s.Types(types, noon)[0].Offerings[i]; o.Available != want {
				t.Errorf("%s: %+v: available %t, want %t", name, o, o.Available, want)
			}
		}
	}
}

// TestOfferingsThatDifferInLabelsOnlyAreShortByTheirIDs: of two offerings of one type, zone and capacity type
// the one is short, and the other is launched.
func TestOfferingsThatDifferInLabelsOnlyAreShortByTheirIDs(t *testing.T) {
	t.Parallel()
	at := func(id, group string) catalog.Offering {
		return catalog.Offering{Zone: "a", CapacityType: "on-demand", Group: group, ID: id, Labels: map[string]string{"rack": id}, Available: true}
	}
	types := []*catalog.Type{{Name: "large", Offerings: []catalog.Offering{at("r1", ""), at("r2", ""), at("r3", "pg-1"), at("", "")}}}
	place := types[0].Offerings[0].Place("large")
	for name, c := range map[string]struct {
		short catalog.Place
		want  []bool
	}{
		"one":                              {place, []bool{false, true, true, true}},
		"one in a group":                   {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand", ID: "r3"}, []bool{true, true, false, true}},
		"one in a group that is named too": {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand", Group: "pg-1", ID: "r3"}, []bool{true, true, false, true}},
		"whatever the ID":                  {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand"}, []bool{false, false, false, false}},
		"the group":                        {catalog.Place{Type: "large", Zone: "a", CapacityType: "on-demand", Group: "pg-1"}, []bool{true, true, false, true}},
		"another zone":                     {catalog.Place{Type: "large", Zone: "b", CapacityType: "on-demand", ID: "r1"}, []bool{true, true, true, true}},
	} {
		var s catalog.Shortages
		s.Short(c.short, noon, time.Minute)
		for i, want := range c.want {
			if o := s.Types(types, noon)[0].Offerings[i]; o.Available != want {
				t.Errorf("%s: %+v: available %t, want %t", name, o, o.Available, want)
			}
		}
	}
	var s catalog.Shortages
	s.Short(place, noon, time.Minute)
	if first := catalog.Choices(s.Types(types, noon), nil, nil)[0].Offering; first.ID != "r2" {
		t.Errorf("offering %q is launched, want r2", first.ID)
	}
}

func TestAReservationThatIsUsedUpIsAvailableAndCannotBeLaunched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offering catalog.Offering
		want     bool
	}{
		"on demand":          {catalog.Offering{CapacityType: "on-demand", Available: true}, true},
		"short":              {catalog.Offering{CapacityType: "on-demand"}, false},
		"reserved":           {catalog.Offering{CapacityType: "reserved", Reservation: "cr-1", Left: 1, Available: true}, true},
		"reserved, used up":  {catalog.Offering{CapacityType: "reserved", Reservation: "cr-1", Available: true}, false},
		"reserved and short": {catalog.Offering{CapacityType: "reserved", Reservation: "cr-1", Left: 1}, false},
	} {
		types := []*catalog.Type{{Name: "large", Offerings: []catalog.Offering{c.offering}}}
		if got := len(catalog.Choices(types, nil, nil)); (got == 1) != c.want || c.offering.Launchable() != c.want {
			t.Errorf("%s: %d choices, launchable %t", name, got, c.offering.Launchable())
		}
	}
}
