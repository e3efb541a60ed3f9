package wire_test

import (
	"maps"
	"math"
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
	all := map[string]map[string]bool{}
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
		ty.Offerings = append(ty.Offerings, o)
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
		message := wire.Type(want)
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
		entry, err := wire.ParseType(read)
		if err != nil {
			t.Fatal(err)
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
			if e, err := wire.ParseType(ty); err == nil {
				for i := range e.Type.Offerings {
					if o := &e.Type.Offerings[i]; o.Priced && !o.HasPrice() {
						t.Errorf("a price of %v was read", o.PriceHourly)
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
