package drift_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/drift"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

func TestReason(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	small := &catalog.Type{Name: "small", Offerings: []catalog.Offering{{Zone: "a", CapacityType: label.OnDemand}, {Zone: "b", CapacityType: label.Spot}}}
	for name, tc := range map[string]struct {
		change func(*drift.View)
		want   string
	}{
		"as it was launched":                       {func(*drift.View) {}, ""},
		"another template":                         {func(v *drift.View) { v.Pool.Value = "2" }, drift.PoolDrifted},
		"another template, by other rules":         {func(v *drift.View) { v.Pool = drift.Hash{Value: "2", Version: "v4"} }, ""},
		"a claim without a hash":                   {func(v *drift.View) { v.Claim.Value = "" }, ""},
		"a pool without a version":                 {func(v *drift.View) { v.Pool.Version, v.Claim.Version, v.Pool.Value = "", "", "2" }, ""},
		"not launched yet":                         {func(v *drift.View) { v.Launched, v.Pool.Value = false, "2" }, ""},
		"a zone that the pool excludes now":        {func(v *drift.View) { v.Requirements = label.Requirements{label.Zone: label.In("b")} }, drift.RequirementsDrifted},
		"a label that the pool wants now":          {func(v *drift.View) { v.Requirements = label.Requirements{"team": label.Exists()} }, drift.RequirementsDrifted},
		"a label that the pool does not want":      {func(v *drift.View) { v.Requirements = label.Requirements{"team": label.NotIn("red")} }, ""},
		"a template and requirements":              {func(v *drift.View) { v.Pool.Value, v.Requirements = "2", label.Requirements{"team": label.Exists()} }, drift.PoolDrifted},
		"a type that is gone":                      {func(v *drift.View) { v.Types = []*catalog.Type{} }, drift.TypeGone},
		"a type that is gone, on a young node":     {func(v *drift.View) { v.Types, v.Created = []*catalog.Type{}, noon.Add(-time.Hour) }, ""},
		"types that are not known":                 {func(v *drift.View) { v.Types = nil }, ""},
		"a zone in which the type is not sold":     {func(v *drift.View) { v.Labels[label.Zone] = "b" }, drift.TypeGone},
		"a reservation that is over":               {func(v *drift.View) { v.Labels[label.CapacityType], v.Labels["reservation"] = label.Reserved, "r" }, ""},
		"a reservation that is over, where all is": {func(v *drift.View) { v.Labels[label.CapacityType], v.Labels[label.Zone] = label.Reserved, "b" }, drift.TypeGone},
		"a reservation that is over, where there is another": {func(v *drift.View) {
			v.Labels[label.CapacityType], v.Labels["reservation"] = label.Reserved, "r"
			v.Types = []*catalog.Type{{Name: "small", Offerings: []catalog.Offering{{Zone: "a", CapacityType: label.Reserved, Labels: map[string]string{"reservation": "other"}}}}}
		}, ""},
		"what the offering alone decides": {func(v *drift.View) {
			v.Labels["tenancy"] = "shared"
			v.Types = []*catalog.Type{{Name: "small", Offerings: []catalog.Offering{{Zone: "a", CapacityType: label.OnDemand, Labels: map[string]string{"tenancy": "own"}}}}}
		}, drift.TypeGone},
		"what only the provider sees":                  {func(v *drift.View) { v.Provider = "ImageDrifted" }, "ImageDrifted"},
		"what the provider sees, and another template": {func(v *drift.View) { v.Provider, v.Pool.Value = "ImageDrifted", "2" }, drift.PoolDrifted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := drift.View{
				At: noon, Created: noon.Add(-2 * time.Hour), Launched: true, Pool: drift.Hash{Value: "1", Version: "v3"}, Claim: drift.Hash{Value: "1", Version: "v3"},
				Labels: map[string]string{label.InstanceType: "small", label.Zone: "a", label.CapacityType: label.OnDemand},
				Types:  []*catalog.Type{small}, ReservationKey: "reservation",
			}
			tc.change(&v)
			if got := drift.Reason(v); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
		})
	}
}
