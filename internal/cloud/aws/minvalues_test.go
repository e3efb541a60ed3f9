package aws

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestMinValuesHoldToTheLast cuts offerings down to one fleet. What is left keeps the rules of
// minValues, or the launch is refused with the rule that nothing keeps.
func TestMinValuesHoldToTheLast(t *testing.T) {
	t.Parallel()
	const family = "karpenter.k8s.aws/instance-family"
	// choices has n types of each family, cheapest first, all in one zone.
	choices := func(capacityType string, n int, families ...string) (out []catalog.Choice) {
		for _, f := range families {
			for i := range n {
				name := fmt.Sprintf("%s.%03d", f, i)
				out = append(out, catalog.Choice{
					Type:     &catalog.Type{Name: name, Requirements: label.Requirements{family: label.In(f), "type": label.In(name)}},
					Offering: &catalog.Offering{Zone: "a", CapacityType: capacityType, Available: true},
				})
			}
		}
		return out
	}
	// least returns rules: keys with how many values they need.
	least := func(list ...any) minValues {
		rules := minValues{}
		for ; len(list) > 1; list = list[2:] {
			rules[list[0].(string)] = label.Exists().WithMinValues(list[1].(int))
		}
		return rules
	}
	for name, c := range map[string]struct {
		choices []catalog.Choice
		rules   minValues
		want    string // the capacity type that is taken
		refused string
	}{
		"without a rule the best go": {choices(label.Spot, 100, "c"), nil, label.Spot, ""},
		"families beyond the first sixty types": {
			choices(label.Spot, 70, "c", "m", "r"), least(family, 3), label.Spot, "",
		},
		"two rules together": {
			choices(label.Spot, 70, "c", "m"), least(family, 2, "type", 50), label.Spot, "",
		},
		"spot has too few families, on-demand has them": {
			append(choices(label.Spot, 5, "c"), choices(label.OnDemand, 5, "c", "m")...), least(family, 2), label.OnDemand, "",
		},
		"neither has them": {
			append(choices(label.Spot, 5, "c"), choices(label.OnDemand, 5, "m")...),
			least(family, 2),
			"",
			"of the instance types to be had as spot, one fleet can have 1 values of " + family + "; minValues demands 2",
		},
		"values that the claim does not allow do not count": {
			choices(label.Spot, 5, "c", "m", "r"), minValues{family: label.NotIn("c", "m").WithMinValues(2)}, "", "one fleet can have 1 values",
		},
		"more types than a fleet has room for": {choices(label.Spot, 400, "c"), least("type", 350), "", "minValues demands 350"},
	} {
		s := &fleetSpec{rules: c.rules}
		why := s.choose(c.choices)
		if !strings.Contains(why, c.refused) || (why == "") != (c.refused == "") {
			t.Errorf("%s: refused with %q, want %q", name, why, c.refused)
		}
		if c.want == "" {
			continue
		}
		if got := s.choices[0].Offering.CapacityType; got != c.want {
			t.Errorf("%s: takes %s, want %s", name, got, c.want)
		}
		types := map[string]bool{}
		for _, o := range s.choices {
			types[o.Type.Name] = true
		}
		if unmet := c.rules.unmet(s.choices); unmet != "" || len(types) > max(typesMost, len(s.needed)) || len(s.choices) > overridesMost {
			t.Errorf("%s: %d types, %d offerings, unmet: %s", name, len(types), len(s.choices), unmet)
		}
	}
}
