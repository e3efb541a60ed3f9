package wire

import (
	"fmt"
	"math"
	"slices"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Requirements returns the message for requirements, in the order of their keys.
func Requirements(requirements label.Requirements) []*providerv1.Requirement {
	var out []*providerv1.Requirement
	for _, key := range requirements.Keys() {
		out = append(out, requirement(key, requirements[key]))
	}
	return out
}

func requirement(key string, r label.Requirement) *providerv1.Requirement {
	out := &providerv1.Requirement{Key: key, MinValues: uint32(max(0, min(r.MinValues, math.MaxInt32)))}
	switch r.Operator() {
	case label.OpIn:
		out.In = r.Values()
	case label.OpDoesNotExist:
		out.Absent, out.Demanded = true, r.IsImpossible()
	default:
		out.NotIn, out.Demanded = r.Values(), !r.AllowsAbsence()
		lower, upper, hasLower, hasUpper := r.Bounds()
		if hasLower {
			out.Lower = &lower
		}
		if hasUpper {
			out.Upper = &upper
		}
	}
	return out
}

// ParseRequirements reads requirements. A key may be there once.
func ParseRequirements(in []*providerv1.Requirement) (label.Requirements, error) {
	if err := checkCount("requirements", len(in), requirementsMax); err != nil {
		return nil, err
	}
	out := make(label.Requirements, len(in))
	for _, r := range in {
		if err := checkKey(r.GetKey()); err != nil {
			return nil, fmt.Errorf("requirements: %w", err)
		}
		if _, twice := out[r.GetKey()]; twice {
			return nil, fmt.Errorf("requirements have %s twice", r.GetKey())
		}
		parsed, err := parseRequirement(r)
		if err != nil {
			return nil, fmt.Errorf("requirement of %s: %w", r.GetKey(), err)
		}
		out[r.GetKey()] = parsed
	}
	return out, nil
}

func parseRequirement(r *providerv1.Requirement) (label.Requirement, error) {
	if err := checkCount("values", len(r.GetIn())+len(r.GetNotIn()), valuesMax); err != nil {
		return label.Requirement{}, err
	}
	for _, value := range slices.Concat(r.GetIn(), r.GetNotIn()) {
		if err := checkValue("value", value); err != nil {
			return label.Requirement{}, err
		}
	}
	bounded, listed := r.Lower != nil || r.Upper != nil, len(r.GetIn()) > 0
	lower, upper := int64(math.MinInt64), int64(math.MaxInt64)
	if r.Lower != nil {
		lower = r.GetLower()
	}
	if r.Upper != nil {
		upper = r.GetUpper()
	}
	var out label.Requirement
	switch {
	case listed && (len(r.GetNotIn()) > 0 || bounded || r.GetAbsent()), r.GetAbsent() && (len(r.GetNotIn()) > 0 || bounded):
		return out, fmt.Errorf("it has more than one of in, absent, and not_in with bounds")
	case lower > upper:
		return out, fmt.Errorf("its lower bound %d is above its upper bound %d", lower, upper)
	case listed:
		out = label.In(r.GetIn()...)
	case r.GetAbsent() && r.GetDemanded():
		out = label.In("a").Intersect(label.In("b"))
	case r.GetAbsent():
		out = label.DoesNotExist()
	default:
		out = label.NotIn(r.GetNotIn()...)
		if bounded || r.GetDemanded() {
			out = out.Intersect(label.Between(lower, upper))
		}
	}
	out.MinValues = int(min(r.GetMinValues(), math.MaxInt32))
	return out, nil
}
