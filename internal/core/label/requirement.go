// Package label is the algebra of labels: what a requirement allows, what two requirements allow
// together, and when nodes described by requirements can take a pod that has requirements of its
// own. The rules are those of the Karpenter API, which users' manifests rely on.
//
// It imports nothing of the core. Read requirement.go first (one key), then requirements.go (many
// keys) and written.go (their text).
package label

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Operator is the word that a requirement is written with.
type Operator string

// The eight operators of the API.
const (
	OpIn           Operator = "In"
	OpNotIn        Operator = "NotIn"
	OpExists       Operator = "Exists"
	OpDoesNotExist Operator = "DoesNotExist"
	OpGt           Operator = "Gt"
	OpLt           Operator = "Lt"
	OpGte          Operator = "Gte"
	OpLte          Operator = "Lte"
)

// Requirement is what one key may be: a set of values, or the complement of one within
// inclusive bounds. The zero Requirement allows nothing (DoesNotExist). Requirements
// are values: no operation changes its operands.
type Requirement struct {
	complement bool
	demanded   bool     // absence is not good enough
	values     []string // sorted; allowed ones, or excluded ones of a complement
	lower      int64    // MinInt64: no bound
	upper      int64    // MaxInt64: no bound
	// MinValues is how many distinct values the candidates must offer between them; 0: no rule.
	MinValues int
}

// In allows the given values.
func In(values ...string) Requirement {
	return Requirement{demanded: len(values) > 0, values: set(values), lower: math.MinInt64, upper: math.MaxInt64}
}

// NotIn allows every value, and absence, but the given values.
func NotIn(values ...string) Requirement {
	return Requirement{complement: true, values: set(values), lower: math.MinInt64, upper: math.MaxInt64}
}

// Exists allows every value.
func Exists() Requirement { return Between(math.MinInt64, math.MaxInt64) }

// DoesNotExist allows no value.
func DoesNotExist() Requirement { return In() }

// Between allows integers from lower to upper, both included.
func Between(lower, upper int64) Requirement {
	if lower > upper {
		return DoesNotExist()
	}
	return Requirement{complement: true, demanded: true, lower: lower, upper: upper}
}

// Parse returns the requirement for an operator and its operands as they stand in a
// manifest. The error names what is wrong with them.
func Parse(op Operator, values []string) (Requirement, error) {
	switch op {
	case OpIn:
		return In(values...), nil
	case OpNotIn:
		return NotIn(values...), nil
	case OpExists:
		return Exists(), nil
	case OpDoesNotExist:
		return DoesNotExist(), nil
	case OpGt, OpLt, OpGte, OpLte:
		return parseBound(op, values)
	default:
		return Requirement{}, fmt.Errorf("operator %q is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte", op)
	}
}

func parseBound(op Operator, values []string) (Requirement, error) {
	if len(values) != 1 {
		return Requirement{}, fmt.Errorf("operator %s needs exactly one value, has %d", op, len(values))
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n < 0 {
		return Requirement{}, fmt.Errorf("operator %s needs a non-negative integer, has %q", op, values[0])
	}
	switch {
	case op == OpGt && n == math.MaxInt64:
		return Requirement{demanded: true}, nil // a value is demanded that cannot be
	case op == OpGt:
		return Between(n+1, math.MaxInt64), nil
	case op == OpGte:
		return Between(n, math.MaxInt64), nil
	case op == OpLt && n == 0:
		return Requirement{demanded: true}, nil // likewise: no label's value begins with a minus sign
	case op == OpLt:
		return Between(math.MinInt64, n-1), nil
	default:
		return Between(math.MinInt64, n), nil
	}
}

// WithMinValues returns r with the rule that candidates must offer n distinct values.
func (r Requirement) WithMinValues(n int) Requirement {
	r.MinValues = n
	return r
}

// Operator returns the word that describes r best: a complement with exclusions is
// NotIn, one without is Exists even when it is bounded.
func (r Requirement) Operator() Operator {
	switch {
	case r.complement && len(r.values) > 0:
		return OpNotIn
	case r.complement:
		return OpExists
	case len(r.values) > 0:
		return OpIn
	default:
		return OpDoesNotExist
	}
}

// Values returns the allowed values of In, the excluded ones of NotIn; sorted. The
// caller must not change them.
func (r Requirement) Values() []string { return r.values }

// Bounds returns the inclusive bounds and which of them are set.
func (r Requirement) Bounds() (lower, upper int64, hasLower, hasUpper bool) {
	bounded := r.complement
	return r.lower, r.upper, bounded && r.lower != math.MinInt64, bounded && r.upper != math.MaxInt64
}

// Only returns the one value r allows, if there is exactly one.
func (r Requirement) Only() (string, bool) {
	if !r.complement && len(r.values) == 1 {
		return r.values[0], true
	}
	return "", false
}

// Allows reports whether a label with this value satisfies r.
func (r Requirement) Allows(value string) bool {
	if _, listed := slices.BinarySearch(r.values, value); listed == r.complement {
		return false
	}
	return r.inBounds(value)
}

// IsImpossible reports whether a value is demanded, and none is allowed.
func (r Requirement) IsImpossible() bool { return r.demanded && !r.complement && len(r.values) == 0 }

// AllowsAbsence reports whether an object without the label satisfies r.
func (r Requirement) AllowsAbsence() bool { return !r.demanded }

func (r Requirement) inBounds(value string) bool {
	if !r.complement || (r.lower == math.MinInt64 && r.upper == math.MaxInt64) {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && r.lower <= n && n <= r.upper
}

// Intersect returns what both requirements allow. The larger minValues wins.
func (r Requirement) Intersect(o Requirement) Requirement {
	both := r.intersect(o)
	both.demanded = r.demanded || o.demanded
	both.MinValues = max(r.MinValues, o.MinValues)
	return both
}

func (r Requirement) intersect(o Requirement) Requirement {
	switch {
	case r.complement && o.complement:
		both := Between(max(r.lower, o.lower), min(r.upper, o.upper))
		if both.complement {
			for _, v := range slices.Concat(r.values, o.values) {
				if both.inBounds(v) {
					both.values = append(both.values, v)
				}
			}
			both.values = set(both.values)
			if both.exhausted() {
				return DoesNotExist()
			}
		}
		return both
	case r.complement:
		return o.intersect(r)
	}
	var kept []string
	for _, v := range r.values {
		if o.Allows(v) {
			kept = append(kept, v)
		}
	}
	return In(kept...)
}

// exhausted reports whether the exclusions of a complement leave no integer within its bounds.
// Integers count as FormatInt writes them: another spelling of one is no value that anybody sets.
func (r Requirement) exhausted() bool {
	span := uint64(r.upper) - uint64(r.lower) // of int64 it cannot overflow
	if span >= uint64(len(r.values)) {
		return false
	}
	for i := range span + 1 {
		if _, excluded := slices.BinarySearch(r.values, strconv.FormatInt(r.lower+int64(i), 10)); !excluded {
			return false
		}
	}
	return true
}

// Overlaps reports whether some value satisfies both, or both are content with absence.
func (r Requirement) Overlaps(o Requirement) bool {
	if r.AllowsAbsence() && o.AllowsAbsence() {
		return true
	}
	switch {
	case r.complement && o.complement:
		return max(r.lower, o.lower) <= min(r.upper, o.upper) && r.Intersect(o).complement
	case r.complement:
		return o.Overlaps(r)
	}
	return slices.ContainsFunc(r.values, o.Allows)
}

// Equal reports whether two requirements are written the same.
func (r Requirement) Equal(o Requirement) bool {
	return r.complement == o.complement && r.demanded == o.demanded && r.MinValues == o.MinValues && slices.Equal(r.values, o.values) &&
		(!r.complement || (r.lower == o.lower && r.upper == o.upper))
}

// String returns r as in "In [a b]" or "Exists >=4 <=16".
func (r Requirement) String() string {
	var b strings.Builder
	b.WriteString(string(r.Operator()))
	if len(r.values) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(r.values, " "))
	}
	lower, upper, hasLower, hasUpper := r.Bounds()
	if hasLower {
		fmt.Fprintf(&b, " >=%d", lower)
	}
	if hasUpper {
		fmt.Fprintf(&b, " <=%d", upper)
	}
	if r.MinValues > 0 {
		fmt.Fprintf(&b, " minValues %d", r.MinValues)
	}
	return b.String()
}

// set returns the values sorted and without repeats, as a new slice.
func set(values []string) []string {
	s := slices.Clone(values)
	slices.Sort(s)
	return slices.Compact(s)
}

// Within reports whether everything that r allows, o allows too. It may say no where that is
// dear to find out.
func (r Requirement) Within(o Requirement) bool {
	if r.AllowsAbsence() && !o.AllowsAbsence() {
		return false
	}
	if !r.complement {
		return !slices.ContainsFunc(r.values, func(v string) bool { return !o.Allows(v) })
	}
	both := r.Intersect(o)
	both.MinValues = r.MinValues
	return both.Equal(r)
}
