package redact

import (
	"reflect"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// TestEveryFieldHasARule walks the types of a decision: for each string in it there is a rule, and no rule is for a
// field that there is not.
func TestEveryFieldHasARule(t *testing.T) {
	t.Parallel()
	rules := New().rules()
	met, seen := map[string]bool{}, map[reflect.Type]bool{}
	var walk func(of reflect.Type, field string)
	walk = func(of reflect.Type, field string) {
		switch of {
		case reflect.TypeFor[time.Time](), reflect.TypeFor[quantity.List](), reflect.TypeFor[label.Requirements](), reflect.TypeFor[verdict.Verdict](),
			reflect.TypeFor[cluster.Taint](), reflect.TypeFor[cluster.Toleration](), reflect.TypeFor[map[string]string]():
			return
		}
		switch of.Kind() {
		case reflect.String:
			if met[field] = true; of == reflect.TypeFor[string]() {
				if _, ok := rules[field]; !ok {
					t.Errorf("%s has no rule: say in rules what becomes of it", field)
				}
			}
		case reflect.Pointer, reflect.Slice:
			walk(of.Elem(), field)
		case reflect.Map:
			walk(of.Key(), field)
			if of.Elem().Kind() != reflect.String {
				walk(of.Elem(), field)
			}
		case reflect.Struct:
			for i := range of.NumField() {
				if !seen[of] {
					defer func() { walk(of.Field(i).Type, of.Name()+"."+of.Field(i).Name) }()
				}
			}
			seen[of] = true
		default:
		}
	}
	walk(reflect.TypeFor[record.Decision](), "")
	for field := range rules {
		if !met[field] {
			t.Errorf("there is a rule for %s, which is no string of a decision", field)
		}
	}
}
