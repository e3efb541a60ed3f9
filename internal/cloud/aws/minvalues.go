package aws

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// reasonMinValues is the reason of a launch that could not keep minValues.
const reasonMinValues = "MinValuesUnmet"

// minValues are a claim's rules of minValues: how many different values of a label the types
// of its fleet have between them at least. The core keeps them when it plans a launch; a fleet
// that takes fewer types than that has to keep them itself. Only values count that the claim
// allows.
type minValues map[string]label.Requirement

func minValuesOf(want label.Requirements) minValues {
	rules := minValues{}
	for key, r := range want {
		if r.MinValues > 0 {
			rules[key] = r
		}
	}
	return rules
}

// needed returns types that suffice to keep the rules. For each rule it goes through the types
// from the best to the worst, and takes each that adds a value until there are enough.
func (v minValues) needed(choices []catalog.Choice) map[string]bool {
	types := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		has := map[string]bool{}
		for _, o := range choices { // those that other rules need count first
			if types[o.Type.Name] {
				v.add(has, key, o.Type)
			}
		}
		for _, o := range choices {
			if len(has) >= v[key].MinValues {
				break
			}
			if v.add(has, key, o.Type) {
				types[o.Type.Name] = true
			}
		}
	}
	return types
}

// add notes the values of a key that a type has, and reports whether any is new.
func (v minValues) add(has map[string]bool, key string, t *catalog.Type) (isNew bool) {
	for _, value := range t.Requirements[key].Values() {
		if v[key].Allows(value) && !has[value] {
			has[value], isNew = true, true
		}
	}
	return isNew
}

// unmet returns the rule that offerings do not keep, as a text; empty: they keep all.
func (v minValues) unmet(choices []catalog.Choice) string {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		has := map[string]bool{}
		for _, o := range choices {
			v.add(has, key, o.Type)
		}
		if len(has) < v[key].MinValues {
			return fmt.Sprintf("one fleet can have %d values of %s; minValues demands %d", len(has), key, v[key].MinValues)
		}
	}
	return ""
}
