package label_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// FuzzAlgebra checks the laws of the algebra for requirements as users write them: an operator
// and its operands, separated by commas. probe is a label's value.
func FuzzAlgebra(f *testing.F) {
	for _, seed := range [][5]string{
		{"In", "a,b", "NotIn", "a", "a"},
		{"Gt", "4", "Lt", "6", "5"},
		{"Gte", "9223372036854775807", "NotIn", "9223372036854775807", "9223372036854775807"},
		{"Lte", "0", "Gt", "0", "-1"},
		{"Exists", "", "DoesNotExist", "", ""},
		{"Lt", "0", "Exists", "", "-9223372036854775808"},
		{"In", "", "NotIn", "", ""},
		{"Gte", "5", "In", "05,5,+5,5.0", "05"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, opA, valuesA, opB, valuesB, probe string) {
		a, errA := label.Parse(label.Operator(opA), operands(valuesA))
		b, errB := label.Parse(label.Operator(opB), operands(valuesB))
		if errA != nil || errB != nil || !utf8.ValidString(valuesA+valuesB) { // others do not come over the API
			return
		}
		probes := append(slices.Concat(operands(valuesA), operands(valuesB)), probe, "", "0")
		for _, pair := range [][2]label.Requirement{{a, b}, {a, a}, {a.Intersect(b), a}, {a.Intersect(b), b}} {
			lawsHold(t, pair[0], pair[1], probes)
		}
		if c := a.Intersect(b); !c.Intersect(a).Equal(c) || !a.Intersect(c).Equal(c) {
			t.Errorf("(%s) ∩ (%s) = %s changes when it meets one of them again", a, b, c)
		}
		readsBack(t, a)
		readsBack(t, a.Intersect(b))
	})
}

// operands splits at commas.
func operands(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func lawsHold(t *testing.T, a, b label.Requirement, probes []string) {
	t.Helper()
	both := a.Intersect(b)
	if !both.Equal(b.Intersect(a)) {
		t.Errorf("(%s) ∩ (%s) depends on the order: %s or %s", a, b, both, b.Intersect(a))
	}
	if a.Overlaps(b) != b.Overlaps(a) {
		t.Errorf("%s overlaps %s only one way round", a, b)
	}
	if both.AllowsAbsence() != (a.AllowsAbsence() && b.AllowsAbsence()) {
		t.Errorf("(%s) ∩ (%s) = %s is wrong about absence", a, b, both)
	}
	for _, v := range probes {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && v != strconv.FormatInt(n, 10) {
			continue // no way to write a number that anybody has: an interval without its numbers is empty
		}
		if both.Allows(v) != (a.Allows(v) && b.Allows(v)) {
			t.Errorf("(%s) ∩ (%s) = %s is wrong about %q", a, b, both, v)
		}
		if both.Allows(v) && !a.Overlaps(b) {
			t.Errorf("%s and %s share %q and do not overlap", a, b, v)
		}
		if a.Within(b) && a.Allows(v) && !b.Allows(v) {
			t.Errorf("%s is within %s but for %q", a, b, v)
		}
	}
	if a.Overlaps(b) && !both.AllowsAbsence() {
		if _, ok := witness(both); !ok || both.IsImpossible() {
			t.Errorf("%s and %s overlap, and no value is allowed by %s", a, b, both)
		}
	}
}

// witness returns a value that a requirement allows.
func witness(r label.Requirement) (string, bool) {
	if r.Operator() == label.OpIn {
		return r.Values()[0], r.Allows(r.Values()[0])
	}
	lower, upper, hasLower, hasUpper := r.Bounds()
	if !hasLower && !hasUpper {
		lower, upper = 0, int64(len(r.Values()))
	}
	for i := range int64(len(r.Values())) + 1 { // of so many, one at least is not excluded
		up, down := strconv.FormatInt(lower+i, 10), strconv.FormatInt(upper-i, 10)
		switch {
		case r.Allows(up):
			return up, true
		case r.Allows(down):
			return down, true
		}
	}
	return "", false
}

func readsBack(t *testing.T, want label.Requirement) {
	t.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got label.Requirement
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s, written as %s: %v", want, text, err)
	}
	if !got.Equal(want) {
		t.Errorf("%s, written as %s, reads back as %s", want, text, got)
	}
}

// FuzzWritten checks that whatever can be read of a requirement is written and read the same.
func FuzzWritten(f *testing.F) {
	for _, seed := range []string{`{"in":["b","a","a"]}`, `{"notIn":[],"gte":5,"lte":3,"demanded":true}`, `{"in":[],"lte":-1,"minValues":-1}`, `{"notIn":["x"],"gte":-9223372036854775808}`, `{"in":null,"notIn":["1"]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r label.Requirement
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return
		}
		readsBack(t, r)
		lawsHold(t, r, label.Exists(), r.Values())
		lawsHold(t, r, label.NotIn("0"), r.Values())
		lawsHold(t, r, label.In("0", "1"), r.Values())
	})
}
