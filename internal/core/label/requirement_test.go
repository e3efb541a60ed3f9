package label_test

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

func TestParseAndString(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op     label.Operator
		values []string
		want   string
		fails  bool
	}{
		"values are sorted and unique":        {op: label.OpIn, values: []string{"b", "a", "b"}, want: "In [a b]"},
		"not in":                              {op: label.OpNotIn, values: []string{"a"}, want: "NotIn [a]"},
		"exists is a complement of nothing":   {op: label.OpExists, want: "Exists"},
		"does not exist allows nothing":       {op: label.OpDoesNotExist, want: "DoesNotExist"},
		"gt becomes an inclusive bound":       {op: label.OpGt, values: []string{"4"}, want: "Exists >=5"},
		"lt becomes an inclusive bound":       {op: label.OpLt, values: []string{"4"}, want: "Exists <=3"},
		"gte is taken as it stands":           {op: label.OpGte, values: []string{"4"}, want: "Exists >=4"},
		"lte is taken as it stands":           {op: label.OpLte, values: []string{"4"}, want: "Exists <=4"},
		"nothing is greater than the largest": {op: label.OpGt, values: []string{strconv.Itoa(math.MaxInt64)}, want: "DoesNotExist"},
		"no value is negative":                {op: label.OpLt, values: []string{"0"}, want: "DoesNotExist"},
		"a bound is one integer":              {op: label.OpGt, values: []string{"1", "2"}, fails: true},
		"a bound is no word":                  {op: label.OpGt, values: []string{"x"}, fails: true},
		"a bound is not negative":             {op: label.OpLt, values: []string{"-1"}, fails: true},
		"an unknown operator":                 {op: "Like", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := label.Parse(tc.op, tc.values)
			if (err != nil) != tc.fails {
				t.Fatalf("Parse(%s, %v): error %v, want one: %v", tc.op, tc.values, err, tc.fails)
			}
			if err == nil && got.String() != tc.want {
				t.Errorf("Parse(%s, %v) = %s, want %s", tc.op, tc.values, got, tc.want)
			}
		})
	}
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ a, b, want label.Requirement }{
		"lists":                                       {label.In("a", "b"), label.In("b", "c"), label.In("b")},
		"a list within bounds":                        {label.In("1", "5", "x"), label.Between(2, 9), label.In("5")},
		"tightest bounds":                             {label.Between(1, 7), label.Between(4, 9), label.Between(4, 7)},
		"bounds that miss each other":                 {label.Between(1, 3), label.Between(4, 9), label.In("a").Intersect(label.In("b"))},
		"exclusions add up":                           {label.NotIn("a"), label.NotIn("b"), label.NotIn("a", "b")},
		"exclusions outside bounds vanish":            {label.NotIn("1", "5"), label.Between(4, 9), label.Between(4, 9).Intersect(label.NotIn("5"))},
		"a range without its only number is nothing":  {label.Between(5, 5), label.NotIn("5"), label.In("a").Intersect(label.In("b"))},
		"a range without its last number is nothing":  {label.Between(math.MaxInt64, math.MaxInt64), label.NotIn("9223372036854775807"), label.In("a").Intersect(label.In("b"))},
		"a range without some of its numbers is left": {label.Between(5, 7), label.NotIn("5", "7"), label.Between(5, 7).Intersect(label.NotIn("5")).Intersect(label.NotIn("7"))},
		"in and not in: nothing, and absence neither": {label.In("a"), label.NotIn("a"), label.In("a").Intersect(label.In("b"))},
		"the larger minValues wins":                   {label.Exists().WithMinValues(2), label.In("a").WithMinValues(3), label.In("a").WithMinValues(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.a.Intersect(tc.b); !got.Equal(tc.want) {
				t.Errorf("(%s) ∩ (%s) = %s, want %s", tc.a, tc.b, got, tc.want)
			}
		})
	}
}

func anyRequirement(t *rapid.T, name string) label.Requirement {
	values := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "1", "2", "3", "4"}), 0, 3).Draw(t, name+" values")
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		return label.In(values...)
	case 1:
		return label.NotIn(values...)
	case 2:
		return label.Between(int64(rapid.IntRange(0, 4).Draw(t, name+" low")), int64(rapid.IntRange(0, 4).Draw(t, name+" high")))
	default:
		return label.Between(1, 3).Intersect(label.NotIn(values...))
	}
}

// TestAlgebra holds the laws that packing relies on, for every value there is here.
func TestAlgebra(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequirement(t, "a"), anyRequirement(t, "b")
		both := a.Intersect(b)
		if !both.Equal(b.Intersect(a)) {
			t.Fatalf("%s ∩ %s depends on the order", a, b)
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Fatalf("%s overlaps %s only one way round", a, b)
		}
		for _, v := range []string{"a", "b", "c", "0", "1", "2", "3", "4", "5"} {
			if both.Allows(v) != (a.Allows(v) && b.Allows(v)) {
				t.Fatalf("(%s) ∩ (%s) = %s is wrong about %s", a, b, both, v)
			}
			if both.Allows(v) && !a.Overlaps(b) {
				t.Fatalf("%s and %s share %s and do not overlap", a, b, v)
			}
			if both.AllowsAbsence() != (a.AllowsAbsence() && b.AllowsAbsence()) {
				t.Fatalf("(%s) ∩ (%s) = %s is wrong about absence", a, b, both)
			}
			if a.Within(b) && a.Allows(v) && !b.Allows(v) {
				t.Fatalf("%s is within %s but for %s", a, b, v)
			}
		}
		if !both.Within(a) && !both.AllowsAbsence() {
			t.Fatalf("%s is not within %s", both, a)
		}
	})
}

func TestCompatible(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"zone": true}
	for name, tc := range map[string]struct {
		has, want label.Requirements
		ok        bool
	}{
		"a key nobody defines must not be demanded": {label.Requirements{}, label.Requirements{"team": label.In("red")}, false},
		"a well-known key may be left open":         {label.Requirements{}, label.Requirements{"zone": label.In("a")}, true},
		"absence satisfies not in":                  {label.Requirements{}, label.Requirements{"team": label.NotIn("red")}, true},
		"shared keys must overlap":                  {label.Requirements{"zone": label.In("a")}, label.Requirements{"zone": label.In("b")}, false},
		"two absences agree":                        {label.Requirements{"team": label.DoesNotExist()}, label.Requirements{"team": label.NotIn("red")}, true},
		"exists wants a value":                      {label.Requirements{"team": label.DoesNotExist()}, label.Requirements{"team": label.Exists()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.has.Compatible(tc.want, known); got != tc.ok {
				t.Errorf("(%s).Compatible(%s) = %v", tc.has, tc.want, got)
			}
		})
	}
}
