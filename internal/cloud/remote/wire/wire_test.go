package wire_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

var values = rapid.SampledFrom([]string{"a", "b", "c", "4", "16", "007"})

// aRequirement draws one of any form, as operations of the algebra make them.
func aRequirement(t *rapid.T) label.Requirement {
	one := func() label.Requirement {
		some := rapid.SliceOfN(values, 0, 3).Draw(t, "values")
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			return label.In(some...)
		case 1:
			return label.NotIn(some...)
		case 2:
			return label.Exists()
		case 3:
			return label.DoesNotExist()
		default:
			return label.Between(rapid.SampledFrom([]int64{math.MinInt64, 0, 4}).Draw(t, "lower"), rapid.SampledFrom([]int64{3, 16, math.MaxInt64}).Draw(t, "upper"))
		}
	}
	r := one()
	if rapid.Bool().Draw(t, "both") {
		r = r.Intersect(one())
	}
	return r.WithMinValues(rapid.IntRange(0, 3).Draw(t, "min values"))
}

func aType(t *rapid.T) *catalog.Type {
	amounts := rapid.MapOf(rapid.SampledFrom([]string{quantity.CPU, quantity.Memory, quantity.Pods, "example.com/gpu"}), rapid.Int64Range(0, 1<<50))
	ty := &catalog.Type{Name: "large", Capacity: amounts.Draw(t, "capacity"), Overhead: amounts.Draw(t, "overhead"), Requirements: label.Requirements{}}
	for _, key := range []string{"arch", "example.com/family"} {
		ty.Requirements[key] = aRequirement(t)
	}
	all, left := map[string]map[string]bool{}, catalog.Supplies{}
	for _, supply := range []string{"s0", "s1", "s2"} {
		left[supply] = rapid.SampledFrom([]int{0, 3, 1 << 50}).Draw(t, "left")
	}
	for _, zone := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"za", "zb", "zc"}), 0, 3, rapid.ID).Draw(t, "zones") {
		o := catalog.Offering{
			Zone: zone, CapacityType: rapid.SampledFrom([]string{label.Spot, label.OnDemand}).Draw(t, "capacity type"),
			Available: rapid.Bool().Draw(t, "available"), Priced: rapid.Bool().Draw(t, "priced"),
		}
		if o.Priced {
			o.PriceHourly = rapid.SampledFrom([]float64{0, 0.1, 1e8}).Draw(t, "price")
		}
		if rapid.Bool().Draw(t, "reserved") {
			o.CapacityType, o.Reservation, o.Left, o.Labels = label.Reserved, "cr-"+zone, rapid.IntRange(0, 9).Draw(t, "left"), map[string]string{"example.com/reservation": "cr-" + zone}
		}
		for _, supply := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s0", "s1", "s2"}), 0, 3, rapid.ID).Draw(t, "draws") {
			o.Draws = append(o.Draws, catalog.Draw{Supply: supply, Units: rapid.SampledFrom([]int{1, 7, 1 << 50}).Draw(t, "units"), Left: left[supply]})
		}
		if rapid.Bool().Draw(t, "named") {
			o.ID = "id-" + zone
		}
		ty.Offerings = append(ty.Offerings, o)
		if o.ID != "" && rapid.Bool().Draw(t, "another") { // which differs in its ID only
			o.ID, o.Draws = o.ID+"-2", slices.Clone(o.Draws)
			ty.Offerings = append(ty.Offerings, o)
		}
		for key, r := range o.Requirements() {
			value, _ := r.Only()
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			all[key][value] = true
		}
	}
	ty.Requirements[label.InstanceType] = label.In(ty.Name)
	for key, set := range all {
		var list []string
		for v := range set {
			list = append(list, v)
		}
		ty.Requirements[key] = label.In(list...)
	}
	return ty
}

// TestTypesSurviveTheWire: what goes through bytes and back is the same, also where the provider leaves
// out what goes without saying.
func TestTypesSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := aType(t)
		message, left := wire.Type(want), catalog.Supplies{}
		for i := range want.Offerings {
			left.Add(&want.Offerings[i])
		}
		if rapid.Bool().Draw(t, "left out") {
			var kept []*providerv1.Requirement
			for _, r := range message.Requirements {
				if r.Key == "arch" || r.Key == "example.com/family" {
					kept = append(kept, r)
				}
			}
			message.Requirements = kept
		}
		content, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		read := &providerv1.Type{}
		if err := proto.Unmarshal(content, read); err != nil {
			t.Fatal(err)
		}
		supplies := catalog.Supplies{}
		if err := wire.ParseSupplies(wire.Supplies(left), "p", supplies, true); err != nil {
			t.Fatal(err)
		}
		entry, err := wire.ParseType(read, "p")
		if err == nil {
			entry, err = entry.Cover(supplies)
		}
		if err != nil {
			t.Fatal(err)
		}
		if again, err := entry.Cover(supplies); again != entry || err != nil {
			t.Fatalf("what is covered is another entry: %v", err)
		}
		for i := range want.Offerings { // the names are the provider's
			for k := range want.Offerings[i].Draws {
				want.Offerings[i].Draws[k].Supply = "p/" + want.Offerings[i].Draws[k].Supply
			}
		}
		if got := entry.Type; !got.Requirements.Equal(want.Requirements) {
			t.Fatalf("requirements %s, want %s", got.Requirements, want.Requirements)
		}
		got := *entry.Type
		got.Requirements = want.Requirements
		if diff := cmp.Diff(*want, got, cmp.Comparer(label.Requirements.Equal), cmp.Comparer(func(a, b quantity.List) bool { return maps.Equal(a, b) })); diff != "" {
			t.Fatalf("(-sent +read):\n%s", diff)
		}
	})
}

// FuzzRead reads any bytes as every message that a provider sends: nothing panics, and what is read is
// within bounds.
func FuzzRead(f *testing.F) {
	content, err := proto.Marshal(wire.Type(&catalog.Type{Name: "a", Requirements: label.Requirements{"k": label.Between(1, 2)}, Offerings: []catalog.Offering{{Zone: "z", CapacityType: "spot", Priced: true}}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		ty, instance, failure, describe, notice := &providerv1.Type{}, &providerv1.Instance{}, &providerv1.Failure{}, &providerv1.DescribeResponse{}, &providerv1.Notice{}
		if proto.Unmarshal(content, ty) == nil {
			if e, err := wire.ParseType(ty, "p"); err == nil {
				for i := range e.Type.Offerings {
					o := &e.Type.Offerings[i]
					if o.Priced && !o.HasPrice() {
						t.Errorf("a price of %v was read", o.PriceHourly)
					}
					for _, d := range o.Draws {
						if d.Units < 1 || d.Supply == "p/" {
							t.Errorf("a draw of %d of %s was read", d.Units, d.Supply)
						}
					}
				}
				for name, amount := range e.Type.Capacity {
					if amount < 0 {
						t.Errorf("%d of %s was read", amount, name)
					}
				}
			}
		}
		if proto.Unmarshal(content, instance) == nil {
			if i, err := wire.ParseInstance(instance); err == nil && i.ID == "" {
				t.Error("an instance without an ID was read")
			}
		}
		if proto.Unmarshal(content, failure) == nil && wire.ParseFailure(failure) == nil {
			t.Error("a failure is no error")
		}
		if proto.Unmarshal(content, describe) == nil {
			_, _ = wire.ParseDescribe(describe)
		}
		if proto.Unmarshal(content, notice) == nil {
			_, _, _ = wire.ParseNotice(notice)
		}
	})
}

func TestFailuresMeanWhatTheProtocolSays(t *testing.T) {
	t.Parallel()
	for kind, want := range map[providerv1.FailureKind]cloud.FailureKind{
		providerv1.FailureKind_FAILURE_KIND_NO_CAPACITY:     cloud.NoCapacity,
		providerv1.FailureKind_FAILURE_KIND_QUOTA:           cloud.NoCapacity,
		providerv1.FailureKind_FAILURE_KIND_ADDRESSES:       cloud.NoCapacity,
		providerv1.FailureKind_FAILURE_KIND_NOT_FOUND:       cloud.NoCapacity,
		providerv1.FailureKind_FAILURE_KIND_CLASS_NOT_READY: cloud.ClassNotReady,
		providerv1.FailureKind_FAILURE_KIND_INVALID:         cloud.Rejected,
		providerv1.FailureKind_FAILURE_KIND_DENIED:          cloud.Rejected,
		providerv1.FailureKind_FAILURE_KIND_THROTTLED:       "",
		providerv1.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME: "",
		providerv1.FailureKind_FAILURE_KIND_UNSPECIFIED:     "",
		providerv1.FailureKind(77):                          "",
	} {
		err := wire.ParseFailure(&providerv1.Failure{Kind: kind, Message: "no\x00\nway", CloudCode: "E1", KeepMs: 1 << 60})
		failure, definite := err.(*cloud.Failure) //nolint:errorlint // it is not wrapped
		switch {
		case definite != (want != ""):
			t.Errorf("%s: definite %t: %v", kind, definite, err)
		case definite && (failure.Kind != want || failure.Keep != time.Hour):
			t.Errorf("%s: %s for %s, want %s for at most an hour", kind, failure.Kind, failure.Keep, want)
		case !strings.Contains(err.Error(), "E1: no  way"):
			t.Errorf("%s: %q does not have the cloud's code and message, in printable characters", kind, err)
		}
	}
}

// TestSameTypeIsOneWithTheSameMessage: it looks at all that a message has.
func TestSameTypeIsOneWithTheSameMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := aType(t)
		b := *a
		b.Offerings, b.Requirements, b.Capacity = slices.Clone(a.Offerings), maps.Clone(a.Requirements), maps.Clone(a.Capacity)
		var o catalog.Offering
		at := 0
		if len(b.Offerings) > 0 {
			at = rapid.IntRange(0, len(b.Offerings)-1).Draw(t, "at")
			o = b.Offerings[at]
			o.Draws = slices.Clone(o.Draws)
		}
		change := rapid.IntRange(0, 15).Draw(t, "change")
		switch change {
		case 0:
			o.Zone += "x"
		case 1:
			o.CapacityType += "x"
		case 2:
			o.Available = !o.Available
		case 3:
			o.Priced = !o.Priced
		case 4:
			o.PriceHourly++
		case 5:
			o.Left++
		case 6:
			o.Group += "x"
		case 7:
			o.ID += "x"
		case 8:
			o.Labels = map[string]string{"rack": "x"}
		case 9:
			o.Draws = append(o.Draws, catalog.Draw{Supply: "another", Units: 1})
		case 10:
			if len(o.Draws) > 0 {
				o.Draws[0].Units++
			}
		case 11:
			if len(o.Draws) > 0 { // which no message of a type has
				o.Draws[0].Left++
			}
		case 12:
			b.Requirements["more"] = label.In("x")
		case 13:
			b.Capacity["example.com/more"] = 1
		case 14:
			b.Overhead = quantity.List{"example.com/more": 1}
		case 15:
			b.VolumeLimits = quantity.List{"example.com/more": 1}
		}
		if len(b.Offerings) > 0 {
			b.Offerings[at] = o
		}
		got, want := wire.SameType(a, &b), proto.Equal(wire.Type(a), wire.Type(&b))
		if got && !want || change == 11 && !got {
			t.Fatalf("%+v and %+v are the same: %t, and their messages: %t", *a, b, got, want)
		}
	})
}

// TestSuppliesThatCannotBeAreRefused: the error names the field.
func TestSuppliesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	many := make([]*providerv1.Supply, wire.SuppliesMax+1)
	for i := range many {
		many[i] = &providerv1.Supply{Name: fmt.Sprint("s", i), Left: 1}
	}
	for name, tc := range map[string]struct {
		supplies []*providerv1.Supply
		draws    []*providerv1.Draw
		said     string
	}{
		"all is well":             {[]*providerv1.Supply{{Name: "s", Left: 3}}, []*providerv1.Draw{{Supply: "s", Units: 1}}, ""},
		"left is far too much":    {[]*providerv1.Supply{{Name: "s", Left: math.MaxInt64}}, []*providerv1.Draw{{Supply: "s", Units: 1}}, ""},
		"left is below zero":      {[]*providerv1.Supply{{Name: "s", Left: -1}}, nil, "supply s: left is -1"},
		"no name":                 {[]*providerv1.Supply{{Left: 1}}, nil, "supply name is empty"},
		"a name that is too long": {[]*providerv1.Supply{{Name: strings.Repeat("x", 513)}}, nil, "supply name has 513 bytes"},
		"a name with a space":     {[]*providerv1.Supply{{Name: "a b"}}, nil, "supply name \"a b\" has characters"},
		"twice":                   {[]*providerv1.Supply{{Name: "s"}, {Name: "s"}}, nil, "supply s is there twice"},
		"too many":                {many, nil, "1001 supplies; there may be 1000"},
		"a draw of nothing":       {[]*providerv1.Supply{{Name: "s"}}, []*providerv1.Draw{{Supply: "s"}}, "units of supply s is 0"},
		"a draw below zero":       {[]*providerv1.Supply{{Name: "s"}}, []*providerv1.Draw{{Supply: "s", Units: -1}}, "units of supply s is -1"},
		"a huge draw":             {[]*providerv1.Supply{{Name: "s"}}, []*providerv1.Draw{{Supply: "s", Units: math.MaxInt64}}, "units of supply s is 9223372036854775807"},
		"a draw twice":            {[]*providerv1.Supply{{Name: "s"}}, []*providerv1.Draw{{Supply: "s", Units: 1}, {Supply: "s", Units: 1}}, "draws: supply s is there twice"},
		"a draw without a name":   {nil, []*providerv1.Draw{{Units: 1}}, "draws: supply is empty"},
		"too many draws":          {nil, make([]*providerv1.Draw, 17), "17 draws; there may be 16"},
		"an unknown supply":       {[]*providerv1.Supply{{Name: "s"}}, []*providerv1.Draw{{Supply: "other", Units: 1}}, "draws on supply other, which no page has"},
		"a supply that is gone":   {[]*providerv1.Supply{{Name: "s", Gone: true}}, []*providerv1.Draw{{Supply: "s", Units: 1}}, "draws on supply s, which no page has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := catalog.Supplies{}
			err := wire.ParseSupplies(tc.supplies, "p", left, true)
			var entry *wire.Entry
			if err == nil {
				entry, err = wire.ParseType(&providerv1.Type{Name: "large", Offerings: []*providerv1.Offering{{CapacityType: "spot", Available: true, Draws: tc.draws}}}, "p")
			}
			if err == nil {
				entry, err = entry.Cover(left)
			}
			if tc.said == "" && err != nil || tc.said != "" && (err == nil || !strings.Contains(err.Error(), tc.said)) {
				t.Fatalf("%v; want %q", err, tc.said)
			}
			if err == nil && !entry.Type.Offerings[0].Launchable() {
				t.Errorf("%+v cannot be launched", entry.Type.Offerings[0])
			}
		})
	}
}
